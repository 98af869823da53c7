"""A simulation that goes on from the stored snapshot of a pool."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Reservation, Snapshot
from scheduler.model.lifecycle import AttemptState
from scheduler.model.plan import apply
from scheduler.model.request import Over
from scheduler.sim.__main__ import main
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.result import JobRecord
from scheduler.sim.start import start_of, start_to_json
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_snapshot

FIFO = CycleConfig(policy="fifo")


def job(number: int, *, gpus: int = 1, runs: float | None = 100.0, **fields: Any) -> Job:
    return make_job(number, gpus=gpus, expected_s=runs, remaining_s=runs, **fields)


def pool(*running: Job, waiting: tuple[Job, ...] = ()) -> Snapshot:
    """A node of four GPUs, on which these jobs have run for 30 seconds."""
    world = make_snapshot(nodes=[make_node(1, gpus=4)], waiting=list(running))
    world = apply(world, decide(world, FIFO))
    began = tuple(replace(run, placed_at=NOW - 30.0) for run in world.running)
    return replace(world, waiting=waiting, running=began)


def go_on(world: Snapshot) -> dict[int, JobRecord]:
    start = start_of(world, FIFO, "a cycle")
    result = simulate(start.trace, start.cluster, Options.of(FIFO, "fifo"), start=start)
    return {one.id: one for one in result.records}


def test_what_runs_ends_when_it_is_predicted_to_and_what_waits_follows() -> None:
    found = go_on(pool(job(1, gpus=4), waiting=(job(2, gpus=4),)))
    assert [(one.started_s, one.ended_s) for one in found.values()] == [(-30.0, 70.0), (70.0, 170.0)]


@pytest.mark.parametrize(("runs", "ended_s"), [(None, 3570.0), (20.0, 30.0)])
def test_what_nothing_is_known_of_runs_for_an_hour_and_what_outlives_its_prediction_as_long_again(
    runs: float | None, ended_s: float
) -> None:
    assert go_on(pool(job(1, runs=runs)))[1].ended_s == ended_s


def test_a_job_that_backs_off_waits_for_its_time() -> None:
    assert go_on(pool(waiting=(job(1, eligible_at=NOW + 40.0),)))[1].started_s == 40.0


@pytest.mark.parametrize("over", Over)
def test_an_elastic_job_keeps_its_range_and_what_that_counts(over: Over) -> None:
    world = pool(waiting=(job(1, gpus=2, min_gpus=2, max_gpus=4, over=over, speeds=(0.6, 1.0, 1.3, 1.5)),))
    (traced,) = start_of(world, FIFO, "a cycle").trace.jobs
    assert (traced.gpus, traced.min_gpus, traced.max_gpus, traced.over) == (2, 2, 4, over)


def test_what_stops_for_another_job_is_queued_again_and_what_just_stops_has_ended() -> None:
    world = pool(job(1, gpus=2, grace_s=10.0), job(2, gpus=2, grace_s=10.0), waiting=(job(3, gpus=2),))
    stopping = tuple(replace(run, state=AttemptState.STOPPING) for run in world.running)
    kept = Reservation(3, world.running_by_job[1].allocations, until=NOW + 600.0)
    found = go_on(replace(world, running=stopping, reservations=(kept,)))
    assert (found[2].ended_s, found[3].started_s, found[1].ended_s) == (10.0, 10.0, 110.0)


class TestTheCommandLine:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "pool.json"
        path.write_text(start_to_json(pool(job(1, gpus=4), waiting=(job(2, gpus=2), job(3, runs=None))), FIFO))
        return path

    def test_the_pools_own_policy_plays_unless_others_are_named(
        self, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["--from", str(file), "--json", "--unknown", "50"]) == 0
        told = capsys.readouterr()
        (run,) = json.loads(told.out)["runs"]
        assert (run["run"], run["jobs"], run["makespan_s"]) == ("fifo", 3, 170.0)
        assert "jobs without a predicted run time: 1 of 3; 50 s are assumed of each" in told.err
        assert main(["--from", str(file), "--json", "--policy", "sjf", "--policy", "las"]) == 0
        assert [run["run"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["sjf", "las"]

    @pytest.mark.parametrize("option", [("--cluster", "V100:1x4"), ("--generate", "gavel"), ("--start", "5")])
    def test_what_the_snapshot_has_told_is_refused(
        self, file: Path, option: tuple[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["--from", str(file), *option]) == 2
        assert f"{option[0]}: not with --from" in capsys.readouterr().err

    @pytest.mark.parametrize("content", ["[", "{}", '{"snapshot": {}, "config": {}}', '{"snapshot": 1, "config": 2}'])
    def test_another_content_is_refused_with_its_name(
        self, tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "other.json"
        path.write_text(content)
        assert main(["--from", str(path)]) == 2
        assert capsys.readouterr().err.startswith("error: --from: other.json: ")
