"""An attempt under lock, with its job and its allocations: what every move of an attempt begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from muster.common.errors import Conflict, NotFound
from muster.common.rows import Whole
from muster.common.statements import Statement
from muster.jobs.models import Allocation, Attempt, Job
from muster.jobs.transitions import Moves
from scheduler.model.lifecycle import AllocationState


@dataclass(slots=True)
class Gang:
    """An attempt under lock, with its job and every allocation, and the moves that were not written yet."""

    job: Job
    attempt: Attempt
    allocations: list[Allocation]
    moves: Moves = field(default_factory=Moves)

    @property
    def all_released(self) -> bool:
        """Whether nothing of it is held any more."""
        return all(allocation.state == AllocationState.RELEASED for allocation in self.allocations)


Held = tuple[Gang, Allocation]
"""A gang under lock, and one of its ranks."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank as its executor names it: the allocation, its node, and the fencing token that the executor has.

    `held`: what the caller's transaction has of it under lock already.
    """

    node_id: int
    allocation_id: int
    fence: int
    held: Held | None = None

    def locked(self) -> Held:
        """Its gang under lock, and the rank.

        Raises:
            NotFound: the node has no such allocation.
            Conflict: the fence is not that of the allocation's attempt.
        """
        if self.held is None:
            return locked_by_rank(node_id=self.node_id, allocation_id=self.allocation_id, fence=self.fence)
        if self.held[0].attempt.pk != self.fence:
            raise Conflict("the fence is not that of this allocation's attempt")
        return self.held


_JOB, _ATTEMPT, _RANK = Whole(Job, alias="job"), Whole(Attempt, alias="attempt"), Whole(Allocation, alias="rank")

# Postgres locks the rows of a join in the order of the names behind OF, which is the documented order. Of a row that
# it had to wait for it returns the newest version. A row that it does not lock would be one of before the wait: so the
# rank is locked too, and the other ranks are read by the next statement.
_BY_RANK = Statement(
    f"SELECT {_JOB.columns}, {_ATTEMPT.columns}, {_RANK.columns}"  # noqa: S608 (the models' own columns)
    " FROM jobs_allocation rank JOIN jobs_attempt attempt ON attempt.id = rank.attempt_id"
    " JOIN jobs_job job ON job.id = attempt.job_id"
    " WHERE rank.id = %s AND rank.node_id = %s AND rank.attempt_id = %s"
    " FOR NO KEY UPDATE OF job, attempt, rank"
)
_FREE = Statement(
    f"SELECT {_JOB.columns}, {_ATTEMPT.columns}, {_RANK.columns}"  # noqa: S608
    " FROM jobs_allocation rank JOIN jobs_attempt attempt ON attempt.id = rank.attempt_id"
    " JOIN jobs_job job ON job.id = attempt.job_id"
    " WHERE rank.id = ANY(%s) AND rank.node_id = %s"
    " FOR NO KEY UPDATE OF job, attempt, rank SKIP LOCKED"
)
_BY_ATTEMPT = Statement(
    f"SELECT {_JOB.columns}, {_ATTEMPT.columns}"  # noqa: S608
    " FROM jobs_attempt attempt JOIN jobs_job job ON job.id = attempt.job_id"
    " WHERE attempt.id = %s"
    " FOR NO KEY UPDATE OF job, attempt"
)
_RANKS = Statement(f"SELECT {_RANK.columns} FROM jobs_allocation rank WHERE rank.attempt_id = %s")  # noqa: S608


def locked_by_rank(*, node_id: int, allocation_id: int, fence: int) -> Held:
    """The gang of a rank on this node, under lock, and the rank.

    Raises:
        NotFound: the node has no such allocation.
        Conflict: the fence is not that of the allocation's attempt.
    """
    rows = _BY_RANK.rows(allocation_id, node_id, fence)
    if not rows:
        if Allocation.objects.filter(pk=allocation_id, node_id=node_id).exists():
            raise Conflict("the fence is not that of this allocation's attempt")
        raise NotFound("this node has no such allocation")
    values = iter(rows[0])
    return _with_rank(_JOB.take(values), _ATTEMPT.take(values), _RANK.take(values))


def locked_free(*, node_id: int, allocation_ids: Sequence[int]) -> dict[int, Held]:
    """Of these ranks of the node those whose gangs are not locked by another transaction, under lock.

    It waits for no lock, so it may be called by a transaction that holds any. Of two ranks of one gang it returns one.
    """
    held: dict[int, Held] = {}
    for row in _FREE.rows(list(allocation_ids), node_id):
        values = iter(row)
        job, attempt, rank = _JOB.take(values), _ATTEMPT.take(values), _RANK.take(values)
        if all(gang.attempt.pk != attempt.pk for gang, _ in held.values()):
            held[rank.pk] = _with_rank(job, attempt, rank)
    return held


def locked_gang(attempt_id: int) -> Gang:
    """The gang of an attempt under lock. The locks of job and attempt guard the allocations, too."""
    (row,) = _BY_ATTEMPT.rows(attempt_id)
    values = iter(row)
    job, attempt = _JOB.take(values), _ATTEMPT.take(values)
    return _gang(job, attempt, _ranks_of(attempt))


def _with_rank(job: Job, attempt: Attempt, rank: Allocation) -> Held:
    gang = _gang(job, attempt, [rank] if attempt.request.nodes == 1 else _ranks_of(attempt))
    return gang, next(allocation for allocation in gang.allocations if allocation.pk == rank.pk)


def _ranks_of(attempt: Attempt) -> list[Allocation]:
    found = [_RANK.take(iter(values)) for values in _RANKS.rows(attempt.pk)]
    return sorted(found, key=attrgetter("pk"))


def _gang(job: Job, attempt: Attempt, allocations: list[Allocation]) -> Gang:
    attempt.job = job
    for allocation in allocations:
        allocation.attempt = attempt
    return Gang(job, attempt, allocations)
