"""The work that is expected of a sweep: without early stopping all steps, with it the rungs to come.

Of the n members that ever arrive at a rung ⌊n / keep⌋ go on, so n falls from rung to rung, and each segment between two
rungs costs its steps times the members that run it. The members that may run a segment share its expected work equally;
the segment in which a member is, it has to itself. Each member that ends early corrects the counts. ASHA lets early
arrivals go on more often than that; the expectation rises when it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from scheduler.search.rungs import Action, Judgement, Member, RungCount, Rungs


def steps_left(rungs: Rungs, members: Iterable[Member], judgement: Judgement) -> dict[int, float]:
    """The steps that each living member will still run in expectation, by its number."""
    verdicts = judgement.verdicts
    running = [member for member in members if member.living and verdicts[member.number].action is not Action.STOP]
    stage = {member.number: verdicts[member.number].passed for member in running}
    waiting = Counter(stage[member.number] for member in running if verdicts[member.number].action is Action.PAUSE)
    beyond = _beyond(rungs, judgement.counts, Counter(stage.values()), waiting)
    left = {}
    for member in running:
        at = stage[member.number]
        # A member that has run on while it waits has run a part of what lies beyond its rung.
        most = max(0, rungs.steps[-1] - member.step)
        left[member.number] = min(most, max(0, rungs.steps[at] - member.step) + beyond[at])
    return left


def _beyond(rungs: Rungs, counts: Sequence[RungCount], running: Counter[int], waiting: Counter[int]) -> list[float]:
    """By rung: the steps beyond it that are expected of each member that is to be judged there.

    `running` and `waiting` are the members to be judged at each rung, and those of them that have arrived there.
    """
    chances, coming = [], 0
    for rung, count in enumerate(counts[:-1]):
        to_judge = running[rung] + coming
        kept = rungs.kept_of(count.arrived - waiting[rung] + to_judge)
        coming = min(to_judge, max(0, kept - count.kept))
        chances.append(coming / to_judge if to_judge else 0.0)
    beyond = [0.0]
    for rung in reversed(range(len(chances))):
        beyond.insert(0, chances[rung] * (rungs.steps[rung + 1] - rungs.steps[rung] + beyond[0]))
    return beyond


def gpu_s_per_step(runs: Iterable[tuple[float, int]]) -> float | None:
    """GPU-seconds of a step, from the GPU-seconds and steps that members have had so far; None without a step."""
    gpu_s, steps = 0.0, 0
    for run_gpu_s, run_steps in runs:
        if run_steps > 0:
            gpu_s, steps = gpu_s + run_gpu_s, steps + run_steps
    return gpu_s / steps if steps else None
