"""Traces from a seed: the same again, and with the statistics that they are named for."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.registry import ConfigError, check_params
from scheduler.sim.generators import generate, generators
from scheduler.sim.generators.draws import lognormal, powers_of_two
from scheduler.sim.generators.philly import MEAN_RUN_S, MEDIAN_RUN_S, WINDOWS, _run_times
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork, StepsWork
from tests.profiles import examples


def run_s(trace: Trace) -> list[float]:
    return [job.work.alone_s() for job in trace.jobs]


def test_there_are_these_generators() -> None:
    assert generators.names == ("gavel", "philly", "poisson", "sweeps")


@pytest.mark.parametrize("name", generators.names)
def test_the_defaults_in_the_schema_are_those_of_the_generator(name: str) -> None:
    schema = generators.schema(name)
    defaults = {key: rules["default"] for key, rules in schema["properties"].items()}
    check_params(schema, defaults)
    assert generate(name, defaults, 4) == generate(name, {}, 4)


@settings(max_examples=examples(25))
@given(st.sampled_from(generators.names), st.integers(0, 2**32), st.floats(0, 1), st.floats(0, 600))
def test_a_seed_gives_one_trace(name: str, seed: int, swing: float, gap_s: float) -> None:
    params = {"applications" if name == "sweeps" else "jobs": 60, "daily_swing": swing, "gap_s": gap_s}
    trace = generate(name, params, seed)
    assert trace == generate(name, params, seed)
    assert trace.jobs[0].submitted_s == 0
    assert [job.id for job in trace.jobs] == list(range(1, len(trace.jobs) + 1))
    assert len(trace.jobs) >= 60
    assert all(first.submitted_s <= second.submitted_s for first, second in pairwise(trace.jobs))
    assert all(job.gpus >= 1 and 0 < job.work.alone_s() < math.inf for job in trace.jobs)


def test_another_seed_gives_another_trace() -> None:
    assert generate("philly", {}, 1) != generate("philly", {}, 2)


@pytest.mark.parametrize(
    ("name", "params", "reason"),
    [
        ("lublin", {}, "there is no generator 'lublin'; there is gavel, philly, poisson, sweeps"),
        ("gavel", {"lambda": 3}, "generator gavel: unknown parameter 'lambda'"),
        ("philly", {"window": "mine"}, "window must be one of"),
        ("poisson", {"jobs": 0}, "jobs must be at least 1"),
        ("poisson", {"max_gpus": 6}, "max_gpus must be a power of two"),
        ("poisson", {"mean_gpus": 5.0}, "mean_gpus must be at most 3.75"),
        ("poisson", {"mean_run_s": 1.0, "median_run_s": 2.0}, "0 < median <= mean"),
        ("gavel", {"throughputs": "/nowhere.json"}, "throughputs: /nowhere.json"),
        ("sweeps", {"throughputs": "/nowhere.json"}, "throughputs: /nowhere.json"),
        ("sweeps", {"contention": 2.0, "gap_s": 0}, "contention needs a gap_s above 0"),
    ],
)
def test_it_refuses_what_it_cannot_draw(name: str, params: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        generate(name, params, 0)


def test_submissions_come_at_the_mean_gap_and_irregularly() -> None:
    times = [job.submitted_s for job in generate("poisson", {"jobs": 20_000, "gap_s": 30.0}, 1).jobs]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert mean(gaps) == pytest.approx(30, rel=0.03)
    assert median(gaps) == pytest.approx(30 * math.log(2), rel=0.05)


def test_with_a_swing_most_submissions_come_about_the_peak_hour() -> None:
    params = {"jobs": 40_000, "gap_s": 60.0, "daily_swing": 0.8, "peak_hour": 15.0}
    jobs = generate("poisson", params, 1).jobs
    by_hour = Counter(int(job.submitted_s % 86_400 // 3600) for job in jobs)
    assert jobs[-1].submitted_s / len(jobs) == pytest.approx(60, rel=0.05)
    assert (by_hour[14] + by_hour[15]) / (by_hour[2] + by_hour[3]) == pytest.approx(1.8 / 0.2, rel=0.25)


def test_gavels_jobs_have_its_run_times_and_sizes() -> None:
    trace = generate("gavel", {"jobs": 40_000}, 1)
    times = run_s(trace)
    assert min(times) >= 60 * 10**1.5
    assert max(times) <= 60 * 10**4
    assert mean(time > 60_000 for time in times) == pytest.approx(0.2, abs=0.01)
    sizes = Counter(job.gpus for job in trace.jobs)
    for size, share in {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}.items():
        assert sizes[size] / 40_000 == pytest.approx(share, abs=0.01)
    assert {job.gpus for job in generate("gavel", {"multi_gpu": False}, 1).jobs} == {1}


def test_gavels_jobs_get_a_model_that_was_measured_at_their_size(tmp_path: Path) -> None:
    alone = {f"('LM', {gpus})": {"null": 2.0 * gpus} for gpus in (1, 2, 4, 8)}
    path = tmp_path / "simulation_throughputs.json"
    path.write_text(json.dumps({"v100": {**alone, "('A3C', 1)": {"null": 1.0}}, "k80": alone}))
    trace = generate("gavel", {"jobs": 300, "throughputs": str(path)}, 1)
    assert {job.model for job in trace.jobs if job.gpus == 1} == {"LM", "A3C"}
    assert {job.model for job in trace.jobs if job.gpus > 1} == {"LM"}
    assert run_s(trace) == pytest.approx(run_s(generate("gavel", {"jobs": 300}, 1)), rel=1e-3)


def test_gavels_scattered_gangs_are_slower_where_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "simulation_throughputs.json"
    models = {f"('LM', {gpus})": {"null": 2.0} for gpus in (1, 2, 4, 8)}
    path.write_text(json.dumps({"v100": models, "v100_unconsolidated": {"('LM', 8)": {"null": 0.5}}}))
    params = {"jobs": 100, "throughputs": str(path), "consolidation": True}
    large = next(job.work for job in generate("gavel", params, 1).jobs if job.gpus == 8)
    assert large.seconds_left(0.0, "V100", (4, 2, 2), 1.0) == 4 * large.seconds_left(0.0, "V100", (4, 4), 1.0)


def sweeps(trace: Trace) -> dict[str, list[TraceJob]]:
    found: dict[str, list[TraceJob]] = {}
    for job in trace.jobs:
        found.setdefault(job.group, []).append(job)
    return found


@pytest.mark.parametrize("source", ["gavel", "philly"])
def test_sweeps_have_the_sizes_of_themis_and_jobs_of_one_kind(source: str) -> None:
    found = sweeps(generate("sweeps", {"applications": 2000, "source": source}, 1))
    sizes = [len(members) for members in found.values()]
    assert median(sizes) == pytest.approx(23, abs=1)
    assert min(sizes) >= 1
    assert max(sizes) <= 98
    for members in found.values():
        assert len({(job.submitted_s, job.gpus, job.owner, job.vc) for job in members}) == 1
        assert members[0].gpus <= 8
    submitted = [members[0].submitted_s for members in found.values()]
    assert submitted[-1] / 1999 == pytest.approx(1200, rel=0.1)


def test_jobs_of_a_sweep_stop_after_a_ninth_and_a_third_of_a_whole_run() -> None:
    for members in sweeps(generate("sweeps", {"applications": 200}, 1)).values():
        times = sorted(job.work.alone_s() / max(job.work.alone_s() for job in members) for job in members)
        whole = max(1, max(1, len(members) // 3) // 3)
        assert [time > 0.99 for time in times].count(True) == whole
        assert [time > 0.3 for time in times].count(True) == max(1, len(members) // 3)
        assert min(times) == pytest.approx(1 / 9) or len(members) < 2
    for members in sweeps(generate("sweeps", {"applications": 20, "keep": 1}, 1)).values():
        assert len({job.work.alone_s() for job in members}) == 1


def test_sweeps_bring_the_work_that_is_asked_for() -> None:
    trace = generate("sweeps", {"applications": 50, "contention": 3.0, "gpus": 16}, 1)
    assert sum(job.gpus * job.work.alone_s() for job in trace.jobs) == pytest.approx(3 * 16 * 50 * 1200)


def test_scattered_jobs_of_a_sweep_are_slower_but_never_faster(tmp_path: Path) -> None:
    path = tmp_path / "simulation_throughputs.json"
    models = {f"('{model}', {gpus})": {"null": 2.0} for model in ("LM", "A3C") for gpus in (1, 2, 4, 8)}
    scattered = {"('LM', 4)": {"null": 0.5}, "('A3C', 4)": {"null": 3.0}}
    path.write_text(json.dumps({"v100": models, "v100_unconsolidated": scattered}))
    params = {"applications": 60, "throughputs": str(path)}
    found = {job.model: job.work for job in generate("sweeps", params, 1).jobs if job.gpus == 4}
    ratios = {
        model: work.seconds_left(0.0, "V100", (2, 2), 1.0) / work.seconds_left(0.0, "V100", (4,), 1.0)
        for model, work in found.items()
    }
    assert ratios == {"LM": 4.0, "A3C": 1.0}
    plain = generate("sweeps", params | {"consolidation": False}, 1).jobs
    assert {job.work.scattered for job in plain if isinstance(job.work, StepsWork)} == {None}


@pytest.mark.parametrize("window", sorted(WINDOWS))
def test_phillys_run_times_have_the_published_mean_and_median(window: str) -> None:
    endings = WINDOWS[window]
    mus, sigma = _run_times(endings)
    jobs = sum(each.jobs for each in endings)
    means = [math.exp(mu + sigma**2 / 2) for mu in mus]
    overall = sum(each.jobs / jobs * each_mean for each, each_mean in zip(endings, means, strict=True))
    assert overall == pytest.approx(MEAN_RUN_S)
    for ending, each_mean in zip(endings, means, strict=True):
        assert ending.jobs * each_mean / (jobs * overall) == pytest.approx(ending.gpu_time, abs=0.001)
    trace = generate("philly", {"jobs": 40_000, "window": window}, 1)
    assert median(run_s(trace)) == pytest.approx(MEDIAN_RUN_S, rel=0.05)
    assert mean(job.gpus for job in trace.jobs) == pytest.approx(1.93, rel=0.05)
    statuses = Counter(job.status for job in trace.jobs)
    for ending in endings:
        assert statuses[ending.status] / 40_000 == pytest.approx(ending.jobs, abs=0.01)


@given(st.floats(1, 30))
def test_sizes_have_the_mean_that_is_asked_for(wanted: float) -> None:
    shares = powers_of_two(min(wanted, 31.875), 128)
    total = sum(shares.values())
    assert sum(size * share for size, share in shares.items()) / total == pytest.approx(wanted, rel=1e-6)


def test_a_lognormal_distribution_of_one_value_has_no_spread() -> None:
    assert lognormal(5.0, 5.0) == (math.log(5.0), 0.0)
    works = {job.work for job in generate("poisson", {"jobs": 5, "mean_run_s": 60.0, "median_run_s": 60.0}, 1).jobs}
    assert all(isinstance(work, FixedWork) and work.duration_s == pytest.approx(60) for work in works)
