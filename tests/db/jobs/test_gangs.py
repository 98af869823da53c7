"""An attempt is locked with its job and its allocations in one statement, in the documented order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import DatabaseError, transaction

from muster.jobs.attempt.gangs import Gang, locked_by_rank, locked_gang
from muster.jobs.models import Allocation, Attempt, Job
from scheduler.model.lifecycle import AllocationState, AttemptState
from tests.db.stories import Other, World, claim, make_world, now_of, place, ranks, run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


def by_rank(allocation: Allocation) -> Callable[[], tuple[Gang, Allocation]]:
    def act() -> tuple[Gang, Allocation]:
        with transaction.atomic():
            return locked_by_rank(node_id=allocation.node_id, allocation_id=allocation.pk, fence=allocation.attempt_id)

    return act


def is_free(row: Job | Attempt | Allocation) -> bool:
    """True if no other transaction has locked the row."""
    try:
        with transaction.atomic():
            type(row).objects.select_for_update(no_key=True, nowait=True).get(pk=row.pk)  # type: ignore[union-attr]
    except DatabaseError:
        return False
    return True


def test_a_rank_is_locked_after_its_attempt_and_that_after_its_job(world: World) -> None:
    allocation = ranks(place(world))[0]
    attempt = allocation.attempt
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=attempt.job_id)
        waiting = Other(by_rank(allocation)).until_it_waits()
        assert (is_free(attempt), is_free(allocation)) == (True, True)
    waiting.result()
    with transaction.atomic():
        Attempt.objects.select_for_update(no_key=True).get(pk=attempt.pk)
        waiting = Other(by_rank(allocation)).until_it_waits()
        assert (is_free(attempt.job), is_free(allocation)) == (False, True)
    waiting.result()


def test_an_attempt_is_locked_after_its_job(world: World) -> None:
    attempt = place(world)

    def act() -> Gang:
        with transaction.atomic():
            return locked_gang(attempt.pk)

    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=attempt.job_id)
        waiting = Other(act).until_it_waits()
        assert is_free(attempt)
    waiting.result()
    with transaction.atomic():
        Attempt.objects.select_for_update(no_key=True).get(pk=attempt.pk)
        waiting = Other(act).until_it_waits()
        assert not is_free(attempt.job)
    waiting.result()


@pytest.mark.parametrize("nodes", [1, 2])
def test_who_waited_for_the_lock_sees_what_the_other_has_changed(world: World, nodes: int) -> None:
    attempt = place(world, nodes=nodes)
    allocation = ranks(attempt)[0]
    with transaction.atomic():
        for one in ranks(attempt):
            claim(one)
        for one in ranks(attempt):
            run(one)
        waiting = Other(by_rank(allocation)).until_it_waits()
    gang, rank = waiting.result()
    assert (gang.attempt.state, rank.state) == (AttemptState.RUNNING, AllocationState.ACTIVE)
    assert gang.job.started_at is not None
    assert {one.state for one in gang.allocations} == {AllocationState.ACTIVE}


def test_a_row_is_read_whole(world: World) -> None:
    allocation = ranks(place(world))[0]
    gang, rank = by_rank(allocation)()
    for found in (gang.job, gang.attempt, rank):
        stored = now_of(found)
        names = [field.attname for field in found._meta.concrete_fields]
        assert [getattr(found, name) for name in names] == [getattr(stored, name) for name in names]
