"""The same measurements on Slurm, with its own command line tools as the client."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from bench.figures import ARRAY, FIRST_LINE, LOG_LINE, SUBMIT, THROUGHPUT, Series
from bench.plan import LINE_COMMAND, Plan, read_line_time
from bench.processor import read_processor
from bench.slurm.cluster import Cluster, SlurmError

_LOOK_EVERY_S = 0.001
_TIMEOUT_S = 300.0
_ONE_GPU = ("--gres=gpu:1", "--cpus-per-task=1")


def measure(cluster: Cluster, plan: Plan) -> Series:
    """Every series that Slurm has an answer to."""
    series: Series = {}
    for _ in range(plan.warm_ups):
        _first_line(cluster)
    if FIRST_LINE in plan.items:
        series["first_line_ms"] = [_first_line(cluster) * 1000 for _ in range(plan.first_lines)]
    if SUBMIT in plan.items:
        series["submit_ms"] = [_paced_submit(cluster, plan) * 1000 for _ in range(plan.submits)]
        _await_empty(cluster)
    if THROUGHPUT in plan.items:
        series |= {"throughput_single": [], "throughput_submit_ms": [], "throughput_cpu_ms": []}
        for _ in range(plan.bursts):
            before = read_processor()
            rate, calls = _burst(cluster, plan.jobs)
            spent = read_processor().since(before)
            series["throughput_single"].append(rate)
            series["throughput_submit_ms"] += [call * 1000 for call in calls]
            series["throughput_cpu_ms"].append(spent.ours_s * 1000 / plan.jobs)
        series["throughput_batch"] = [_array(cluster, plan.jobs) for _ in range(plan.bursts)]
    if ARRAY in plan.items:
        series["array_members"] = [_array(cluster, plan.jobs) for _ in range(plan.bursts)]
    if LOG_LINE in plan.items:
        series["log_line_ms"] = [delay * 1000 for _ in range(plan.talks) for delay in _talk(cluster, plan)]
    return series


def _first_line(cluster: Cluster) -> float:
    """Seconds until the first line is in the job's output file, which is where Slurm's users see it."""
    output = cluster.layout.folder / "first-line"
    output.unlink(missing_ok=True)
    start = time.perf_counter()
    _sbatch(cluster, f"--output={output}", "--wrap=echo hello")
    while not (output.exists() and output.stat().st_size):
        if time.perf_counter() - start > _TIMEOUT_S:
            raise SlurmError("a job wrote nothing")
        time.sleep(_LOOK_EVERY_S)
    took = time.perf_counter() - start
    _await_empty(cluster)
    return took


def _paced_submit(cluster: Cluster, plan: Plan) -> float:
    start = time.perf_counter()
    _sbatch(cluster, "--output=/dev/null", "--wrap=true")
    took = time.perf_counter() - start
    time.sleep(plan.submit_pause_s)
    return took


def _burst(cluster: Cluster, jobs: int) -> tuple[float, list[float]]:
    """Jobs a second of a burst of single submissions, and how long each call took."""
    done, start = _completed(cluster.layout.completions), time.time()
    calls = []
    for _ in range(jobs):
        before = time.perf_counter()
        _sbatch(cluster, "--output=/dev/null", "--wrap=true")
        calls.append(time.perf_counter() - before)
    return _rate(cluster, done, start, jobs), calls


def _array(cluster: Cluster, jobs: int) -> float:
    done, start = _completed(cluster.layout.completions), time.time()
    _sbatch(cluster, "--output=/dev/null", f"--array=1-{jobs}", "--wrap=true")
    return _rate(cluster, done, start, jobs)


def _rate(cluster: Cluster, done: int, start: float, jobs: int) -> float:
    """Jobs a second up to the last line in the controller's record, which has one for each job that has ended."""
    record = cluster.layout.completions
    end = time.time() + _TIMEOUT_S
    while _completed(record) < done + jobs:
        if time.time() >= end:
            raise SlurmError(f"only {_completed(record) - done} of {jobs} jobs ended in {_TIMEOUT_S:.0f} s")
        time.sleep(0.05)
    rate = jobs / (record.stat().st_mtime - start)
    _await_empty(cluster)
    return rate


def _talk(cluster: Cluster, plan: Plan) -> list[float]:
    """Seconds from each line's print to its arrival through srun, the one way to follow a job over the network."""
    command = ["srun", *_ONE_GPU, "--unbuffered", "bash", "-c", LINE_COMMAND, "talk", str(plan.lines)]
    quiet = subprocess.DEVNULL  # srun tells there that it waits for resources
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, stderr=quiet, text=True) as talk:
        delays = [time.time() - read_line_time(line) for line in talk.stdout or ()]
    if talk.returncode != 0 or len(delays) != plan.lines:
        raise SlurmError(f"srun brought {len(delays)} of {plan.lines} lines and ended with {talk.returncode}")
    _await_empty(cluster)
    return delays


def _sbatch(cluster: Cluster, *words: str) -> None:
    subprocess.run(
        ["sbatch", *_ONE_GPU, *words],
        env=cluster.environment,
        cwd=cluster.layout.folder,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _await_empty(cluster: Cluster) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while subprocess.run(["squeue", "--noheader"], env=cluster.environment, stdout=subprocess.PIPE, check=True).stdout:
        if time.monotonic() >= end:
            raise SlurmError("the queue does not get empty")
        time.sleep(0.1)


def _completed(record: Path) -> int:
    try:
        return record.read_bytes().count(os.linesep.encode())
    except FileNotFoundError:
        return 0
