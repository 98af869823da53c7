"""Effects of an agent's report of a sick GPU: on the GPU, its node, and the job that has it."""

from __future__ import annotations

import pytest

from muster.common.errors import Conflict
from muster.dispatch.reaper import reap
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.models import Event
from muster.fleet.health import MAX_REPORTS_PER_MINUTE
from muster.fleet.models import Gpu, HealthReport, Node, Pool, Strike
from muster.fleet.services import repair_gpus
from muster.jobs.attempt.outcome import FREE_CHECKS
from muster.jobs.models import Attempt, GpuClaim
from nodeagent.protocol.messages import MAX_HEALTH_EVENTS, AllocationReport, EndReason, HealthEvent, Observed
from scheduler.model.reasons import Reason
from tests.db.agent_calls import Agent
from tests.db.stories import World, claim, cycle, end, let_pass, live_attempt, make_world, now_of, place, ranks, start
from tests.factories import make_node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

OFF_THE_BUS = "NVRM: Xid (PCI:0000:01:00): 79, pid=7, GPU has fallen off the bus."


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


def gpu_of(attempt: Attempt) -> Gpu:
    return ranks(attempt)[0].claims.get().gpu


def xid(gpu: Gpu, number: int, detail: str = "") -> HealthEvent:
    return HealthEvent("xid", gpu.uuid, detail, number)


def test_a_job_whose_gpu_failed_is_stopped_and_queued_again_to_run_elsewhere(agent: Agent, world: World) -> None:
    attempt, bad = start(world), world.nodes[0]
    gpu = gpu_of(attempt)
    assert gpu.node == bad
    assert agent.sync(health=(xid(gpu, 79, OFF_THE_BUS),)).status_code == 200
    gpu = now_of(gpu)
    assert (gpu.health, gpu.healthy, gpu.health_why) == ("failure", False, "Xid 79: fallen off the bus")
    assert now_of(bad).admin == "draining"
    assert now_of(bad).reason == f"GPU {gpu.index} has failed (fallen off the bus): restart the machine"
    stopping = now_of(attempt)
    assert (stopping.state, stopping.outcome, stopping.reason) == ("stopping", "failed", "gpu_failed")
    end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL)
    job = now_of(attempt.job)
    assert (job.state, job.avoid_nodes, job.retries_used) == ("queued", [bad.pk], 1)
    cycle(world)  # it need not wait
    assert {one.node_id for one in ranks(live_attempt(attempt.job))} == {world.nodes[1].pk}
    assert [strike.reason for strike in Strike.objects.all()] == ["gpu_lost"]


def test_what_happened_is_told_by_events(agent: Agent, world: World) -> None:
    gpu = gpu_of(start(world))
    agent.sync(health=(xid(gpu, 79, OFF_THE_BUS),))
    said, level = (Event.objects.get(kind=kind).data for kind in ("gpu.health", "gpu.health_level"))
    assert (said["xid"], said["level"], said["action"], said["detail"]) == (79, "failure", "drain_node", OFF_THE_BUS)
    assert (level["was"], level["level"], level["why"]) == ("ok", "failure", "Xid 79: fallen off the bus")
    assert Event.objects.filter(kind="node.draining").count() == 1


def test_a_gpu_that_needs_a_reset_leaves_its_node_and_other_jobs_alone(agent: Agent, world: World) -> None:
    hurt, other = start(world), start(world)
    gpu = gpu_of(hurt)
    agent.sync(health=(xid(gpu, 119),))
    assert [now_of(attempt).state for attempt in (hurt, other)] == ["stopping", "running"]
    assert now_of(world.nodes[0]).admin == "active"
    assert place(world, gpus=2) is not None
    assert not GpuClaim.objects.filter(gpu=gpu).exclude(allocation__attempt=hurt).exists()


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 92, 777])
def test_an_xid_of_the_application_leaves_the_job_to_itself(number: int, agent: Agent, world: World) -> None:
    attempt = start(world)
    gpu = gpu_of(attempt)
    agent.sync(health=(xid(gpu, number),))
    assert (now_of(gpu).health, now_of(attempt).state) == ("ok", "running")
    assert HealthReport.objects.get().xid == number


def test_a_report_of_a_gpu_that_has_failed_already_stops_who_has_it(agent: Agent, world: World) -> None:
    # So it is when the platform ended after the GPU was marked and before its job was stopped.
    attempt = start(world)
    gpu = gpu_of(attempt)
    Gpu.objects.filter(pk=gpu.pk).update(health="failure")
    agent.sync(health=(xid(gpu, 48),))
    assert now_of(attempt).state == "stopping"


