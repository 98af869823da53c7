"""The platform's own history as a trace: what is written is what the simulator reads."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from muster.jobs.models import Job
from muster.jobs.services import cancel_job
from muster.samples.models import SpeedAlone
from muster.tenants.models import Quota
from scheduler.model.reasons import Reason
from scheduler.sim.readers import detect, read_trace
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork, ScalingWork
from tests.db.stories import World, end, let_pass, make_world, now_of, ranks, start, submit
from tests.factories import make_node

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_world(nodes=2, gpus=4, quota=6)


def export(path: Path, **options: Any) -> Trace:
    """The trace that the simulator reads from the export."""
    call_command("export_trace", str(path), stdout=StringIO(), **options)
    assert detect(path).name == "muster"
    return read_trace(path)


def ended(world: World, after_s: float, reason: Reason = Reason.COMPLETED, **spec: Any) -> Job:
    """A job that waited for 100 s and then ran for `after_s`."""
    attempt = start(world, **spec)
    let_pass(after_s, attempt, "placed_at")
    let_pass(after_s, attempt.job, "started_at")
    let_pass(after_s + 100, attempt.job, "submitted_at")
    for rank in ranks(attempt):
        end(rank, reason)
    job: Job = now_of(attempt.job)
    return job


def run_s(job: TraceJob) -> float:
    assert isinstance(job.work, FixedWork)
    return job.work.duration_s


def test_what_was_exported_reads_back(world: World, tmp_path: Path) -> None:
    gang = ended(world, 600, gpus="A100:2", nodes=2, cpus=3, memory="4GiB", time="1h", priority="low", name="train")
    failed = ended(world, 50, Reason.EXIT_NONZERO, preemptible=False, time="2h")
    cancel_job(user=world.user, job=submit(world))  # never ran
    start(world)  # has not ended
    trace = export(tmp_path / "jobs.jsonl")
    assert trace.left_out == {"never started": 1}
    assert trace.quotas == {world.vc.name: {"A100": 6}}
    first, second = trace.jobs
    assert (first.name, first.gpus, first.nodes, first.gpu_type) == ("train", 4, 2, "A100")
    assert (first.cpus, first.memory_mib, first.priority, first.split) == (3, 4096, 0, False)
    assert (first.preemptible, first.time_limit_s, first.status) == (True, 3600.0, "succeeded")
    assert (second.preemptible, second.time_limit_s, second.status) == (False, 7200.0, "failed")
    assert (first.vc, first.owner) == (world.vc.name, world.user.username)
    assert first.waited_s == pytest.approx(100, abs=5)
    assert run_s(first) == pytest.approx(gang.ran_s, abs=0.01) == pytest.approx(600, abs=5)
    assert run_s(second) == pytest.approx(failed.ran_s, abs=0.01)
    assert second.submitted_s == pytest.approx((failed.submitted_at - gang.submitted_at).total_seconds())


def test_a_job_with_several_choices_is_exported_as_it_ran(world: World, tmp_path: Path) -> None:
    make_node(world.pool, gpus=8, gpu_type="V100", credential="volta")
    Quota.objects.create(vc=world.vc, gpu_type="V100", gpus=8)
    ended(world, 10, gpus={"any_of": ["V100:4", "A100:2"]}, cpus=3)
    (job,) = export(tmp_path / "jobs.jsonl").jobs
    assert (job.gpus, job.gpu_type, job.cpus) == (4, "V100", 3)


def test_pseudonyms_are_stable_and_say_nothing(world: World, tmp_path: Path) -> None:
    for name in ("secret-plan", "secret-plan", "other"):
        ended(world, 10, name=name)
    first, second, third = export(tmp_path / "a.jsonl", anonymous=True).jobs
    again = export(tmp_path / "b.jsonl", anonymous=True).jobs
    assert [(job.name, job.owner) for job in again] == [(job.name, job.owner) for job in (first, second, third)]
    assert first.name == second.name != third.name
    assert first.owner == third.owner
    text = (tmp_path / "a.jsonl").read_text()
    assert world.user.username not in text
    assert "secret-plan" not in text


def test_a_pool_and_a_time_can_be_chosen(world: World, tmp_path: Path) -> None:
    other = make_world()
    old, new, elsewhere = ended(world, 10), ended(world, 10), ended(other, 10)
    let_pass(3 * 86_400, old, "submitted_at")
    since = new.submitted_at.date().isoformat()
    assert len(export(tmp_path / "all.jsonl").jobs) == 3
    assert len(export(tmp_path / "pool.jsonl", pool=world.pool.name).jobs) == 2
    assert [job.name for job in export(tmp_path / "new.jsonl", pool=world.pool.name, since=since).jobs] == [new.name]
    assert [job.name for job in export(tmp_path / "other.jsonl", pool=other.pool.name).jobs] == [elsewhere.name]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"pool": "none-such"}, "no pool none-such"),
        ({"since": "yesterday"}, "is not a time"),
        ({}, "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said(options: dict[str, str], reason: str, db: None, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("not ours")
    with pytest.raises(CommandError, match=reason):
        call_command("export_trace", str(out), stdout=StringIO(), **options)
    assert out.read_text() == "not ours"


def test_an_elastic_job_has_its_sizes_and_the_time_that_it_had_taken_in_the_one_that_it_asks_for(
    tmp_path: Path,
) -> None:
    grows = make_world(policy="optimus", gpus=4)
    job = ended(grows, 600, gpus="A100:2", elastic={"min": 1, "max": 4}, checkpoint={}, expected="1h")
    assert job.attempts.get().gpus_total == 4
    for gpus, per_s in ((2, 10.0), (4, 15.0)):
        SpeedAlone.objects.create(job=job, gpu_type="A100", gpus=gpus, per_s=per_s, at=job.ended_at)
    (one,) = export(tmp_path / "jobs.jsonl").jobs
    assert (one.gpus, one.min_gpus, one.max_gpus) == (2, 1, 4)
    assert isinstance(one.work, ScalingWork)
    assert one.work.speeds()[3] / one.work.speeds()[1] == pytest.approx(1.5, rel=1e-3)
    assert one.work.duration_s == pytest.approx(1.5 * 600, rel=0.01)
