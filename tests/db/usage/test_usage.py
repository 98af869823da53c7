"""GPU-hours: counted from the claims, cut to the period, and told apart by what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.backends.postgresql.psycopg_any import NumericRange

from muster.common.errors import Invalid
from muster.fleet.models import Node
from muster.jobs.models import Attempt, GpuClaim, Job
from muster.screening.models import ScreeningResult
from muster.tenants.models import Membership
from muster.tenants.roles import Role
from muster.usage import selectors
from muster.usage.dimensions import SLOTS, By
from muster.usage.outcomes import Outcome
from muster.usage.periods import MAX_PERIOD, Period, period_of
from muster.usage.scope import Asked, Scope, scope_of
from muster.usage.selectors import parse_by, read, usage
from muster.usage.waste import NO_SCREENING, waste
from scheduler import model
from scheduler.model.lifecycle import AttemptState, JobClass, Stage
from scheduler.model.reasons import Reason
from tests.factories import given, make_job, make_node, make_pool, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db

ALL = Scope()
MIDNIGHT = datetime(2026, 5, 4, tzinfo=UTC)  # a Monday
DAY = timedelta(days=1)


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


def hold(
    job: Job,
    nodes: Sequence[Node],
    begin: datetime,
    end: datetime | None,
    *,
    state: AttemptState = AttemptState.SUCCEEDED,
    slots: int = SLOTS,
    **fields: Any,
) -> Attempt:
    """An attempt of the job that held its GPUs of each node from `begin` to `end`, or holds them."""
    live = end is None
    number = job.attempts.count() + 1
    attempt = Attempt.objects.create(
        job=job,
        number=number,
        request=replace(given(job), nodes=len(nodes)),
        state=AttemptState.RUNNING if live else state,
        master_addr=f"{job.pk}.test",
        master_port=20_000,
        placed_at=begin,
        running_at=begin,
        ended_at=end,
        **fields,
    )
    for rank, node in enumerate(nodes):
        allocation = attempt.allocations.create(
            node=node,
            rank=rank,
            state="active" if live else "released",
            cpus=1,
            memory_mib=1024,
            claimed_at=begin,
            released_at=end,
        )
        for gpu in node.gpus.order_by("index")[: job.gpus]:
            span = NumericRange(gpu.pk * SLOTS, gpu.pk * SLOTS + slots, "[)")
            GpuClaim.objects.create(allocation=allocation, gpu=gpu, span=span, claimed_at=begin, released_at=end)
    return attempt


def told(rows: Sequence[selectors.Row]) -> dict[Any, tuple[float, int, int]]:
    """GPU-hours, jobs and attempts by the one value of each row."""
    return {next(iter(row.values.values())): (round(row.gpu_hours, 6), row.jobs, row.attempts) for row in rows}


def by(one: By, period: Period, scope: Scope = ALL) -> dict[Any, tuple[float, int, int]]:
    return told(usage(period, scope, [one])[1])


@pytest.fixture
def day() -> Period:
    return Period(MIDNIGHT, MIDNIGHT + DAY)


def test_a_gpu_has_as_many_slots_here_as_for_the_scheduler() -> None:
    assert SLOTS == model.SLOTS


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (hours(1), hours(3), 2.0),
        (hours(-5), hours(3), 3.0),
        (hours(23), hours(30), 1.0),
        (hours(-48), hours(72), 24.0),
        (hours(-3), hours(0), None),
        (hours(24), hours(25), None),
        (hours(5), None, 19.0),
        (hours(-5), None, 24.0),
        (hours(30), None, None),
        (hours(2), hours(2), 0.0),
        (hours(3), hours(2), 0.0),
    ],
    ids=[
        "within",
        "begins before",
        "ends after",
        "around",
        "over as it begins",
        "begins as it is over",
        "still held",
        "held all the time",
        "held later",
        "for no time",
        "a clock that was set back",
    ],
)
def test_what_lies_outside_of_the_period_is_cut_off(
    begin: timedelta, end: timedelta | None, expected: float | None, day: Period
) -> None:
    hold(make_job(), [make_node()], MIDNIGHT + begin, None if end is None else MIDNIGHT + end)
    total, _ = usage(day, ALL, [])
    assert (total.gpu_hours, total.attempts) == pytest.approx((expected or 0.0, 0 if expected is None else 1))
    # Told apart by days it is as much.
    days = [row.gpu_hours for row in read(Period(MIDNIGHT, MIDNIGHT + DAY), ALL, [[By.DAY]])]
    assert sum(days) == pytest.approx(expected or 0.0)


def test_a_part_of_a_gpu_counts_as_that_part(day: Period) -> None:
    vc, node = make_vc(), make_node()
    hold(make_job(vc), [node], MIDNIGHT, MIDNIGHT + hours(4), slots=SLOTS // 2)
    hold(make_job(vc), [node], MIDNIGHT + hours(4), MIDNIGHT + hours(8), slots=SLOTS // 4)
    assert by(By.VC, day) == {vc.name: (3.0, 2, 2)}


def test_a_gang_counts_all_its_gpus_by_type_and_is_one_attempt(day: Period) -> None:
    pool = make_pool()
    old, new = make_node(pool, gpus=4, gpu_type="V100"), make_node(pool, gpus=4, gpu_type="A100")
    hold(make_job(make_vc(pool=pool), gpus=3, nodes=2), [old, new], MIDNIGHT, MIDNIGHT + hours(2))
    assert by(By.GPU_TYPE, day) == {"A100": (6.0, 1, 1), "V100": (6.0, 1, 1)}
    total, _ = usage(day, ALL, [By.GPU_TYPE])
    assert (total.gpu_hours, total.jobs, total.attempts) == (12.0, 1, 1)


def test_ranks_that_let_go_at_different_times_count_for_their_own(day: Period) -> None:
    pool = make_pool()
    attempt = hold(
        make_job(make_vc(pool=pool), nodes=2), [make_node(pool), make_node(pool)], MIDNIGHT, MIDNIGHT + hours(1)
    )
    late = GpuClaim.objects.filter(allocation__attempt=attempt, allocation__rank=1)
    late.update(released_at=MIDNIGHT + hours(1.5))
    assert usage(day, ALL, [])[0].gpu_hours == pytest.approx(2.5)


def test_days_and_weeks_begin_at_midnight_utc() -> None:
    job, node = make_job(), make_node()
    hold(job, [node], MIDNIGHT - hours(2), MIDNIGHT + hours(25))
    hold(job, [node], MIDNIGHT + hours(30), MIDNIGHT + hours(48))
    period = Period(MIDNIGHT - DAY, MIDNIGHT + 3 * DAY)
    assert by(By.DAY, period) == {
        MIDNIGHT - DAY: (2.0, 1, 1),
        MIDNIGHT: (24.0, 1, 1),
        MIDNIGHT + DAY: (19.0, 1, 2),
    }
    assert by(By.WEEK, period) == {MIDNIGHT - 7 * DAY: (2.0, 1, 1), MIDNIGHT: (43.0, 1, 2)}


def test_each_way_to_tell_them_apart(day: Period) -> None:
    vision, speech = make_tenant("vision"), make_tenant("speech")
    ada, bob = make_user("ada", tenant=vision), make_user("bob", tenant=speech)
    node = make_node()
    main, spare = make_vc(vision, node.pool, "main"), make_vc(speech, node.pool, "spare")
    hold(make_job(main, ada, gpus=2), [node], MIDNIGHT, MIDNIGHT + hours(3))
    borrowed = make_job(spare, bob, klass=JobClass.OPPORTUNISTIC)
    hold(borrowed, [node], MIDNIGHT + hours(3), MIDNIGHT + hours(4))
    assert by(By.TENANT, day) == {"vision": (6.0, 1, 1), "speech": (1.0, 1, 1)}
    assert by(By.VC, day) == {"main": (6.0, 1, 1), "spare": (1.0, 1, 1)}
    assert by(By.USER, day) == {"ada": (6.0, 1, 1), "bob": (1.0, 1, 1)}
    assert by(By.CLASS, day) == {"guaranteed": (6.0, 1, 1), "opportunistic": (1.0, 1, 1)}
    _, rows = usage(day, ALL, [By.USER, By.DAY])
    assert [(row.values[By.USER], row.values[By.DAY], row.gpu_hours) for row in rows] == [
        ("ada", MIDNIGHT, 6.0),
        ("bob", MIDNIGHT, 1.0),
    ]


def test_more_rows_than_anyone_reads_are_refused(day: Period, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "MAX_ROWS", 1)
    node = make_node()
    hold(make_job(), [node], MIDNIGHT, MIDNIGHT + hours(1))
    assert len(usage(day, ALL, [By.USER])[1]) == 1
    hold(make_job(), [node], MIDNIGHT + hours(1), MIDNIGHT + hours(2))
    with pytest.raises(Invalid, match="by: that makes more than 1 rows"):
        usage(day, ALL, [By.USER])


def test_members_see_their_own_managers_their_tenants_and_operators_all(day: Period) -> None:
    vision, speech = make_tenant("vision"), make_tenant("speech")
    ada, bob = make_user("ada", tenant=vision), make_user("bob", tenant=vision)
    mary, oscar = make_user("mary", tenant=vision, role=Role.MANAGER), make_user("oscar", operator=True)
    Membership.objects.create(tenant=speech, user=ada)
    node = make_node()
    main, other = make_vc(vision, node.pool, "main"), make_vc(speech, node.pool, "other")
    for place, (vc, owner) in enumerate([(main, ada), (main, bob), (other, ada), (other, mary)]):
        hold(make_job(vc, owner), [node], MIDNIGHT + hours(place), MIDNIGHT + hours(place + 1))

    def seen(viewer: Any, /, **asked: str) -> dict[str, float]:
        found = by(By.USER, day, scope_of(viewer, Asked(**asked)))
        return {name: gpu_hours for name, (gpu_hours, _, _) in found.items()}

    assert seen(ada) == {"ada": 2.0}
    assert seen(bob) == {"bob": 1.0}
    # The manager of one tenant has no rights in the other, not even to her own jobs there.
    assert seen(mary) == {"ada": 1.0, "bob": 1.0}
    assert seen(oscar) == {"ada": 2.0, "bob": 1.0, "mary": 1.0}
    assert seen(oscar, tenant="speech") == {"ada": 1.0, "mary": 1.0}
    assert seen(oscar, vc="main", user="bob") == {"bob": 1.0}
    assert seen(bob, user="ada") == {}
    assert seen(ada, vc="nowhere") == {}


KNOWN = {"class": "gpu_out_of_memory", "category": "user"}
UNKNOWN = {"class": "no_signature", "category": "user"}


@pytest.mark.parametrize(
    ("attempt", "job", "word", "failure"),
    [
        ({}, {}, Outcome.SUCCEEDED, (None, None)),
        ({"state": AttemptState.CANCELLED}, {}, Outcome.CANCELLED, (None, None)),
        ({"state": AttemptState.FAILED, "failure": KNOWN}, {}, Outcome.FAILED, ("gpu_out_of_memory", "user")),
        (
            {"state": AttemptState.FAILED, "failure": UNKNOWN, "reason": Reason.EXIT_NONZERO},
            {},
            Outcome.FAILED,
            ("exit_nonzero", "user"),
        ),
        (
            {"state": AttemptState.FAILED, "reason": Reason.LAUNCH_FAILED},
            {},
            Outcome.FAILED,
            ("launch_failed", "infrastructure"),
        ),
        (
            {"state": AttemptState.LOST, "reason": Reason.NODE_LOST},
            {},
            Outcome.NODE_LOST,
            ("node_lost", "infrastructure"),
        ),
        ({"state": AttemptState.PREEMPTED, "reason": Reason.PREEMPTED}, {}, Outcome.WORK_LOST, (None, None)),
        (
            {"state": AttemptState.PREEMPTED, "reason": Reason.PREEMPTED},
            {"checkpoints": True},
            Outcome.PREEMPTED,
            (None, None),
        ),
        ({"state": AttemptState.PREEMPTED, "reason": Reason.REQUEUED_BY_USER}, {}, Outcome.REQUEUED, (None, None)),
        ({"state": AttemptState.CANCELLED, "stage": Stage.SCREENING}, {}, Outcome.SCREENING, (None, None)),
    ],
)
def test_what_became_of_an_attempt_has_one_word(
    attempt: dict[str, Any], job: dict[str, Any], word: str, failure: tuple[str | None, str | None], day: Period
) -> None:
    hold(make_job(**job), [make_node()], MIDNIGHT, MIDNIGHT + hours(1), **attempt)
    (row,) = usage(day, ALL, [By.OUTCOME, By.FAILURE, By.CATEGORY])[1]
    assert row.values == {By.OUTCOME: word, By.FAILURE: failure[0], By.CATEGORY: failure[1]}


def test_waste_is_what_failed_or_must_be_done_again(day: Period) -> None:
    node = make_node(gpus=8)
    trained = make_job(state="succeeded")
    hold(trained, [node], MIDNIGHT, MIDNIGHT + hours(2), state=AttemptState.FAILED, failure=KNOWN)
    hold(trained, [node], MIDNIGHT + hours(2), MIDNIGHT + hours(3), state=AttemptState.PREEMPTED)
    hold(trained, [node], MIDNIGHT + hours(3), MIDNIGHT + hours(8))
    broken = make_job(state="failed")
    for place in range(2):
        begin = MIDNIGHT + hours(8 + place)
        hold(broken, [node], begin, begin + hours(1), state=AttemptState.FAILED, failure=KNOWN)
    screened = make_job()
    hold(
        screened,
        [node],
        MIDNIGHT + hours(10),
        MIDNIGHT + hours(10.5),
        state=AttemptState.FAILED,
        failure=KNOWN,
        stage=Stage.SCREENING,
    )
    hold(screened, [node], MIDNIGHT + hours(12), None)

    found = waste(day, ALL)

    assert (found.total.gpu_hours, found.total.jobs, found.total.attempts) == (22.5, 3, 7)
    assert told(found.outcomes) == {
        Outcome.RUNNING: (12.0, 1, 1),
        Outcome.SUCCEEDED: (5.0, 1, 1),
        Outcome.FAILED: (4.0, 2, 3),
        Outcome.WORK_LOST: (1.0, 1, 1),
        Outcome.SCREENING: (0.5, 1, 1),
    }
    assert found.wasted_gpu_hours == 5.0
    assert told(found.states) == {"succeeded": (8.0, 1, 3), "failed": (2.0, 1, 2), "queued": (12.5, 1, 2)}
    assert [(row.values[By.FAILURE], row.gpu_hours, row.attempts) for row in found.failures] == [
        ("gpu_out_of_memory", 4.0, 3)
    ]
    # The first try of the trained job failed, so its second was another try; its third came after a preemption. And
    # what comes after a trial is the first try.
    retries = found.retries
    assert (retries.gpu_hours, retries.attempts) == (2.0, 2)
    assert (retries.succeeded_gpu_hours, retries.wasted_gpu_hours) == (0.0, 2.0)


def test_screening_is_told_to_those_who_see_whole_tenants(day: Period) -> None:
    vision, speech = make_tenant("vision"), make_tenant("speech")
    mary, ada = make_user("mary", tenant=vision, role=Role.MANAGER), make_user("ada", tenant=vision)
    for tenant, saved in ((vision, 7200.0), (speech, 3600.0)):
        vc = make_vc(tenant)
        ScreeningResult.objects.create(
            job=make_job(vc),
            tenant=tenant,
            pool=vc.pool,
            verdict="failed",
            digest="",
            gpus_asked=8,
            spent_gpu_s=900.0,
            saved_gpu_s=saved,
            full_gpu_s=saved,
            at=MIDNIGHT + hours(1),
        )

    def told_of(scope: Scope) -> tuple[int, float, float] | None:
        found = waste(day, scope).screening
        return None if found is None else (found.failed, found.spent_gpu_s, found.saved_gpu_s)

    assert told_of(ALL) == (2, 1800.0, 10_800.0)
    assert told_of(scope_of(mary, Asked())) == (1, 900.0, 7200.0)
    assert told_of(scope_of(mary, Asked(tenant="speech"))) is None
    assert told_of(scope_of(ada, Asked())) is None
    assert told_of(Scope(None, Asked(tenant="speech"))) == (1, 900.0, 3600.0)
    assert told_of(Scope(None, Asked(user="ada"))) is None
    yesterday = Period(MIDNIGHT - DAY, MIDNIGHT)
    assert waste(yesterday, ALL).screening == NO_SCREENING


def test_nothing_was_used_where_nobody_was(day: Period) -> None:
    assert usage(day, ALL, [By.USER, By.DAY]) == (selectors.Row({}, 0.0, 0, 0), [])
    found = waste(day, ALL)
    assert (found.total.gpu_hours, found.outcomes, found.failures, found.retries.attempts) == (0.0, [], [], 0)


class TestPeriods:
    NOW = MIDNIGHT + hours(12)

    def test_the_last_seven_days_are_the_default(self) -> None:
        found = period_of(start=None, end=None, since=None, now=self.NOW)
        assert found == Period(self.NOW - 7 * DAY, self.NOW)

    def test_what_is_ahead_has_used_nothing(self) -> None:
        found = period_of(start=MIDNIGHT, end=MIDNIGHT + 5 * DAY, since=None, now=self.NOW)
        assert found == Period(MIDNIGHT, self.NOW)

    def test_a_duration_says_how_long_before_the_end(self) -> None:
        found = period_of(start=None, end=MIDNIGHT, since="36h", now=self.NOW)
        assert found == Period(MIDNIGHT - hours(36), MIDNIGHT)

    @pytest.mark.parametrize(
        ("asked", "field"),
        [
            ({"start": MIDNIGHT, "end": MIDNIGHT}, "from"),
            ({"start": MIDNIGHT + 2 * DAY}, "from"),
            ({"end": MIDNIGHT, "start": MIDNIGHT - MAX_PERIOD - hours(1)}, "from"),
            ({"since": "soon"}, "since"),
            ({"since": "0s"}, "from"),
            ({"since": "999999999w"}, "since"),
            ({"since": "7d", "start": MIDNIGHT}, "since"),
        ],
    )
    def test_what_makes_no_period_is_refused_by_its_field(self, asked: dict[str, Any], field: str) -> None:
        with pytest.raises(Invalid) as refused:
            period_of(**{"start": None, "end": None, "since": None, "now": self.NOW, **asked})
        assert [error.field for error in refused.value.errors] == [field]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", []),
        ("vc", [By.VC]),
        (" day , outcome,day", [By.DAY, By.OUTCOME]),
        ("gpu", [By.GPU_TYPE]),
    ],
)
def test_words_say_by_what(words: str, expected: list[By]) -> None:
    assert parse_by(words) == expected


@pytest.mark.parametrize("words", ["vcs", "day,week", "vc;user"])
def test_words_that_say_nothing_are_refused(words: str) -> None:
    with pytest.raises(Invalid, match=r"^by: "):
        parse_by(words)
