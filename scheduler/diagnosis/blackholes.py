"""Detects black-hole nodes: nodes that fail every job, as opposed to jobs that fail on every node.

A node that fails its jobs at once is free again at once, so the scheduler sends it the next ones. Operators of batch
systems call such a node a black hole. The decision here is pure; `muster.jobs.attempt.blackholes` reads the history
and cordons the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Opinion(StrEnum):
    """The judgement about a node."""

    SOUND = "sound"
    SUSPECT = "suspect"
    """Jobs fail there in a row, and there is no comparison yet: the scheduler should try the next such job elsewhere.
    """
    BLACK_HOLE = "black_hole"


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One run of a job on one node; `kind` is equal for jobs of one owner that run the same command."""

    job: int
    kind: str
    ran_s: float
    """Seconds that the job ran there, so far or in total, without the time for which a failed job is retained."""
    failed: bool = False
    """True if the job failed there by itself."""
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The opinion about a node, and the evidence for it."""

    opinion: Opinion
    jobs: tuple[int, ...]
    """The jobs that failed there in a row, newest first."""
    well_elsewhere: int
    """Runs of the same kinds on other nodes: those that went on or succeeded, and those that failed as quickly."""
    quick_elsewhere: int


def judge(here: Iterable[NodeRun], elsewhere: Iterable[NodeRun], *, in_a_row: int, quick_s: float) -> Judgement:
    """The opinion about a node from recent runs there and elsewhere, newest first.

    1. A node is sound unless `in_a_row` jobs (at least 1) in a row failed there within `quick_s` seconds of their
       start. A run that lasted longer, or succeeded, ends the row. Runs too young to judge, or stopped by a user, do
       not count.
    2. Most quick failures in a cluster are the jobs' own fault. So the same commands of the same owners on other nodes
       decide: if more of those runs did well than failed quickly, the node is at fault; otherwise the jobs are.
    3. Without such runs the node is suspect.
    """
    failed = _failed_in_a_row(here, quick_s)
    jobs = tuple(dict.fromkeys(run.job for run in failed))
    if len(jobs) < in_a_row:
        return Judgement(Opinion.SOUND, jobs, 0, 0)
    kinds = {run.kind for run in failed}
    well, quick = _tally([run for run in elsewhere if run.kind in kinds], quick_s)
    if well > quick:
        opinion = Opinion.BLACK_HOLE
    elif quick:
        opinion = Opinion.SOUND
    else:
        opinion = Opinion.SUSPECT
    return Judgement(opinion, jobs, well, quick)


def _failed_in_a_row(here: Iterable[NodeRun], quick_s: float) -> list[NodeRun]:
    failed = []
    for run in here:
        if _is_well(run, quick_s):
            break
        if _is_quick_failure(run, quick_s):
            failed.append(run)
    return failed


def _tally(runs: Sequence[NodeRun], quick_s: float) -> tuple[int, int]:
    """The number of runs that did well, and of those that failed quickly."""
    return sum(_is_well(run, quick_s) for run in runs), sum(_is_quick_failure(run, quick_s) for run in runs)


def _is_well(run: NodeRun, quick_s: float) -> bool:
    return run.succeeded or run.ran_s > quick_s


def _is_quick_failure(run: NodeRun, quick_s: float) -> bool:
    return run.failed and run.ran_s <= quick_s
