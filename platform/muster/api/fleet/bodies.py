"""Bodies of requests about nodes and maintenance."""

from muster.api.fields import Choice, Moment, Shape, Text, values
from muster.fleet.maintenance import MAX_REASON_CHARS
from muster.fleet.models import RunningJobs
from scheduler.diagnosis.health import HealthLevel
from scheduler.model.lifecycle import NodeHealth

NODE_ACTIONS = ("cordon", "drain", "move-off", "resume")


class NewMaintenance(Shape):
    """Maintenance to be planned, of either a node or a pool."""

    node = Text(required=False, max_length=63, help_text="The name of the node; give either this or `pool`.")
    pool = Text(
        required=False,
        max_length=63,
        help_text="The name of the pool, for all of its nodes; give either this or `node`.",
    )
    begins_at = Moment(required=False, help_text="Default: now.")
    ends_at = Moment(help_text="When the nodes take jobs again.")
    running_jobs = Choice(
        choices=values(RunningJobs),
        required=False,
        default=RunningJobs.WAIT,
        help_text="`wait` for the jobs that run there to end, or `move` the preemptible ones to other nodes.",
    )
    reason = Text(max_length=MAX_REASON_CHARS, help_text="Why the maintenance takes place.")


class CallOff(Shape):
    """The reason for calling maintenance off."""

    reason = Text(required=False, max_length=500, help_text="For the audit log and the event.")


class NodeFilter(Shape):
    """The filter of a list of nodes."""

    health = Choice(
        choices=[*values(HealthLevel), *values(NodeHealth)],
        required=False,
        help_text="ok, warning, failure: the health of its worst GPU. Others: the state of the node.",
    )


class NodeAction(Shape):
    """An action of an operator on a node."""

    action = Choice(
        choices=[(name, name) for name in NODE_ACTIONS],
        help_text=(
            "`cordon` and `drain` keep new jobs away, `move-off` also moves preemptible jobs "
            "to other nodes, `resume` lets jobs start again."
        ),
    )
    reason = Text(
        required=False, max_length=500, help_text="Shown to all users at the node. Every action but `resume` needs one."
    )


class NodeGone(Shape):
    """Why an operator takes a node for gone."""

    reason = Text(max_length=500, help_text="Why the node is declared gone; shown as the reason of its cordon.")