def test_a_job_that_wants_no_retry_fails_with_its_gpu(agent: Agent, world: World) -> None:
    attempt = start(world, retry={"max": 0, "on": []})
    agent.sync(health=(xid(gpu_of(attempt), 48),))
    end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL)
    job = now_of(attempt.job)
    assert (job.state, job.reason) == ("failed", "gpu_failed")


def test_a_gpu_with_a_warning_is_the_last_choice_and_well_again_when_nobody_repeats_it(
    agent: Agent, world: World
) -> None:
    node = world.nodes[0]
    first = Gpu.objects.get(node=node, index=0)
    agent.sync(health=(HealthEvent("throttle", first.uuid, "thermal slowdown"),))
    assert (now_of(first).health, now_of(first).healthy) == ("warning", True)
    seen = next(seen for seen in pool_snapshot(node.pool, seed=1).nodes if seen.id == node.pk)
    assert [gpu.warned for gpu in seen.gpus] == [True, False, False, False]
    assert {gpu_of(start(world)).node_id for _ in range(4)} == {world.nodes[1].pk}
    assert gpu_of(start(world)) == Gpu.objects.get(node=node, index=1)
    reap(node.pool)
    assert now_of(first).health == "warning"
    let_pass(3700, HealthReport.objects.get(), "last_at")
    reap(node.pool)
    assert now_of(first).health == "ok"
    assert HealthReport.objects.get().over_at is not None


def test_a_failure_is_never_made_a_warning_and_stays_until_it_is_repaired(agent: Agent, world: World) -> None:
    gpu = Gpu.objects.get(node=world.nodes[0], index=0)
    agent.sync(health=(xid(gpu, 48), HealthEvent("throttle", gpu.uuid)))
    for row in HealthReport.objects.all():
        let_pass(90_000, row, "last_at")
    reap(world.pool)
    assert now_of(gpu).health == "failure"
    repair_gpus(node=world.nodes[0], reason="reset", actor="olga")
    assert (now_of(gpu).health, now_of(gpu).healthy, now_of(gpu).health_why) == ("ok", True, "")
    assert not HealthReport.objects.filter(over_at=None).exists()
    with pytest.raises(Conflict):
        repair_gpus(node=world.nodes[0], reason="reset", actor="olga")


def test_what_is_told_again_is_counted_and_an_xid_later_is_another_one(agent: Agent, world: World) -> None:
    gpu = Gpu.objects.get(node=world.nodes[0], index=0)
    for _ in range(3):
        agent.sync(health=(xid(gpu, 13),))
    row = HealthReport.objects.get()
    assert row.count == 3
    let_pass(11, row, "last_at")
    agent.sync(health=(xid(gpu, 13),))
    assert list(HealthReport.objects.order_by("pk").values_list("count", flat=True)) == [3, 1]
    assert Event.objects.filter(kind="gpu.health").count() == 2


def test_a_job_whose_gpu_fails_its_check_goes_elsewhere_for_nothing(agent: Agent, world: World) -> None:
    attempt = place(world, retry={"max": 0, "on": []})
    assert attempt is not None
    allocation, bad = ranks(attempt)[0], world.nodes[0]
    gpu = allocation.claims.get().gpu
    assert agent.launch(allocation).check_gpus
    agent.sync(health=(HealthEvent("check_failed", gpu.uuid, "9216 MiB are in use and no process is there"),))
    assert agent.end(allocation, EndReason.GPU_CHECK_FAILED, started=False, detail="not fit").status == 200
    job = now_of(attempt.job)
    assert (job.state, job.reason, job.retries_used, job.avoid_nodes) == ("queued", "gpu_check_failed", 0, [bad.pk])
    assert (now_of(attempt).state, now_of(attempt).reason, job.failure) == ("failed", "gpu_check_failed", None)
    assert (now_of(gpu).healthy, now_of(gpu).health_why) == (False, "a check has failed")
    assert not Strike.objects.exists()
    cycle(world)  # it need not wait
    assert {one.node_id for one in ranks(live_attempt(attempt.job))} == {world.nodes[1].pk}


def test_a_job_that_finds_no_fit_gpu_again_and_again_does_not_go_round_for_ever(agent: Agent, world: World) -> None:
    # So it would be with an agent that refuses GPUs and does not say so.
    world = make_world(nodes=1)
    attempt = place(world, retry={"max": 1, "on": ["infrastructure"]})
    assert attempt is not None
    for _ in range(FREE_CHECKS):
        end(claim(ranks(attempt)[0]), Reason.GPU_CHECK_FAILED, started=False)
        assert (now_of(attempt.job).state, now_of(attempt.job).retries_used) == ("queued", 0)
        cycle(world)
        attempt = live_attempt(attempt.job)
    end(claim(ranks(attempt)[0]), Reason.GPU_CHECK_FAILED, started=False)
    cycle(world)
    end(claim(ranks(live_attempt(attempt.job))[0]), Reason.GPU_CHECK_FAILED, started=False)
    assert (now_of(attempt.job).state, now_of(attempt.job).retries_used) == ("failed", 1)


