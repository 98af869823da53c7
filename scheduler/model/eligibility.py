"""Which nodes are closed to a job though they are in service: they cannot start it, or must be free before it ends.

The law asks this of each place, and placements of each demand, so that nothing is placed where it could not stay. A
node that is to be free from some moment on takes until then only what has ended by then:

- a job with a time limit, if that and its grace are over by then; they are counted from now, and not from when the job
  really starts, so a start that takes long can reach into the maintenance by as much;
- a job without a limit, only if preemptible jobs are moved off the node then, and the job goes on from a checkpoint.

A single-user node runs all jobs as one account, where a job can read and signal every other one. It takes jobs of one
tenant only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from scheduler.model import Job, Node
from scheduler.model.lifecycle import RuntimeNeed

OPEN: frozenset[int] = frozenset()


def can_start(node: Node, form: RuntimeNeed) -> bool:
    """Whether the node starts jobs of this form, as far as anybody has said."""
    return form is RuntimeNeed.ANY or not node.forms or form in node.forms


def admits_tenant(node: Node, tenant_id: int) -> bool:
    """Whether jobs of the tenant may run on the node."""
    return not node.single_user or node.tenant_id == tenant_id


def opens_by(node: Node, moment: float) -> bool:
    """Whether the node takes jobs again at that moment: what it was to be free for is over by then."""
    return node.opens_at is not None and node.opens_at <= moment


def closes_before(node: Node, job: Job, now: float) -> bool:
    """Whether the node has to be free before the job, if it starts now, has surely ended."""
    if node.closes_at is None or opens_by(node, now):
        return False
    if job.time_limit_s is not None:
        return now + job.max_run_s > node.closes_at
    moves = node.clears and job.preemptible and job.checkpoints
    return now >= node.closes_at or not moves


def why_closed(node: Node, job: Job, now: float) -> str:
    """Why the node is closed to the job, in a few words; empty when it is not."""
    if not can_start(node, job.form):
        return f"{node.name} {CANNOT[job.form]}"
    if not admits_tenant(node, job.tenant_id):
        which = "no tenant's" if node.tenant_id is None else "another tenant's"
        return f"{node.name} runs all jobs as one account, and takes {which} jobs"
    if closes_before(node, job, now):
        return f"{node.name} is to be free from {moment(node.closes_at or now)} on: {node.closing}"
    return ""


def moment(at: float) -> str:
    """A moment as people read it, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


CANNOT: Mapping[RuntimeNeed, str] = {
    RuntimeNeed.ANY: "starts nothing",
    RuntimeNeed.PLAIN: "runs jobs in containers, and this job names no image",
    RuntimeNeed.IMAGE: "runs no containers, and this job names an image",
    RuntimeNeed.CONTAINER: "has no image for jobs that name none, and this job asks for shm",
    RuntimeNeed.IMAGE_VOLUMES: "mounts no volumes, and this job asks for mounts",
    RuntimeNeed.CONTAINER_VOLUMES: "mounts no volumes for jobs without an image, and this job asks for mounts",
}


class NodeEligibility:
    """The nodes that are closed to jobs at one moment; jobs that are alike in this share one set."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        # Most pools close nothing to anybody, and then no job is looked at.
        self._nodes = tuple(node for node in nodes if node.forms or node.closes_at is not None or node.single_user)
        self._timed = any(node.closes_at is not None for node in self._nodes)
        self._by_tenant = any(node.single_user for node in self._nodes)
        self._known: dict[tuple[object, ...], frozenset[int]] = {}

    def to(self, job: Job, now: float) -> frozenset[int]:
        """The ids of the nodes that are closed to the job now."""
        if not self._nodes:
            return OPEN
        kind = self.kind(job)
        key = (now, *kind) if self._timed else kind
        found = self._known.get(key)
        if found is None:
            closed = (
                node.id
                for node in self._nodes
                if not can_start(node, job.form)
                or not admits_tenant(node, job.tenant_id)
                or closes_before(node, job, now)
            )
            found = self._known[key] = frozenset(closed) or OPEN
        return found

    def kind(self, job: Job) -> tuple[object, ...]:
        """What two jobs must have in common to which the same nodes are closed."""
        tenant_id = job.tenant_id if self._by_tenant else None
        if not self._timed:
            return (job.form, tenant_id)
        moves = job.time_limit_s is None and job.preemptible and job.checkpoints
        return (job.form, tenant_id, job.max_run_s, moves)
