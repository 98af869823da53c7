"""The published traces themselves, read in full."""

from __future__ import annotations

import pytest

from scheduler.sim.readers import ReadOptions, detect, read_trace
from scheduler.sim.trace import Trace, TraceError
from tests.sim.data import data


def gpus(trace: Trace) -> int:
    return sum(job.gpus for job in trace.jobs)


def test_it_reads_the_whole_philly_trace() -> None:
    trace = read_trace(data("philly_sia", "philly.csv.gz"))
    assert (len(trace.jobs), len({job.vc for job in trace.jobs}), trace.skipped) == (82_247, 15, ())
    assert sum(job.work.alone_s() for job in trace.jobs) / 82_247 == pytest.approx(13_135.93, abs=0.01)
    assert sum(job.gpus == 1 for job in trace.jobs) == 76_627


@pytest.mark.parametrize(
    ("path", "name", "jobs"),
    [
        (("acme_kalos_converted", "converted_kalos_trace.csv"), "acme", 319),
        (("mirage_tacc", "ls6-a100.log.gz"), "mirage", 18_582),
        (("tiresias", "60_job.csv"), "tiresias", 60),
        (("lublin_swf", "lublin_256.swf.gz"), "swf", 10_000),
        (("gavel", "traces", "minimize_makespan.trace"), "gavel", 100),
        (("gavel", "traces", "max_min_fairness.trace"), "gavel", 96),
        (("adaptdl_osdi21", "workloads", "workload-6.csv"), "pollux", 160),
    ],
)
def test_it_reads_each_published_trace_without_leaving_anything_out(
    path: tuple[str, ...], name: str, jobs: int
) -> None:
    file = data(*path)
    assert detect(file).name == name
    trace = read_trace(file)
    assert (len(trace.jobs), trace.skipped, trace.left_out) == (jobs, (), {})


def test_it_counts_the_pods_of_openb_that_cannot_be_simulated() -> None:
    trace = read_trace(data("alibaba_gpu2023", "openb_pod_list_default.csv"))
    assert (len(trace.jobs), trace.left_out) == (6203, {"asks for no GPU": 1088, "never started": 861})


def test_it_refuses_jobs_of_chronus_without_gpus_until_told_to_skip_them() -> None:
    path = data("philly_chronus", "trace_job_Philly_MIX1.csv.gz")
    with pytest.raises(TraceError, match="the number of GPUs is 0, not at least 1"):
        read_trace(path)
    trace = read_trace(path, skip_bad=True)
    assert (len(trace.jobs), len(trace.skipped)) == (30_756, 184)


def test_it_lists_the_jobs_of_philly_whose_drawn_model_was_never_measured_at_their_size() -> None:
    options = ReadOptions(throughputs=data("gavel"))
    trace = read_trace(data("philly_gavel", "philly_by_vc.csv.gz"), skip_bad=True, options=options)
    assert (len(trace.jobs), len(trace.skipped)) == (13_716, 1548)
    assert all(bad.reason.startswith("no throughput of ") for bad in trace.skipped)


@pytest.mark.parametrize(
    "name",
    [
        "helios_cluster_summary.csv",
        "Earth_gpu_number.csv",
        "Earth_vc6YE_sequence.csv.gz",
        "philly_node_sequence.csv.gz",
        "philly_vc_nodes.csv",
    ],
)
def test_it_takes_no_sums_over_helios_for_jobs(name: str) -> None:
    # Helios's artifact has sums by minute, day or cluster, and no line a job.
    path = data("helios", name)
    with pytest.raises(TraceError, match="no known format begins like this"):
        detect(path)
    with pytest.raises(TraceError, match="line 1"):
        read_trace(path, "helios")


def test_the_planned_run_time_of_shockwave_is_its_steps_by_throughput() -> None:
    # That of the other traces was computed from another table.
    (path,) = data("shockwave", "traces").glob("120_*.trace")
    trace = read_trace(path)
    planned = [float(line.split("\t")[10]) for line in path.read_text().splitlines()]
    assert [job.work.remaining_s(0.0) for job in trace.jobs] == pytest.approx(planned, rel=1e-3)


def test_a_workload_of_pollux_asks_for_what_its_jobs_were_tuned_to() -> None:
    trace = read_trace(data("adaptdl_osdi21", "workloads", "workload-6.csv"))
    first = trace.jobs[0]
    assert (first.name, first.model, first.gpus, first.submitted_s) == ("cifar10-0", "cifar10", 6, 53)
    assert all(job.max_gpus == 1 for job in trace.jobs if job.model == "ncf")
    assert gpus(trace) == 1134
