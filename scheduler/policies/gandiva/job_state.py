"""Gandiva's part of a job's policy state: its time-slice nodes, its state before a change, and permanent limits.

A job that time-slices waits for its slice on fixed nodes: a number of GPUs on each, whichever are free there. The
entries for these nodes exist from its suspension, or its assignment to them, until it has GPUs again. The speed before
a change, and the nodes held then, stay until the change has been judged. Banned partners, the ban on moves and the
maximum growth are permanent.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.authoring import Job, Running
from scheduler.workshop import CycleContext

SliceNodes = Mapping[int, int]  # node id -> GPUs, ascending

# When the policy checks a suspended job next, and when it last looked in vain for a better place.
NEXT_CHECK, LAST_SEARCH = "next", "looked"
# Units per second before the last change; whether the job may not be moved; its maximum number of GPUs.
SPEED_BEFORE, NO_MOVES, MAX_GPUS = "before", "stays", "most"
_NODE, _BANNED, _BEFORE = "node ", "apart ", "left "


def slice_nodes_of(job: Job) -> SliceNodes:
    """The time-slice nodes of a suspended job; empty without any."""
    if not job.policy_state:
        return {}
    found = {int(key.removeprefix(_NODE)): int(gpus) for key, gpus in job.policy_state.items() if key.startswith(_NODE)}
    return dict(sorted(found.items()))


def waits_for_slice(job: Job) -> bool:
    """True if the job waits for a time slice."""
    return any(key.startswith(_NODE) for key in job.policy_state)


def slice_nodes_state(slice_nodes: SliceNodes) -> dict[str, float]:
    """The entries for time-slice nodes."""
    return {f"{_NODE}{node_id}": float(gpus) for node_id, gpus in sorted(slice_nodes.items())}


def slice_nodes_left_by(run: Running) -> SliceNodes:
    """The time-slice nodes of a job that is suspended now: what it holds, without what it has grown by."""
    left = run.job.request.gpus_total if run.job.request.elastic else run.gpus
    slice_nodes = dict[int, int]()
    for share in sorted(run.allocations, key=lambda one: one.node_id):
        gpus = min(left, len(share.gpu_ids))
        if gpus:
            slice_nodes[share.node_id] = gpus
        left -= gpus
    return slice_nodes


def suits(job: Job, slice_nodes: SliceNodes) -> bool:
    """True if these nodes match the size and shape of one of the job's choices now."""
    sizes = {choice.gpus for choice in job.request.choices}
    if job.request.divisible:
        return sum(slice_nodes.values()) in sizes
    found = set(slice_nodes.values())
    return len(slice_nodes) == job.request.nodes and len(found) == 1 and found <= sizes


def ban_state(other: Job) -> dict[str, float]:
    """The entry that bans sharing GPUs with another job."""
    return {f"{_BANNED}{other.id}": 1.0}


def are_banned(one: Job, other: Job) -> bool:
    """True if either job's policy state bans sharing GPUs with the other."""
    return f"{_BANNED}{other.id}" in one.policy_state or f"{_BANNED}{one.id}" in other.policy_state


def lasting_state(job: Job) -> dict[str, float]:
    """The permanent entries of the job."""
    if not job.policy_state:
        return {}
    return {
        key: value for key, value in job.policy_state.items() if key in (NO_MOVES, MAX_GPUS) or key.startswith(_BANNED)
    }


def probation_state(run: Running) -> dict[str, float]:
    """The entries for a job that changes its GPUs by the policy's choice: its speed now, if known, and its nodes.

    A job that shares GPUs gets none: its partner affects its speed more than its place.
    """
    if run.speed is None or run.rate is not None:
        return {}
    left = {f"{_BEFORE}{share.node_id}": float(len(share.gpu_ids)) for share in run.allocations}
    return {SPEED_BEFORE: run.speed, **left}


def nodes_before_change(job: Job) -> SliceNodes:
    """The nodes that the job held before the change on probation."""
    left = {
        int(key.removeprefix(_BEFORE)): int(gpus) for key, gpus in job.policy_state.items() if key.startswith(_BEFORE)
    }
    return dict(sorted(left.items()))


def without_probation(policy_state: Mapping[str, float]) -> dict[str, float]:
    """The policy state of a job whose last change has been judged."""
    return {key: value for key, value in policy_state.items() if key != SPEED_BEFORE and not key.startswith(_BEFORE)}


def state_of(context: CycleContext, job: Job) -> Mapping[str, float]:
    """The policy state of the job as the decision leaves it so far."""
    return context.notes[job.id].policy_state if job.id in context.notes else job.policy_state


def reset_state(context: CycleContext, run: Running, *, probation: bool = False) -> None:
    """Reset the policy state of a job that changes its GPUs; with `probation` the change is on probation."""
    policy_state = {**lasting_state(run.job), **(probation_state(run) if probation else {})}
    if state_of(context, run.job) != policy_state:
        context.note(run.job, run, policy_state)
