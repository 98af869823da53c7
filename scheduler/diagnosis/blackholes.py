"""Nodes that fail whatever comes to them, told from jobs that fail wherever they go.

A node that fails its jobs at once is free again at once, so a scheduler sends it the next ones: it eats the queue, and
operators of batch systems call it a black hole. What is decided here is pure; `muster.jobs.blackholes` reads what
happened, and cordons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Opinion(StrEnum):
    """What is thought of a node."""

    SOUND = "sound"
    SUSPECT = "suspect"
    """Jobs fail there in a row, and nobody knows how they do elsewhere: the next one should be tried there."""
    BLACK_HOLE = "black_hole"


@dataclass(frozen=True, slots=True)
class NodeRun:
    """What one job did on one node; `kind` is the same for jobs of one owner that run the same command."""

    job: int
    kind: str
    ran_s: float
    """How long it ran there, so far or in all; not how long it is kept when it has failed."""
    failed: bool = False
    """Whether it failed there, and by itself."""
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is thought of a node, and the evidence."""

    opinion: Opinion
    jobs: tuple[int, ...]
    """Those that failed there in a row, the newest first."""
    well_elsewhere: int
    """Stays of the same kinds on other nodes that went on or succeeded, and those that failed as quickly."""
    quick_elsewhere: int


def judge(here: Iterable[NodeRun], elsewhere: Iterable[NodeRun], *, in_a_row: int, quick_s: float) -> Judgement:
    """What is to be thought of a node, from what jobs did there and elsewhere of late, the newest first.

    1. A node is sound unless `in_a_row` jobs (at least 1) have failed there within `quick_s` seconds of their start,
       and none that went on lies between them. What is too young to tell, or was stopped by somebody, says nothing.
    2. That could be the jobs' own doing, as most quick failures of a cluster are. So what counts is how the same
       commands of the same owners do elsewhere: well more often than not, and it is the node; or it is they.
    3. Where that is not known yet, the node is suspect.
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
    """How many did well, and how many failed quickly."""
    return sum(_is_well(run, quick_s) for run in runs), sum(_is_quick_failure(run, quick_s) for run in runs)


def _is_well(run: NodeRun, quick_s: float) -> bool:
    return run.succeeded or run.ran_s > quick_s


def _is_quick_failure(run: NodeRun, quick_s: float) -> bool:
    return run.failed and run.ran_s <= quick_s
