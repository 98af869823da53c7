"""Jobs that wait for other jobs, and jobs that begin at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.arrays.services import submit_array
from muster.common.clock import database_now
from muster.common.errors import Conflict, Invalid
from muster.dispatch.explain.selectors import why
from muster.jobs.attempt.ending import cancel_for
from muster.jobs.groups.ends import end_if_over
from muster.jobs.groups.services import cancel_group
from muster.jobs.models import Dependency, Job, JobGroup
from muster.jobs.queue import hold_job, release_job, reorder_jobs
from muster.jobs.services import cancel_job, clone_job, edit_job, submit_job
from muster.jobs.submit.notes import notes_of
from muster.jobs.transitions import move_job, move_jobs
from muster.sweeps.retry import retry_member
from muster.sweeps.services import submit_sweep
from scheduler.model.lifecycle import HoldReason, JobState
from scheduler.model.reasons import Reason
from tests.db.stories import (
    Other,
    World,
    claim,
    cycle,
    end,
    kinds,
    make_world,
    now_of,
    place,
    ranks,
    run,
    start,
    submit,
)
from tests.factories import make_tenant, make_user, make_vc
from tests.profiles import examples

pytestmark = pytest.mark.django_db

ENDS = {"succeeded": Reason.COMPLETED, "failed": Reason.EXIT_NONZERO}
NO_RETRY = {"retry": {"max": 0}}


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


def ended(world: World, how: str) -> Job:
    """A job that has ended so."""
    attempt = start(world, **NO_RETRY)
    if how == "cancelled":
        cancel_for(job_id=attempt.job_id, reason=Reason.CANCELLED_BY_USER, detail="", actor="test")
    end(ranks(attempt)[0], ENDS.get(how, Reason.CANCELLED_BY_USER))
    return now_of(attempt.job)


def leave(job: Job, target: str) -> None:
    """The job, which is waiting, ends so, without the machinery of an attempt."""
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job.pk)
        if target != "cancelled":
            assert move_job(job, JobState.ACTIVE, actor="test")
        assert move_job(job, JobState(target), actor="test")


def sweep(world: World, values: int = 2, **spec: Any) -> JobGroup:
    """A sweep with a member for each value."""
    inner = {"method": "grid", "metric": "loss", "params": {"lr": list(range(values))}, "max_failures": 100}
    data = {"command": "true", "vc": world.vc.name, **NO_RETRY, **spec, "sweep": inner}
    return submit_sweep(user=world.user, data=data)[0]


def members(group: JobGroup) -> list[Job]:
    return list(Job.objects.filter(group=group).order_by("member"))


def is_free(job: Job) -> bool:
    found = now_of(job)
    return bool(found.startable and not found.blocked_by)


def reason_of(job: Job) -> tuple[str, str]:
    found = now_of(job)
    return found.state, found.reason


IN_VAIN = (JobState.CANCELLED, Reason.DEPENDENCY_NEVER_MET)


def test_no_cycle_sees_a_job_before_the_other_has_succeeded(world: World) -> None:
    first = start(world)
    second = submit(world, after=[str(first.job_id)])
    cycle(world)
    assert (now_of(second).state, now_of(second).hold_reason) == (JobState.QUEUED, HoldReason.DEPENDENCY)
    end(ranks(first)[0])
    assert (now_of(second).blocked_by, now_of(second).hold) == (0, None)
    assert kinds(second) == ["job.submitted", "job.unblocked"]
    cycle(world)
    assert now_of(second).state == JobState.ACTIVE


def test_a_job_that_waits_says_for_what_and_has_no_place_in_the_queue(world: World) -> None:
    first, other = submit(world), submit(world)
    job = submit(world, after=[f"{first.pk}:ok", f"{other.pk}:any?{first.pk}:failed"])
    answer = why(now_of(job))
    told = f"waits for job {first.pk} to succeed and job {other.pk} to end or job {first.pk} to fail"
    assert (answer["reason"], answer["detail"], answer["position"]) == (HoldReason.DEPENDENCY, told, None)
    assert answer["evidence"] == {"jobs": [first.pk, other.pk]}
    assert answer["helps"] == [f"job {first.pk} succeeds", f"job {other.pk} ends or job {first.pk} fails"]
    with pytest.raises(Conflict, match="waits for other jobs and has no place"):
        reorder_jobs(user=world.user, vc=world.vc, job_ids=[job.pk, first.pk])


def test_a_job_waits_for_a_time_after_the_start_of_the_other(world: World) -> None:
    first, never = place(world), submit(world)
    second = submit(world, after=[f"{first.job_id}:started+10m"])
    told = f"waits for job {first.job_id} to start, and 10m more"
    assert now_of(second).hold["detail"] == told
    (rank,) = ranks(first)
    claim(rank)
    run(rank)
    started_at = now_of(first.job).started_at
    late = submit(world, after=[f"{first.job_id}:started+600s", f"{first.job_id}:started+90s"])
    for job in (second, late):
        assert (now_of(job).blocked_by, now_of(job).eligible_at) == (0, started_at + timedelta(minutes=10))
    cycle(world)
    assert (now_of(second).state, now_of(second).hold_reason) == (JobState.QUEUED, HoldReason.BEGIN)
    last = submit(world, after=[f"{never.pk}:started+1h"])
    cancel_job(user=world.user, job=never)
    assert now_of(last).eligible_at == now_of(never).ended_at + timedelta(hours=1)


def test_a_job_waits_for_one_member_of_an_array(world: World) -> None:
    data = {"command": "true", "vc": world.vc.name, "array": "3-5", **NO_RETRY}
    array, _ = submit_array(user=world.user, data=data)
    four = Job.objects.get(group=array, array_index=4)
    job = submit(world, after=[f"{array.pk}_4:ok", f"{array.pk}_3:failed?{array.pk}_5:any"])
    assert now_of(job).hold["detail"].startswith(f"waits for job {four.pk} to succeed and job ")
    leave(four, "succeeded")
    leave(Job.objects.get(group=array, array_index=5), "succeeded")
    assert is_free(job)
    with pytest.raises(Invalid, match=f"there is no job {array.pk}_6"):
        submit(world, after=[f"{array.pk}_6"])
    with pytest.raises(Invalid, match=f"there is no job {four.pk}_0"):
        submit(world, after=[f"{four.pk}_0"])
    with pytest.raises(Invalid, match=f"{array.pk}_4 is one job and has no members"):
        submit(world, after=[f"{array.pk}_4:corr"])


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("7:ok+10m", "only a start has a time after it"),
        ("7:started+soon", "soon"),
        ("7:started+400d", "more than a year"),
        ("7:started+5m?8:ok", "no alternative"),
        ("7_:ok", "write 1042:ok"),
    ],
)
def test_an_entry_that_is_written_wrongly_is_refused(world: World, entry: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        submit(world, after=[entry])


def test_a_job_waits_until_the_other_runs(world: World) -> None:
    first = place(world)
    second = submit(world, after=[f"{first.job_id}:started"])
    (rank,) = ranks(first)
    claim(rank)
    assert not is_free(second)
    run(rank)
    assert is_free(second)


def test_jobs_that_can_never_start_end_with_the_reason_and_theirs_follow(world: World) -> None:
    first = start(world, **NO_RETRY)
    second = submit(world, after=[f"{first.job_id}:ok"])
    third = submit(world, after=[f"{second.pk}:ok"])
    otherwise = submit(world, after=[f"{third.pk}:failed"])
    end(ranks(first)[0], Reason.EXIT_NONZERO)
    assert reason_of(second) == reason_of(third) == IN_VAIN
    told = f"it was to wait for job {first.job_id} to succeed, which failed (exited with an error)"
    assert now_of(second).reason_detail == told
    assert is_free(otherwise)


def test_a_job_that_is_submitted_held_waits_for_its_release_and_for_others(world: World) -> None:
    first, held = submit(world), submit(world, hold=True)
    assert (now_of(held).hold_reason, is_free(held), kinds(held)) == ("held", False, ["job.submitted", "job.held"])
    assert "It is held back until it is released" in notes_of(held)
    second = submit(world, hold=True, after=[f"{first.pk}:any"])
    release_job(user=world.user, job=held)
    assert is_free(held)
    release_job(user=world.user, job=second)
    assert now_of(second).hold["detail"] == f"waits for job {first.pk} to end"
    last = submit(world, hold=True, after=[f"{first.pk}:any"])
    leave(first, "succeeded")
    assert (is_free(second), is_free(last), now_of(last).hold_reason) == (True, False, "held")
    release_job(user=world.user, job=last)
    assert is_free(last)


def test_a_cancel_a_hold_and_a_release_work_while_a_job_waits_for_others(world: World) -> None:
    first = submit(world)
    second = submit(world, after=[f"{first.pk}:any"])
    last = submit(world, after=[f"{second.pk}:ok"])
    hold_job(user=world.user, job=second)
    leave(first, "succeeded")
    assert (now_of(second).hold_reason, is_free(second)) == (HoldReason.HELD, False)
    release_job(user=world.user, job=second)
    assert (now_of(second).hold, is_free(second)) == (None, True)
    cancel_job(user=world.user, job=second)
    assert reason_of(second) == (JobState.CANCELLED, Reason.CANCELLED_BY_USER)
    assert reason_of(last) == IN_VAIN


def test_a_job_that_is_tried_again_has_not_ended(world: World) -> None:
    first = start(world, retry={"max": 1, "on": ["failed"]})
    second = submit(world, after=[f"{first.job_id}:failed"])
    end(ranks(first)[0], Reason.EXIT_NONZERO)
    assert not is_free(second)


def test_one_that_keeps_waiting_is_neither_refused_nor_ended(world: World) -> None:
    failed, first = ended(world, "failed"), submit(world)
    for other in (failed, first):
        data = {"command": "true", "vc": world.vc.name, "after": [f"{other.pk}:ok"]}
        job = submit_job(user=world.user, data=data, keeps_waiting=True)[0]
        if other == first:
            leave(first, "cancelled")
        assert now_of(job).state == JobState.QUEUED
        assert now_of(job).hold["detail"].startswith(f"waits for ever: it was to wait for job {other.pk} to succeed")


class TestGroups:
    def test_a_job_waits_for_the_end_of_a_sweep(self, world: World) -> None:
        group = sweep(world)
        good, bad = (submit(world, after=[f"{group.pk}:{kind}"]) for kind in ("ok", "failed"))
        for job in members(group):
            assert now_of(good).hold["detail"] == f"waits for sweep {group.pk} to succeed"
            leave(job, "succeeded")
        assert end_if_over(group.pk)
        assert is_free(good)
        assert reason_of(bad) == IN_VAIN

    def test_each_member_waits_for_the_one_with_its_number_and_a_surplus_one_for_all(self, world: World) -> None:
        first = sweep(world, 2)
        second = sweep(world, 3, after=[f"{first.pk}:corr"])
        leave(members(first)[1], "succeeded")
        assert [is_free(job) for job in members(second)] == [False, True, False]
        leave(members(first)[0], "failed")
        assert reason_of(members(second)[0]) == IN_VAIN
        end_if_over(first.pk)
        assert [is_free(job) for job in members(second)] == [False, True, True]

    def test_members_of_arrays_are_paired_by_their_indices(self, world: World) -> None:
        data = {"command": "true", "vc": world.vc.name, "gpus": 1}
        first = submit_array(user=world.user, data={**data, "array": "0-2"})[0]
        second = submit_array(user=world.user, data={**data, "array": "2,0", "after": [f"{first.pk}:corr"]})[0]
        assert {job.hold["detail"] for job in members(second)} == {
            f"waits for its member of array {first.pk} to succeed"
        }
        leave(members(first)[0], "succeeded")
        assert {job.array_index: is_free(job) for job in members(second)} == {0: True, 2: False}

    def test_members_that_wait_for_nothing_more_wait_for_their_turn(self, world: World) -> None:
        first = submit(world)
        inner = {"method": "grid", "metric": "loss", "params": {"lr": [1, 2]}, "parallel": 1}
        data = {"command": "true", "vc": world.vc.name, "after": [first.pk], "sweep": inner}
        group = submit_sweep(user=world.user, data=data)[0]
        assert {job.hold_reason for job in members(group)} == {HoldReason.DEPENDENCY}
        leave(first, "succeeded")
        assert [job.hold_reason for job in members(group)] == ["", HoldReason.GROUP]

    def test_a_group_has_started_once_each_member_has(self, world: World) -> None:
        group = sweep(world)
        job = submit(world, after=[f"{group.pk}:started"])
        one, other = members(group)
        leave(one, "cancelled")
        assert not is_free(job)
        leave(other, "succeeded")
        assert is_free(job)

    def test_a_retry_asks_again_what_was_never_met_and_keeps_what_was(self, world: World) -> None:
        first = sweep(world)
        second = sweep(world, after=[f"{first.pk}:corr"])
        (one, other), (waits, _) = members(first), members(second)
        leave(one, "failed")
        assert reason_of(waits) == IN_VAIN
        retry_member(user=world.user, job=now_of(one))
        retry_member(user=world.user, job=now_of(waits))
        assert (now_of(waits).state, is_free(waits)) == (JobState.QUEUED, False)
        leave(one, "succeeded")
        assert is_free(waits)
        leave(waits, "failed")
        leave(other, "cancelled")
        retry_member(user=world.user, job=now_of(waits))
        assert is_free(waits)

    def test_the_end_of_a_sweep_ends_what_waits_for_its_members(self, world: World) -> None:
        first = sweep(world)
        second = sweep(world, after=[f"{first.pk}:corr"])
        cancel_group(user=world.user, group=first)
        assert {reason_of(job) for job in members(second)} == {IN_VAIN}


class TestSingletons:
    SINGLE = {"name": "daily", "after": ["singleton"]}

    def test_one_waits_for_all_earlier_jobs_of_its_owner_and_name(self, world: World) -> None:
        submit(world, name="other")
        earlier = submit(world, name="daily")
        held = submit(world, **self.SINGLE)
        last = submit(world, **self.SINGLE)
        hold_job(user=world.user, job=held)
        leave(earlier, "failed")
        assert (now_of(held).blocked_by, is_free(last)) == (0, False)
        assert now_of(last).hold["detail"] == "waits for your earlier jobs named daily to end"
        cancel_job(user=world.user, job=held)
        assert is_free(last)

    def test_one_without_earlier_jobs_waits_for_none(self, world: World) -> None:
        assert is_free(submit(world, **self.SINGLE))

    def test_a_job_with_another_name_by_now_is_none_of_them(self, world: World) -> None:
        earlier = submit(world, name="daily")
        last = submit(world, **self.SINGLE)
        edit_job(user=world.user, job=earlier, changes={"name": "weekly"})
        assert is_free(last)


class TestRefusals:
    def refused(self, world: World, match: str, **spec: Any) -> None:
        before = Job.objects.count()
        with pytest.raises(Invalid, match=match) as caught:
            submit(world, **spec)
        assert {error.field.partition(".")[0] for error in caught.value.errors} == set(spec)
        assert (Job.objects.count(), Dependency.objects.count()) == (before, 0)

    @pytest.mark.parametrize(
        ("after", "told"),
        {
            "no list": (1042, "after: write a list"),
            "no number": (["x:ok"], "after.0: 'x:ok' is no job"),
            "an unknown word": (["1:okay"], r"after.0: unknown word; did you mean 'ok'\?"),
            "no text": ([True], "after.0: write a job and what to wait for"),
            "too many": ([str(number) for number in range(10_000)], "after: write at most 100 entries"),
            "too many alternatives": (["?".join(map(str, range(1, 102)))], "after: it names 101 jobs"),
            "a repeat": (["1", "1:ok"], "after: entries 0 and 1 are the same, 1:ok"),
            "what cannot be": (["1:ok", "1:failed"], "after: 1 cannot both succeed and fail"),
            "an unknown job": ([999_999_999], "after.0: there is no job 999999999"),
        }.values(),
    )
    def test_bad_input_is_named_and_stores_nothing(self, world: World, after: object, told: str) -> None:
        self.refused(world, told, after=after)

    def test_another_tenants_job_looks_like_none(self, world: World) -> None:
        tenant = make_tenant()
        make_vc(tenant, world.pool, quotas={"A100": 1})
        job = submit_job(user=make_user(tenant=tenant), data={"command": "true"})[0]
        self.refused(world, f"after.0: there is no job {job.pk}", after=[f"{job.pk}:any"])

    def test_members_are_paired_only_between_groups(self, world: World) -> None:
        group, job = sweep(world), submit(world)
        self.refused(
            world, rf"after.0: this job is no member of a group: write {group.pk}:ok", after=[f"{group.pk}:corr"]
        )
        with pytest.raises(Invalid, match=f"{job.pk} is one job and has no members: write {job.pk}:ok"):
            sweep(world, after=[f"{job.pk}:corr"])

    def test_what_can_never_be_met_is_refused_with_the_end_of_the_other(self, world: World) -> None:
        failed = ended(world, "failed")
        told = f"after.0: it was to wait for job {failed.pk} to succeed, which failed: this job could never start"
        self.refused(world, told, after=[failed.pk])
        assert is_free(submit(world, after=[f"{failed.pk}:failed"]))

    def test_a_clone_waits_as_its_source_did(self, world: World) -> None:
        first = submit(world)
        job = submit(world, after=[first.pk])
        assert not is_free(clone_job(user=world.user, job=job))
        leave(first, "failed")
        with pytest.raises(Invalid, match=f"after.0: it was to wait for job {first.pk}"):
            clone_job(user=world.user, job=job)


class TestBegin:
    @pytest.mark.parametrize("begin", ["2h", "now+2h"])
    def test_a_job_is_not_placed_before_it_may_begin(self, world: World, begin: str) -> None:
        job = submit(world, begin=begin)
        cycle(world)
        found = now_of(job)
        assert abs(found.eligible_at - database_now() - timedelta(hours=2)) < timedelta(minutes=1)
        told = f"begins at {found.eligible_at.isoformat(timespec='seconds')}"
        assert (found.state, found.hold_reason, found.hold["detail"]) == (JobState.QUEUED, HoldReason.BEGIN, told)
        Job.objects.filter(pk=job.pk).update(eligible_at=database_now())
        cycle(world)
        assert now_of(job).state == JobState.ACTIVE

    def test_one_that_has_passed_starts_at_once_with_a_note(self, world: World) -> None:
        job = submit(world, begin="2020-01-01T08:00+01:00")
        assert "Its begin, 2020-01-01T08:00+01:00, has passed, so it is scheduled at once" in notes_of(job)
        cycle(world)
        assert now_of(job).state == JobState.ACTIVE

    @pytest.mark.parametrize(
        ("begin", "told"),
        [
            ("tomorrow", "'tomorrow' is no time to begin at: write 2026-12-01T08:00Z"),
            ("2026-12-01T08:00", "is not a time with a time zone"),
            ("400d", "400d is more than a year from now"),
            ("2099-01-01T00:00Z", "is more than a year from now"),
            ("99999999999w", "is no time to begin at"),
            (7, "write text"),
        ],
    )
    def test_bad_input_is_named(self, world: World, begin: object, told: str) -> None:
        with pytest.raises(Invalid, match=told) as caught:
            submit(world, begin=begin)
        assert [error.field for error in caught.value.errors] == ["begin"]


# What each kind makes of the other's state, told once more: the oracle of the random graphs.
MET = {"ok": {"succeeded"}, "any": {"succeeded", "failed", "cancelled"}, "failed": {"failed", "cancelled"}}
Graph = Sequence[Sequence[Sequence[tuple[int, str]]]]
"""Of each job the clauses, each with alternatives: an earlier job and a kind."""
Step = tuple[str, int]


def expected(graph: Graph, steps: Sequence[Step]) -> list[str]:
    """The state of each job after the steps; `refused` if it was never stored, `blocked` while it waits for others."""
    found = ["refused"] * len(graph)
    met: set[tuple[int, int]] = set()
    for act, index in steps:
        if act == "submit":
            found[index] = "blocked"
        elif found[index] == "free":
            found[index] = act
        for job, clauses in enumerate(graph):
            for entry, alternatives in enumerate(clauses if found[job] == "blocked" else ()):
                known = [(found[on], kind) for on, kind in alternatives if found[on] != "refused"]
                if any(state in MET[kind] for state, kind in known) or not known:
                    met.add((job, entry))
                elif all(state in MET["any"] for state, _ in known) and (job, entry) not in met:
                    found[job] = "refused" if (act, index) == ("submit", job) else "cancelled"
            if found[job] == "blocked" and all((job, entry) in met for entry in range(len(clauses))):
                found[job] = "free"
    return found


@st.composite
def stories(draw: st.DrawFn) -> tuple[Graph, list[Step]]:
    size = draw(st.integers(2, 5))
    graph = [
        draw(
            st.lists(
                st.lists(st.tuples(st.integers(0, job - 1), st.sampled_from(sorted(MET))), min_size=1, max_size=2),
                max_size=2,
            )
        )
        if job
        else []
        for job in range(size)
    ]
    ends = st.tuples(st.sampled_from(["succeeded", "failed", "cancelled"]), st.integers(0, size - 1))
    steps: list[Step] = []
    for job in range(size):
        steps += [("submit", job), *(step for step in draw(st.lists(ends, max_size=2)) if step[1] <= job)]
    return graph, steps + draw(st.lists(ends, max_size=size))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stories())
def test_any_graph_whose_jobs_end_in_any_order_ends_as_its_kinds_say(
    world: World, story: tuple[Graph, list[Step]]
) -> None:
    graph, steps = story
    jobs: dict[int, Job] = {}
    for act, index in steps:
        if act == "submit":
            entries = (
                "?".join(dict.fromkeys(f"{jobs[on].pk}:{kind}" for on, kind in one if on in jobs))
                for one in graph[index]
            )
            try:
                jobs[index] = submit(world, after=list(dict.fromkeys(filter(None, entries))))
            except Invalid as error:
                if "cannot both" in str(error):
                    return
        elif index in jobs and now_of(jobs[index]).startable:
            leave(jobs[index], act)
    found = []
    for index in range(len(graph)):
        job = now_of(jobs[index]) if index in jobs else None
        waits = job is not None and job.state == JobState.QUEUED
        found.append("refused" if job is None else ("free" if job.startable else "blocked") if waits else job.state)
        assert job is None or waits == (job.hold_reason == HoldReason.DEPENDENCY) or not job.blocked_by
    assert found == expected(graph, steps)


def test_a_chain_of_a_thousand_jobs_ends_in_a_few_statements(world: World) -> None:
    first = submit(world)
    rows = [
        Job(**{f.attname: getattr(first, f.attname) for f in Job._meta.concrete_fields if not f.generated})
        for _ in range(1000)
    ]
    for row in rows:
        row.pk, row.blocked_by = None, 1
    chain = [first, *Job.objects.bulk_create(rows)]
    Dependency.objects.bulk_create(
        Dependency(job=job, clause=0, kind="ok", on_job=before) for before, job in pairwise(chain)
    )
    with CaptureQueriesContext(connection) as caught:
        cancel_job(user=world.user, job=first)
    assert Job.objects.filter(reason=Reason.DEPENDENCY_NEVER_MET).count() == 1000
    assert len(caught) < 40


@pytest.mark.django_db(transaction=True)
class TestRaces:
    def test_an_end_between_check_and_insert_is_not_lost(self, world: World) -> None:
        first = submit(world)
        with transaction.atomic():
            job = Job.objects.select_for_update(no_key=True).get(pk=first.pk)
            late = Other(lambda: submit(world, after=[first.pk])).until_it_waits()
            move_jobs([job], JobState.ACTIVE, actor="test", data={first.pk: {}})
            move_jobs([job], JobState.SUCCEEDED, actor="test", data={first.pk: {}})
        assert is_free(late.result())

    def test_an_end_waits_for_a_submission_and_then_sees_it(self, world: World) -> None:
        first = submit(world)
        with transaction.atomic():
            second = submit(world, after=[first.pk])
            late = Other(lambda: leave(first, "succeeded")).until_it_waits()
        late.result()
        assert is_free(second)

    def test_the_last_two_that_a_job_waits_for_may_end_at_once(self, world: World) -> None:
        one, other = submit(world), submit(world)
        job = submit(world, after=[f"{one.pk}:ok?{other.pk}:ok"])
        with transaction.atomic():
            leave(one, "failed")
            late = Other(lambda: leave(other, "failed")).until_it_waits()
        late.result()
        assert reason_of(job) == IN_VAIN
