"""What is remembered of a job in its memo: where it belongs, what it was before, and what it shall not be again.

A job that takes turns with others has a home: so many GPUs on each of some nodes, whichever are free there. An entry
for each node says so from the moment at which the job is suspended, or is told to take turns, until it has GPUs again.
How fast it was before a change, and on which nodes, stays there until the change has been judged. Beside whom it shall
not be, that it shall not be moved, and how far it may grow, is remembered for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.engine.context import CycleContext
from scheduler.model import Job, Running

Home = Mapping[int, int]  # node id -> GPUs, ascending

# When the policy wants to look at a suspended job again, and when it last looked for a better place in vain.
NEXT, LOOKED = "next", "looked"
# Units per second before the last change; that it shall stay; the most GPUs that it may grow to.
BEFORE, STAYS, MOST = "before", "stays", "most"
_NODE, _APART, _LEFT = "node ", "apart ", "left "


def home_of(job: Job) -> Home:
    """The home of a job that waits for its turn; empty for a job without one."""
    if not job.memo:
        return {}
    found = {int(key.removeprefix(_NODE)): int(gpus) for key, gpus in job.memo.items() if key.startswith(_NODE)}
    return dict(sorted(found.items()))


def has_home(job: Job) -> bool:
    """Whether the job waits for its turn at a home."""
    return any(key.startswith(_NODE) for key in job.memo)


def home_memo(home: Home) -> dict[str, float]:
    """What a memo says of a home."""
    return {f"{_NODE}{node_id}": float(gpus) for node_id, gpus in sorted(home.items())}


def home_left_by(run: Running) -> Home:
    """The home of a job that is suspended: what it holds, but for what it has grown by."""
    left, home = run.job.gpus_total, dict[int, int]()
    for share in sorted(run.allocations, key=lambda one: one.node_id):
        gpus = min(left, len(share.gpu_ids))
        if gpus:
            home[share.node_id] = gpus
        left -= gpus
    return home


def suits(job: Job, home: Home) -> bool:
    """Whether a home is of the size and the shape that the job asks for now."""
    if job.split:
        return sum(home.values()) == job.gpus
    return len(home) == job.nodes and all(gpus == job.gpus for gpus in home.values())


def apart_memo(other: Job) -> dict[str, float]:
    """What a memo says of another job that it shall not share GPUs with."""
    return {f"{_APART}{other.id}": 1.0}


def are_apart(one: Job, other: Job) -> bool:
    """Whether the memo of one of them says so of the other."""
    return f"{_APART}{other.id}" in one.memo or f"{_APART}{one.id}" in other.memo


def kept_memo(job: Job) -> dict[str, float]:
    """What is remembered of the job whatever becomes of it."""
    if not job.memo:
        return {}
    return {key: value for key, value in job.memo.items() if key in (STAYS, MOST) or key.startswith(_APART)}


def trial_memo(run: Running) -> dict[str, float]:
    """What a memo says of a job that gets other GPUs by choice: how fast it is now, if that is known, and where.

    Of one that shares its GPUs it says nothing: who is beside it counts for more than where it is.
    """
    if run.speed is None or run.rate is not None:
        return {}
    left = {f"{_LEFT}{share.node_id}": float(len(share.gpu_ids)) for share in run.allocations}
    return {BEFORE: run.speed, **left}


def left_home(job: Job) -> Home:
    """What the job held before the change that is to be judged."""
    left = {int(key.removeprefix(_LEFT)): int(gpus) for key, gpus in job.memo.items() if key.startswith(_LEFT)}
    return dict(sorted(left.items()))


def without_trial(memo: Mapping[str, float]) -> dict[str, float]:
    """The memo of a job whose last change has been judged."""
    return {key: value for key, value in memo.items() if key != BEFORE and not key.startswith(_LEFT)}


def memo_of(context: CycleContext, job: Job) -> Mapping[str, float]:
    """The memo of the job as it will be after the decision, as far as it goes."""
    return context.notes[job.id].memo if job.id in context.notes else job.memo


def forget(context: CycleContext, run: Running, *, trial: bool = False) -> None:
    """Begin anew with the memo of a job that gets other GPUs; on `trial`: it goes back if it gets slower."""
    memo = {**kept_memo(run.job), **(trial_memo(run) if trial else {})}
    if memo_of(context, run.job) != memo:
        context.note(run.job, run, memo)