@pytest.mark.parametrize(
    ("reason", "exit_code", "state"), [(EndReason.COMPLETED, 0, "succeeded"), (EndReason.EXIT_NONZERO, 1, "failed")]
)
def test_a_gpu_that_is_not_free_after_a_quick_end_takes_nothing_of_the_end(
    agent: Agent, world: World, reason: EndReason, exit_code: int, state: str
) -> None:
    attempt = place(world, retry={"max": 0, "on": []})
    allocation = ranks(attempt)[0]
    agent.launch(allocation)
    gpu = gpu_of(attempt)
    assert now_of(attempt).state == "starting"  # it was over before its agent had said that it runs
    told = AllocationReport(allocation.pk, attempt.pk, Observed.EXITED, exit_code=exit_code)
    event = HealthEvent("check_failed", gpu.uuid, "after a job had ended: 9216 MiB are in use")
    agent.sync(allocations=(told,), health=(event,))
    assert (now_of(attempt).state, now_of(gpu).healthy) == ("starting", False)
    assert agent.end(allocation, reason, exit_code=exit_code).status == 200
    job = now_of(attempt.job)
    assert (job.state, job.reason, now_of(attempt).state) == (state, reason.value, state)


def test_a_failed_check_leaves_what_runs_on_the_gpu_alone(agent: Agent, world: World) -> None:
    attempt = start(world)
    agent.sync(health=(HealthEvent("check_failed", gpu_of(attempt).uuid, "a wrong product"),))
    assert (now_of(attempt).state, now_of(gpu_of(attempt)).healthy) == ("running", False)


def test_a_gpu_that_is_not_empty_after_a_job_takes_no_other_and_the_job_is_done(agent: Agent, world: World) -> None:
    attempt = start(world)
    allocation, gpu = ranks(attempt)[0], gpu_of(attempt)
    agent.sync(health=(HealthEvent("check_failed", gpu.uuid, "after a job had ended: process 71 is on it"),))
    assert agent.end(allocation, EndReason.COMPLETED).status == 200
    assert (now_of(attempt).state, now_of(attempt.job).state) == ("succeeded", "succeeded")
    assert not Strike.objects.exists()
    held = {gpu_of(place(world)) for _ in range(7)}
    assert held == set(Gpu.objects.exclude(pk=gpu.pk))


def test_a_pool_may_do_without_the_look(agent: Agent, world: World) -> None:
    Pool.objects.update(check_gpus=False)
    attempt = place(world)
    assert attempt is not None
    assert not agent.launch(ranks(attempt)[0]).check_gpus


def test_an_agent_takes_only_its_own_gpus_out_of_service(agent: Agent, world: World) -> None:
    foreign = make_node(world.pool, gpus=1).gpus.get()
    agent.sync(health=(xid(foreign, 79), HealthEvent("xid", None, "", 79), HealthEvent("gpu_lost", "no such GPU")))
    assert now_of(foreign).health == "ok"
    assert set(Node.objects.values_list("admin", flat=True)) == {"active"}
    assert set(HealthReport.objects.values_list("gpu", flat=True)) == {None}


def test_what_an_agent_floods_the_platform_with_is_bounded_and_a_failure_still_counts(
    agent: Agent, world: World
) -> None:
    gpu, other = Gpu.objects.filter(node=world.nodes[0]).order_by("index")[:2]
    for batch in range(2):
        flood = tuple(
            HealthEvent("k" * 200, gpu.uuid, f"{batch} \x1b[31m" + "x" * 5000, 2**40 + number)
            if number % 2
            else HealthEvent("xid", gpu.uuid, "", 10_000 + 1000 * batch + number)
            for number in range(MAX_HEALTH_EVENTS + 20)
        )
        assert agent.sync(health=flood).status_code == 200
    assert HealthReport.objects.count() <= MAX_REPORTS_PER_MINUTE
    assert max(len(row.detail) for row in HealthReport.objects.all()) == 500
    assert all(row.detail.isprintable() for row in HealthReport.objects.all())
    agent.sync(health=(xid(other, 48),))
    assert now_of(other).health == "failure"
    late = (*(HealthEvent("other") for _ in range(MAX_HEALTH_EVENTS)), xid(gpu, 48))
    agent.sync(health=late)
    assert now_of(gpu).health == "ok"  # beyond what one message may tell
