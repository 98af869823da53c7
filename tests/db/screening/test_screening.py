"""A job that asks for a gang is first tried on a few GPUs of another pool, and what becomes of it after that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.api.tree.render import virtual_cluster_list
from muster.common.errors import Invalid
from muster.dispatch.cycles import run_cycle
from muster.dispatch.reaper import reap
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.models import Event
from muster.fleet.models import Node, Pool
from muster.jobs.attempt.attempts import lose_allocations, stop_attempt
from muster.jobs.attempt.runs import screening_run_of
from muster.jobs.models import Attempt, Job
from muster.jobs.services import cancel_job, requeue_job
from muster.samples.models import Speed, SpeedAlone
from muster.samples.speeds import keep_speeds
from muster.screening.models import PoolScreening, ScreeningResult
from muster.screening.outlook import digest_of
from muster.screening.services import go_on_unscreened, keep_screening
from muster.tenants.models import Tenant, VirtualCluster, Volume
from scheduler.model.lifecycle import AttemptState
from scheduler.model.reasons import Reason
from tests.db.jobs.test_verdicts import BROKEN_CODE, BROKEN_GPU, BROKEN_NETWORK
from tests.db.stories import (
    claim,
    cycle,
    end,
    kinds,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    planned_places,
    ranks,
    run,
    submit,
)
from tests.factories import make_node, make_pool, make_tenant, make_user, make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]

GANG = {"gpus": 4, "nodes": 2}


class Screened:
    """A pool whose jobs are tried in another one, which has one node with two GPUs."""

    def __init__(self, *, small: int = 1, gpus: int = 2, admission: str = "quota", **settings: Any) -> None:
        self.main = make_world(nodes=2, gpus=4)
        pool = make_pool(admission=admission)
        nodes = [make_node(pool, gpus=gpus, credential=f"small-{pool.pk}-{number}") for number in range(small)]
        self.small = replace(self.main, pool=pool, nodes=nodes)
        self.settings = PoolScreening.objects.create(pool=self.main.pool, screening_pool=pool, **settings)

    def submit(self, **spec: Any) -> Job:
        return submit(self.main, **{**GANG, **spec})

    def tried(self, **spec: Any) -> Attempt:
        """The running screening run of a job that was just submitted."""
        job = self.submit(**spec)
        cycle(self.small)
        return running(live_attempt(job))


@pytest.fixture
def pools() -> Screened:
    return Screened()


def running(attempt: Attempt) -> Attempt:
    for rank in ranks(attempt):
        claim(rank)
    for rank in ranks(attempt):
        run(rank)
    return now_of(attempt)


def over(attempt: Attempt) -> Attempt:
    """The result, when it has run for its time and its processes have gone."""
    let_pass(301, attempt, "running_at", "placed_at")
    keep_screening(attempt.job.pool)
    for rank in ranks(attempt):
        end(rank, Reason.KILLED_BY_SIGNAL, exit_code=143)
    return now_of(attempt)


def fail(attempt: Attempt, tail: str, reason: Reason = Reason.EXIT_NONZERO, exit_code: int = 1) -> Job:
    for rank in ranks(attempt):
        end(rank, reason, exit_code=exit_code, tail=tail)
    return now_of(attempt.job)


def the_result(job: Job) -> ScreeningResult:
    return ScreeningResult.objects.filter(job=job).latest("pk")


def where(job: Job) -> tuple[str, str, int]:
    job = now_of(job)
    return job.state, job.stage, job.pool_id


class TestWhoIsTried:
    def test_a_gang_waits_for_its_screening_run_and_not_in_its_own_queue(self, pools: Screened) -> None:
        job = pools.submit()
        assert where(job) == ("queued", "screening", pools.small.pool.pk)
        assert (pool_snapshot(pools.main.pool, seed=1).waiting, cycle(pools.main).applied.started) == ((), [])
        (seen,) = pool_snapshot(pools.small.pool, seed=1).waiting
        assert (seen.request.nodes, seen.request.first.gpus, seen.time_limit_s, seen.preemptible) == (
            1,
            2,
            300.0,
            False,
        )

    def test_the_window_of_a_screening_run_is_its_time_and_at_most_half_a_minute_of_grace(
        self, pools: Screened
    ) -> None:
        pools.submit(checkpoint={"grace": "5m"})
        (seen,) = pool_snapshot(pools.small.pool, seed=1).waiting
        assert seen.max_run_s == 300.0 + 30.0

    def test_small_jobs_and_those_who_say_never_are_not(self, pools: Screened) -> None:
        full = ("queued", "full", pools.main.pool.pk)
        assert where(pools.submit(nodes=1, gpus=2)) == full
        assert where(pools.submit(screening="never")) == full
        assert where(pools.submit(gpus=0)) == full
        assert where(pools.submit(nodes=1, gpus=2, screening="always"))[1] == "screening"
        assert where(pools.submit(nodes=1, gpus=1, screening="always")) == full
        assert not ScreeningResult.objects.exists()

    def test_nobody_is_tried_where_their_volumes_are_not(self, pools: Screened) -> None:
        Pool.objects.filter(pk=pools.main.pool.pk).update(mount_roots="/data")
        vc = VirtualCluster.objects.get(pool=pools.main.pool)
        Volume.objects.create(tenant=vc.tenant, name="data", path="/data/seg")
        spec = {"image": "busybox", "mounts": ["data:/data"]}
        assert where(pools.submit(**spec)) == ("queued", "full", pools.main.pool.pk)
        Pool.objects.filter(pk=pools.small.pool.pk).update(mount_roots="/data")
        assert where(pools.submit(**spec))[1] == "screening"

    def test_the_tenants_word_counts_before_the_jobs(self, pools: Screened) -> None:
        Tenant.objects.update(screening="always")
        assert where(pools.submit(screening="never"))[1] == "screening"
        Tenant.objects.update(screening="never")
        assert where(pools.submit(screening="always"))[1] == "full"

    def test_always_is_refused_where_no_jobs_are_tried(self) -> None:
        with pytest.raises(Invalid, match="screens no jobs") as caught:
            submit(make_world(), gpus=4, screening="always")
        assert caught.value.errors[0].field == "screening"
        assert where(submit(make_world(), gpus=4))[1] == "full"

    def test_where_there_is_no_healthy_gpu_the_job_goes_on(self, pools: Screened) -> None:
        Node.objects.filter(pool=pools.small.pool).update(admin="cordoned")
        job = pools.submit()
        assert where(job) == ("queued", "full", pools.main.pool.pk)
        assert (the_result(job).verdict, the_result(job).attempt) == ("untried", None)
        assert kinds(job) == ["job.submitted", "job.screening_skipped"]

    def test_the_demand_is_a_part_of_the_jobs(self, pools: Screened) -> None:
        job = pools.submit(cpus=16, memory="64GiB", time="60s")
        run = screening_run_of(job)
        assert run is not None
        assert (run.request.first.cpus, run.request.first.memory_mib, run.time_limit_s) == (8, 32_768, 60)
        assert (job.gpus, job.nodes, job.request.first.cpus) == (4, 2, 16)

    def test_a_type_that_the_pool_has_is_kept_and_for_another_any_will_do(self, pools: Screened) -> None:
        assert pools.submit(gpus="A100:4").screening["request"]["choices"][0]["gpu_type"] == "A100"
        assert pools.submit(gpus="H100:4").screening["request"]["choices"][0]["gpu_type"] is None

    def test_a_gang_has_its_two_ranks_on_two_nodes(self) -> None:
        pools = Screened(small=2)
        attempt = pools.tried()
        assert [rank.node_id for rank in ranks(attempt)] == [node.pk for node in pools.small.nodes]
        assert attempt.stage == "screening"


class TestPassing:
    def test_who_has_run_for_the_time_keeps_its_place_and_what_it_had(self, pools: Screened) -> None:
        attempt = pools.tried(checkpoint={"grace": "300s"})
        before = now_of(attempt.job)
        attempt = over(attempt)
        assert (attempt.state, attempt.reason) == ("cancelled", "screening_passed")
        job = now_of(attempt.job)
        assert where(job) == ("queued", "full", pools.main.pool.pk)
        for name in ("submitted_at", "eligible_at", "requeued_at", "started_at", "retries_used", "attained_gpu_s"):
            assert getattr(job, name) == getattr(before, name), name
        assert (job.ran_s, job.expected_s, job.screening, job.reason, job.memo) == (0, None, None, "", {})
        assert "job.screening_passed" in kinds(job)
        cycle(pools.main)
        assert (live_attempt(job).stage, live_attempt(job).number) == ("full", 2)
        assert len([gpu for rank in ranks(live_attempt(job)) for gpu in rank.claims.all()]) == 8
        result = the_result(job)
        assert (result.verdict, result.gpus_asked, result.gpus, result.saved_gpu_s) == ("passed", 8, 2, 0)
        assert result.spent_gpu_s == pytest.approx(2 * 301, abs=30)

    def test_it_overtakes_who_was_submitted_after_it(self, pools: Screened) -> None:
        first = pools.tried()
        later = pools.submit(screening="never")
        over(first)
        assert cycle(pools.main).applied.started == [first.job_id]
        assert now_of(later).state == "queued"

    def test_a_first_step_is_enough(self, pools: Screened) -> None:
        attempt = pools.tried()
        (rank, *_) = ranks(attempt)
        for count in (0, 0, 1):
            keep_speeds({rank.pk: count})
            keep_screening(pools.small.pool)
            if not count:
                assert now_of(attempt).state == "running"
        assert (now_of(attempt).state, now_of(attempt).reason) == ("stopping", "screening_passed")
        assert "first step" in now_of(attempt).reason_detail

    def test_speeds_of_a_screening_run_are_nobodys(self, pools: Screened) -> None:
        attempt = pools.tried()
        (rank, *_) = ranks(attempt)
        for count in range(5):
            keep_speeds({rank.pk: count})
            let_pass(60, Speed.objects.get(attempt=attempt), "at", "since")
        assert not SpeedAlone.objects.exists()

    def test_the_agents_own_clock_counts_too(self, pools: Screened) -> None:
        attempt = pools.tried()
        end(ranks(attempt)[0], Reason.TIME_LIMIT, exit_code=143, detail="ran for its 300 s")
        assert (now_of(attempt).state, now_of(attempt).reason) == ("cancelled", "screening_passed")
        assert where(attempt.job)[:2] == ("queued", "full")

    def test_what_ends_well_by_itself_says_little_and_goes_on(self, pools: Screened) -> None:
        attempt = pools.tried()
        end(ranks(attempt)[0])
        assert where(attempt.job) == ("queued", "full", pools.main.pool.pk)
        assert the_result(attempt.job).verdict == "inconclusive"
        assert pools.submit().stage == "screening"  # nothing is trusted

    def test_the_same_is_trusted_and_what_is_not_the_same_is_not(self, pools: Screened) -> None:
        over(pools.tried(env={"LR": "1", "WANDB_NAME": "a"}))
        job = pools.submit(env={"LR": "1", "WANDB_NAME": "b"})
        assert where(job) == ("queued", "full", pools.main.pool.pk)
        assert (the_result(job).verdict, the_result(job).spent_gpu_s) == ("trusted", 0)
        assert pools.submit(env={"LR": "2"}).stage == "screening"
        assert pools.submit(env={"LR": "1"}, screening="always").stage == "screening"
        # What is written into the row is compared, so that is where the volumes have to tell.
        assert digest_of(job) == the_result(job).digest
        job.spec["mounts"] = ["data:/data:ro"]
        assert digest_of(job) != the_result(job).digest
        let_pass(8 * 86_400, ScreeningResult.objects.get(verdict="passed"), "at")
        assert pools.submit(env={"LR": "1"}).stage == "screening"


class TestFailing:
    def test_the_jobs_own_failure_ends_it_and_says_where_it_was_found(self, pools: Screened) -> None:
        attempt = pools.tried()
        let_pass(30, attempt, "running_at", "placed_at")
        job = fail(attempt, BROKEN_CODE)
        assert (job.state, job.stage, job.reason, job.exit_code) == ("failed", "screening", "exit_nonzero", 1)
        assert job.failure["class"] == "import_error"
        assert "found in its screening run on 2 of 8 GPUs" in job.reason_detail
        result = the_result(job)
        assert (result.verdict, result.failure, result.line) == (
            "failed",
            "import_error",
            "ModuleNotFoundError: No module named 'nowhere'",
        )
        assert result.hint
        assert result.full_gpu_s == result.saved_gpu_s == pytest.approx(8 * 30, abs=8 * 5)
        assert result.spent_gpu_s == pytest.approx(2 * 30, abs=10)
        assert kinds(job)[-2:] == ["job.failed", "job.screening_failed"]
        assert cycle(pools.main).applied.started == []

    def test_who_wants_anything_retried_is_tried_again(self, pools: Screened) -> None:
        job = fail(pools.tried(retry={"max": 1, "on": ["anything"]}), BROKEN_CODE)
        assert (job.state, job.stage, job.retries_used) == ("queued", "screening", 1)
        let_pass(3600, job, "eligible_at")
        cycle(pools.small)
        assert fail(running(live_attempt(job)), BROKEN_CODE).state == "failed"

    @pytest.mark.parametrize(
        "tail",
        [
            "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE)\n",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
            "RuntimeError: CUDA error: invalid device ordinal\n",
        ],
        ids=["a timeout of the gang", "memory", "a GPU that a screening run has not"],
    )
    def test_what_may_be_due_to_so_few_gpus_goes_on(self, pools: Screened, tail: str) -> None:
        job = fail(pools.tried(), tail)
        assert where(job) == ("queued", "full", pools.main.pool.pk)
        result = the_result(job)
        assert (result.verdict, result.saved_gpu_s, job.retries_used) == ("inconclusive", 0, 0)
        assert result.failure
        assert "job.screening_inconclusive" in kinds(job)

    @pytest.mark.parametrize("tail", [BROKEN_GPU, BROKEN_NETWORK], ids=["a GPU", "the network"])
    def test_what_is_not_the_jobs_fault_is_tried_again_and_then_goes_on(self, tail: str) -> None:
        pools = Screened(small=4)
        attempt = pools.tried()
        for _ in range(2):
            job = fail(attempt, tail)
            assert (job.state, job.stage, job.retries_used) == ("queued", "screening", 0)
            let_pass(3600, job, "eligible_at")
            cycle(pools.small)
            attempt = running(live_attempt(job))
        job = fail(attempt, tail)
        assert where(job) == ("queued", "full", pools.main.pool.pk)
        assert (job.avoid_nodes, [row.verdict for row in job.screening_results.all()]) == ([], ["interrupted"] * 3)

    def test_screening_runs_that_fail_cordon_no_node(self, pools: Screened) -> None:
        for number in range(6):
            fail(pools.tried(command=f"train {number}"), BROKEN_CODE)
        assert now_of(pools.small.nodes[0]).admin == "active"


class TestWhatElseEndsATrial:
    def test_cancelling_ends_it_and_the_job(self, pools: Screened) -> None:
        attempt = pools.tried()
        cancel_job(user=pools.main.user, job=attempt.job)
        end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        job = now_of(attempt.job)
        assert (job.state, job.reason, the_result(job).verdict) == ("cancelled", "cancelled_by_user", "interrupted")

    def test_cancelling_while_it_waits_for_its_screening_run(self, pools: Screened) -> None:
        job = cancel_job(user=pools.main.user, job=pools.submit())
        assert job.state == "cancelled"
        assert cycle(pools.small).applied.started == []
        assert not go_on_unscreened(job_id=job.pk, why="late")

    def test_requeueing_begins_it_again(self, pools: Screened) -> None:
        attempt = pools.tried()
        requeue_job(user=pools.main.user, job=attempt.job)
        end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        assert where(attempt.job) == ("queued", "screening", pools.small.pool.pk)
        cycle(pools.small)
        assert live_attempt(attempt.job).stage == "screening"

    def test_a_node_that_is_lost_is_no_verdict(self) -> None:
        pools = Screened(small=2, world=1)
        attempt = pools.tried()
        (rank,) = ranks(attempt)
        lose_allocations(
            attempt_id=attempt.pk, node_id=rank.node_id, reason=Reason.NODE_LOST, detail="away", actor="platform"
        )
        assert where(attempt.job) == ("queued", "screening", pools.small.pool.pk)
        assert the_result(attempt.job).verdict == "interrupted"

    def test_a_screening_run_does_not_outlive_its_platform_whatever_the_job_says(self, pools: Screened) -> None:
        attempt = pools.tried(on_disconnect="keep")
        (rank,) = ranks(attempt)
        Node.objects.filter(pk=rank.node_id).update(health="down")
        let_pass(7200, now_of(rank.node).lease, "seen_at")
        Attempt.objects.filter(pk=attempt.pk).update(
            fence_at="2020-01-01T00:00Z", unreachable_since="2020-01-01T00:00Z"
        )
        reap(pools.small.pool)
        assert now_of(attempt).state == "lost"

    def test_a_preempted_one_is_tried_again(self, pools: Screened) -> None:
        attempt = pools.tried()
        stop_attempt(attempt_id=attempt.pk, outcome=AttemptState.PREEMPTED, reason=Reason.PREEMPTED, actor="platform")
        end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        assert where(attempt.job)[1] == "screening"

    def test_when_nothing_can_run_it_any_more_an_interrupted_one_goes_on(self, pools: Screened) -> None:
        attempt = pools.tried()
        Node.objects.filter(pool=pools.small.pool).update(admin="cordoned")
        requeue_job(user=pools.main.user, job=attempt.job)
        end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        assert where(attempt.job) == ("queued", "full", pools.main.pool.pk)


class TestWaiting:
    def wait(self, pools: Screened, job: Job, seconds: float) -> None:
        run = dict(now_of(job).screening)
        for name in ("since", "until"):
            run[name] -= seconds
        Job.objects.filter(pk=job.pk).update(screening=run)
        reap(pools.small.pool)

    def test_who_has_waited_for_too_long_goes_on_untried(self, pools: Screened) -> None:
        pools.tried()
        job = pools.submit(command="other")
        self.wait(pools, job, 590)
        assert where(job)[1] == "screening"
        self.wait(pools, job, 20)
        assert where(job) == ("queued", "full", pools.main.pool.pk)
        assert (the_result(job).verdict, now_of(job).hold_reason) == ("untried", "")
        assert the_result(job).waited_s == pytest.approx(610, abs=20)
        event = Event.objects.get(job_id=job.pk, kind="job.screening_skipped")
        assert "waited for its screening run" in event.data["detail"]

    def test_when_the_last_healthy_gpu_goes_or_nobody_is_tried_there_any_more(self, pools: Screened) -> None:
        first, second = pools.submit(), pools.submit()
        pools.settings.delete()
        reap(pools.small.pool)
        assert {where(job)[1] for job in (first, second)} == {"full"}
        pools = Screened()
        job = pools.submit()
        Node.objects.filter(pool=pools.small.pool).update(health="down")
        reap(pools.small.pool)
        assert where(job)[1] == "full"

    def test_what_no_node_there_can_run_goes_on_at_once(self, pools: Screened) -> None:
        job = pools.submit(memory="2048GiB")
        cycle(pools.small)
        reap(pools.small.pool)  # on one GPU it would need less
        assert screening_run_of(now_of(job)).gpus_total == 1
        cycle(pools.small)
        reap(pools.small.pool)
        assert where(job)[1] == "full"
        assert "cannot run it" in the_result(job).detail

    def test_where_one_gpu_is_free_one_rank_is_tried_and_two_when_there_are(self) -> None:
        pools = Screened(gpus=3, tenant_gpus=8)
        pools.tried()
        job = pools.submit(command="other")
        assert screening_run_of(job).gpus_total == 1
        first = Attempt.objects.get()
        over(first)
        reap(pools.small.pool)
        assert screening_run_of(now_of(job)).gpus_total == 2
        cycle(pools.small)
        assert len(ranks(live_attempt(job))[0].claims.all()) == 2

    def test_a_plan_that_is_late_does_not_start_a_job_that_went_on(self, pools: Screened) -> None:
        from muster.dispatch.apply.apply import apply_unit
        from muster.dispatch.apply.plan_units import Unit
        from muster.dispatch.config.settings import config_of

        job = pools.submit(nodes=1, gpus=2, screening="always")
        places, seen = planned_places(pools.small)
        go_on_unscreened(job_id=job.pk, why="it was in a hurry")
        applied = apply_unit(pools.small.pool, Unit(tuple(places)), config_of(pools.small.pool), seen)
        assert [refusal.reason for refusal in applied.refusals] == ["the job is in the queue of another pool now"]


class TestWhoPays:
    def test_a_screening_run_takes_nothing_of_the_quota(self) -> None:
        pools = Screened()
        VirtualCluster.objects.get(pk=pools.main.vc.pk).quotas.update(gpus=8)
        attempt = pools.tried()
        (shown,) = virtual_cluster_list(pools.main.user, VirtualCluster.objects.filter(pk=pools.main.vc.pk))
        assert [(one["gpus"], one["used"]) for one in shown["quotas"]] == [(8, 0)]
        whole = pools.submit(screening="never")
        assert cycle(pools.main).applied.started == [whole.pk]
        assert now_of(attempt).state == "running"

    def test_a_tenant_has_so_many_gpus_for_its_screening_runs_and_another_its_own(self) -> None:
        pools = Screened(small=2, tenant_gpus=2)
        pools.tried()
        second = pools.submit(command="other")
        assert cycle(pools.small).applied.started == []
        assert now_of(second).hold_reason == "quota"
        assert "screening of" in now_of(second).hold["detail"]
        tenant = make_tenant()
        vc = make_vc(tenant, pools.main.pool, quotas={"A100": 100})
        others = submit(replace(pools.main, tenant=tenant, user=make_user(tenant=tenant), vc=vc), **GANG)
        assert cycle(pools.small).applied.started == [others.pk]

    def test_opportunistic_jobs_use_what_is_idle_and_go_when_a_screening_run_wants_it(self) -> None:
        pools = Screened(admission="borrow")
        tenant = make_tenant()
        guest = replace(
            pools.small, tenant=tenant, user=make_user(tenant=tenant), vc=make_vc(tenant, pools.small.pool, quotas={})
        )
        guests = [submit(guest, **{"class": "opportunistic"}) for _ in range(2)]
        assert sorted(cycle(guest).applied.started) == [job.pk for job in guests]
        attempts = [running(live_attempt(job)) for job in guests]
        job = pools.submit()
        result = cycle(pools.small)
        assert result.applied.reserved == [job.pk]
        for attempt in attempts:
            assert now_of(attempt).state == "stopping"
            end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        cycle(pools.small)
        assert live_attempt(job).stage == "screening"
        assert {now_of(one).state for one in guests} == {"queued"}

    def test_a_pool_that_tries_nobody_asks_once(self, pools: Screened, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(1):
            keep_screening(pools.main.pool)

    def test_a_cycle_without_screening_runs_asks_nothing_more(
        self, pools: Screened, django_assert_num_queries: Any
    ) -> None:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        submit(pools.main, gpus=1)
        with CaptureQueriesContext(connection) as captured:
            run_cycle(pools.main.pool.pk, trigger="command")
        assert not [query for query in captured.captured_queries if "screening_" in query["sql"]]
