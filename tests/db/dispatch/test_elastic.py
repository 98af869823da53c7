"""Elastic jobs in production: what policies know of them, and how a resize is carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from muster.agents.launch import gang_environment, launch_spec, torchrun_defaults
from muster.common.models import DatabaseNow
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.models import Event
from muster.jobs.attempt.estimates import estimate_jobs
from muster.jobs.models import Attempt, Job, ReservedGpu
from muster.jobs.services import draft_job
from muster.samples.models import SpeedAlone
from scheduler import model
from scheduler.authoring import AssignmentPolicy, Config, Cycle
from scheduler.model.reasons import Reason
from scheduler.policies.optimus import Optimus
from scheduler.predict.scaling import speeds_of
from tests.db.stories import (
    World,
    claim,
    cycle,
    end,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    ranks,
    run,
    start,
    submit,
)

pytestmark = pytest.mark.django_db

ELASTIC: dict[str, Any] = {
    "gpus": "A100:2",
    "elastic": {"min": 1, "max": 4},
    "checkpoint": {"grace": "20s"},
    "expected": "10h",
}


@pytest.fixture
def world() -> World:
    """One node with four GPUs, whose policy resizes jobs."""
    return make_world(gpus=4, policy="optimus")


def measure(job: Job, per_s: dict[int, float]) -> None:
    """The job was measured alone on these numbers of GPUs."""
    for gpus, rate in per_s.items():
        SpeedAlone.objects.create(job=job, gpu_type="A100", gpus=gpus, per_s=rate, at=DatabaseNow())


def waiting(world: World) -> model.Job:
    (job,) = pool_snapshot(world.pool, seed=0).waiting
    return job


def running(world: World, job: Job) -> model.Running:
    return pool_snapshot(world.pool, seed=0).running_by_job[job.pk]


def start_again(job: Job) -> Attempt:
    """The live attempt of the job, which its agents start."""
    attempt = live_attempt(job)
    for allocation in ranks(attempt):
        run(claim(allocation))
    attempt.refresh_from_db()
    return attempt


CERTAIN = {"expected_p10_s": None, "expected_p90_s": None}


class TestWhatAPolicyKnows:
    def test_speeds_follow_the_law_until_they_are_measured(self, world: World) -> None:
        job = submit(world, **ELASTIC)
        assert waiting(world).speeds == speeds_of({}, 4)
        measure(job, {1: 10.0, 2: 19.0, 4: 12.0})
        assert waiting(world).speeds == speeds_of({1: 10.0, 2: 19.0, 4: 12.0}, 4)

    def test_a_gang_has_a_speed_for_the_gpus_of_all_its_nodes(self, world: World) -> None:
        submit(world, **ELASTIC, nodes=2)
        assert len(waiting(world).speeds) == 8

    def test_what_it_has_run_counts_by_the_size_it_ran_in(self, world: World) -> None:
        job = submit(world, **ELASTIC)
        speeds = speeds_of({}, 4)
        Job.objects.filter(pk=job.pk).update(ran_s=3600, attained_gpu_s=4 * 3600, **CERTAIN)
        assert waiting(world).remaining_s == pytest.approx(36_000 - 3600 * speeds[3] / speeds[1])

    def test_what_runs_has_done_by_its_size_and_outlives_its_estimate_by_that(self, world: World) -> None:
        job = submit(world, **ELASTIC)
        cycle(world)
        attempt = start_again(job)
        assert attempt.gpus_total == 4
        speeds = speeds_of({}, 4)
        Job.objects.filter(pk=job.pk).update(**CERTAIN)
        let_pass(3600, attempt, "placed_at")
        seen = running(world, job)
        now = pool_snapshot(world.pool, seed=0).now
        assert seen.remaining_s(now) == pytest.approx(36_000 - 3600 * speeds[3] / speeds[1], abs=60)
        let_pass(6 * 3600, attempt, "placed_at")
        assert 50_000 < (running(world, job).job.expected_s or 0) < 80_000

    def test_a_job_of_one_size_has_no_speeds(self, world: World) -> None:
        submit(world, gpus=2, expected="1h")
        assert (waiting(world).speeds, waiting(world).remaining_s) == ((), 3600)

    def test_the_history_of_elastic_jobs_counts_by_their_gpu_time(self, world: World) -> None:
        job = submit(world, **{**ELASTIC, "expected": None})
        cycle(world)
        attempt = start_again(job)
        end(ranks(attempt)[0])
        Job.objects.filter(pk=job.pk).update(ran_s=100, attained_gpu_s=400)
        draft = draft_job(user=world.user, data={"command": "true", "vc": world.vc.name, **ELASTIC, "expected": None})
        estimate_jobs([draft])
        assert draft.expected_s == 200


@pytest.mark.usefixtures("as_committed", "sound")
class TestAResize:
    def test_a_job_grows_into_what_another_leaves_and_shrinks_for_one_that_comes(self, world: World) -> None:
        other = start(world, gpus=2)
        attempt = start(world, **ELASTIC)
        job = attempt.job
        assert attempt.gpus_total == 2
        end(ranks(other)[0])
        cycle(world)
        attempt.refresh_from_db()
        assert (attempt.state, attempt.reason_detail) == ("stopping", "its size changes from 2 to 4 GPUs")
        end(ranks(attempt)[0], Reason.PREEMPTED)
        cycle(world)
        grown = start_again(job)
        assert (grown.number, grown.gpus_total, grown.request.first.cpus) == (2, 4, 2 * attempt.request.first.cpus)
        assert now_of(job).retries_used == 0
        node, allocation = world.nodes[0], ranks(grown)[0]
        assert gang_environment(node, allocation)["MUSTER_GPUS"] == "4"
        assert torchrun_defaults(allocation)["PET_NPROC_PER_NODE"] == "4"
        submit(world, gpus=2)
        cycle(world)
        grown.refresh_from_db()
        assert (grown.state, grown.reason_detail) == ("stopping", "its size changes from 4 to 2 GPUs")
        end(ranks(grown)[0], Reason.PREEMPTED)
        cycle(world)
        assert (start_again(job).number, live_attempt(job).gpus_total) == (3, 2)

    def test_a_job_over_its_gang_grows_from_one_node_to_two_within_its_quota_and_shrinks_again(self) -> None:
        world = make_world(nodes=2, gpus=4, quota=10, policy="optimus")
        fillers = [start(world, gpus=4), start(world, gpus=2)]
        attempt = start(world, **{**ELASTIC, "elastic": {"min": 1, "max": 8, "over": "gang"}})
        job, first = attempt.job, ranks(attempt)[0]
        assert (attempt.gpus_total, gang_environment(first.node, first)["MUSTER_NNODES"]) == (2, "1")
        assert torchrun_defaults(first)["PET_NNODES"] == "1"
        for filler in fillers:
            end(ranks(filler)[0])
        cycle(world)
        attempt.refresh_from_db()
        assert (attempt.state, attempt.reason_detail) == ("stopping", "its size changes from 2 to 8 GPUs")
        kept = ReservedGpu.objects.filter(reservation__job=job)
        assert Counter(kept.values_list("gpu__node", flat=True)) == {node.pk: 4 for node in world.nodes}
        end(first, Reason.PREEMPTED)
        cycle(world)
        grown = start_again(job)
        assert (grown.number, grown.gpus_total, grown.request.nodes) == (2, 8, 2)
        assert [len(share.claims.all()) for share in ranks(grown)] == [4, 4]
        assert grown.request.first.cpus == 2 * attempt.request.first.cpus
        for rank, allocation in enumerate(ranks(grown)):
            told = gang_environment(allocation.node, allocation) | torchrun_defaults(allocation)
            assert (told["MUSTER_NNODES"], told["MUSTER_RANK"], told["MUSTER_GPUS"]) == ("2", str(rank), "4")
            assert (told["WORLD_SIZE"], told["PET_NNODES"], told["PET_NPROC_PER_NODE"]) == ("2", "2", "4")
            assert len(told["MUSTER_NODE_ADDRS"].split(",")) == 2
            master = ranks(grown)[0].node
            assert told["MASTER_ADDR"] == told["PET_MASTER_ADDR"] == (master.address or master.name)
            assert told["PET_MASTER_PORT"] == told["MASTER_PORT"] == str(grown.master_port)
        more = submit(world, gpus=2)
        cycle(world)
        grown.refresh_from_db()
        assert (grown.state, grown.reason_detail) == ("stopping", "its size changes from 8 to 4 GPUs")
        for allocation in ranks(grown):
            end(allocation, Reason.PREEMPTED)
        cycle(world)
        assert (live_attempt(more).gpus_total, live_attempt(job).gpus_total) == (2, 4)
        assert (start_again(job).request.nodes, now_of(job).retries_used) == (1, 0)

    def test_a_job_over_its_gang_grows_to_its_quota_and_no_further(self) -> None:
        world = make_world(nodes=3, gpus=4, quota=6, policy="optimus")
        attempt = start(world, **{**ELASTIC, "elastic": {"min": 1, "max": 12, "over": "gang"}})
        assert (attempt.gpus_total, attempt.request.nodes, attempt.request.first.gpus) == (6, 2, 3)

    def test_a_policy_that_assigns_configurations_resizes_it(self, world: World, monkeypatch: Any) -> None:
        class Assigned(AssignmentPolicy):
            gpus, batch = 2, 64

            def choose(self, cycle: Cycle) -> Mapping[int, Config | None]:
                jobs = [*cycle.waiting(), *(run.job for run in cycle.running())]
                for job in jobs:
                    cycle.give(job, {"ACCUMULATE": "2", "PRECISION": "bf16"})
                return {job.id: Config("A100", self.gpus, batch=self.batch) for job in jobs}

        def told(attempt: Attempt) -> list[str | None]:
            (rank,) = ranks(attempt)
            env = launch_spec(rank.node, rank).env
            return [env.get(name) for name in ("MUSTER_BATCH_SIZE", "ACCUMULATE", "PRECISION")]

        monkeypatch.setattr(Optimus, "serve", lambda _, context: Assigned().serve(context))
        attempt = start(world, **ELASTIC, env={"PRECISION": "fp32"})
        assert (attempt.gpus_total, told(attempt)) == (2, ["64", "2", "fp32"])
        cycle(world)
        assert now_of(attempt).state == "running"
        monkeypatch.setattr(Assigned, "gpus", 3)
        monkeypatch.setattr(Assigned, "batch", 96)
        cycle(world)
        attempt.refresh_from_db()
        assert (attempt.state, attempt.reason_detail) == (
            "stopping",
            "its configuration changes from A100:2 with batch size 64 to A100:3 with batch size 96",
        )
        monkeypatch.setattr(Assigned, "choose", lambda *_: {})  # what it chose is reserved, with its values
        end(ranks(attempt)[0], Reason.PREEMPTED)
        cycle(world)
        again = start_again(attempt.job)
        assert (again.gpus_total, told(again), now_of(attempt.job).retries_used) == (3, ["96", "2", "fp32"], 0)
        placed = Event.objects.filter(job_id=attempt.job_id, kind="attempt.placed").latest("pk")
        assert placed.data["given"] == {"MUSTER_BATCH_SIZE": "96", "ACCUMULATE": "2", "PRECISION": "bf16"}

    def test_a_job_whose_measured_speed_does_not_grow_stays(self, world: World) -> None:
        job = submit(world, **ELASTIC)
        measure(job, {2: 19.0, 3: 18.0, 4: 12.0})
        cycle(world)
        assert live_attempt(job).gpus_total == 2

    def test_a_job_without_an_estimate_has_the_size_that_it_asks_for(self, world: World) -> None:
        job = submit(world, **{**ELASTIC, "expected": None})
        cycle(world)
        assert live_attempt(job).gpus_total == 2


@pytest.mark.usefixtures("as_committed", "sound")
def test_gandiva_grows_a_job_into_gpus_that_stay_idle_and_shrinks_it_for_one_that_comes() -> None:
    world = make_world(gpus=4, policy="gandiva", policy_params={"slice_s": None, "grow_after_s": 1})
    attempt = start(world, **{**ELASTIC, "expected": None})
    job = attempt.job
    memo = now_of(job).memo
    Job.objects.filter(pk=job.pk).update(memo={**memo, "idle": memo["idle"] - 60})
    cycle(world)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.reason_detail) == ("stopping", "it grows from 2 GPUs to 4")
    end(ranks(attempt)[0], Reason.PREEMPTED)
    cycle(world)
    grown = start_again(job)
    assert (grown.gpus_total, grown.request.first.cpus) == (4, 2 * attempt.request.first.cpus)
    submit(world, gpus=1)
    cycle(world)
    end(ranks(grown)[0], Reason.PREEMPTED)
    cycle(world)
    assert (live_attempt(job).gpus_total, now_of(job).retries_used) == (2, 0)
