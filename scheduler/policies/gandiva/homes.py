"""What Gandiva keeps in a job's policy state: its time-slice nodes, its state before a change, and permanent limits.

A job that time-slices waits for its slice on fixed nodes: a number of GPUs on each, whichever are free there. The
entries for these nodes exist from its suspension, or its assignment to them, until it has GPUs again. The speed before
a change, and the nodes held then, stay until the change has been judged. Banned partners, the ban on moves and the
maximum growth are permanent.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.engine.context import CycleContext
from scheduler.model import Job, Running

Home = Mapping[int, int]  # node id -> GPUs, ascending

# When the policy checks a suspended job next, and when it last looked in vain for a better place.
NEXT, LOOKED = "next", "looked"
# Units per second before the last change; whether the job may not be moved; its maximum number of GPUs.
BEFORE, STAYS, MOST = "before", "stays", "most"
_NODE, _APART, _LEFT = "node ", "apart ", "left "


def home_of(job: Job) -> Home:
    """The time-slice nodes of a suspended job; empty without any."""
    if not job.memo:
        return {}
    found = {int(key.removeprefix(_NODE)): int(gpus) for key, gpus in job.memo.items() if key.startswith(_NODE)}
    return dict(sorted(found.items()))


def has_home(job: Job) -> bool:
    """Whether the job waits for a time slice."""
    return any(key.startswith(_NODE) for key in job.memo)


def home_memo(home: Home) -> dict[str, float]:
    """The entries for time-slice nodes."""
    return {f"{_NODE}{node_id}": float(gpus) for node_id, gpus in sorted(home.items())}


def home_left_by(run: Running) -> Home:
    """The time-slice nodes of a job that is suspended now: what it holds, without what it has grown by."""
    left, home = run.job.gpus_total, dict[int, int]()
    for share in sorted(run.allocations, key=lambda one: one.node_id):
        gpus = min(left, len(share.gpu_ids))
        if gpus:
            home[share.node_id] = gpus
        left -= gpus
    return home


def suits(job: Job, home: Home) -> bool:
    """Whether these nodes match the size and shape that the job asks for now."""
    if job.split:
        return sum(home.values()) == job.gpus
    return len(home) == job.nodes and all(gpus == job.gpus for gpus in home.values())


def apart_memo(other: Job) -> dict[str, float]:
    """The entry that bans sharing GPUs with another job."""
    return {f"{_APART}{other.id}": 1.0}


def are_apart(one: Job, other: Job) -> bool:
    """Whether either job's policy state bans sharing GPUs with the other."""
    return f"{_APART}{other.id}" in one.memo or f"{_APART}{one.id}" in other.memo


def kept_memo(job: Job) -> dict[str, float]:
    """The permanent entries of the job."""
    if not job.memo:
        return {}
    return {key: value for key, value in job.memo.items() if key in (STAYS, MOST) or key.startswith(_APART)}


def trial_memo(run: Running) -> dict[str, float]:
    """The entries for a job that changes its GPUs by the policy's choice: its speed now, if known, and its nodes.

    A job that shares GPUs gets none: its partner affects its speed more than its place.
    """
    if run.speed is None or run.rate is not None:
        return {}
    left = {f"{_LEFT}{share.node_id}": float(len(share.gpu_ids)) for share in run.allocations}
    return {BEFORE: run.speed, **left}


def left_home(job: Job) -> Home:
    """What the job held before the change on probation."""
    left = {int(key.removeprefix(_LEFT)): int(gpus) for key, gpus in job.memo.items() if key.startswith(_LEFT)}
    return dict(sorted(left.items()))


def without_trial(memo: Mapping[str, float]) -> dict[str, float]:
    """The policy state of a job whose last change has been judged."""
    return {key: value for key, value in memo.items() if key != BEFORE and not key.startswith(_LEFT)}


def memo_of(context: CycleContext, job: Job) -> Mapping[str, float]:
    """The policy state of the job as the decision leaves it so far."""
    return context.notes[job.id].memo if job.id in context.notes else job.memo


def forget(context: CycleContext, run: Running, *, trial: bool = False) -> None:
    """Reset the policy state of a job that changes its GPUs; with `trial` the change is on probation."""
    memo = {**kept_memo(run.job), **(trial_memo(run) if trial else {})}
    if memo_of(context, run.job) != memo:
        context.note(run.job, run, memo)
