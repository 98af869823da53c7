"""Jobs on the running platform, submitted and followed through the REST API with its own client."""

from __future__ import annotations

import time
import uuid
from datetime import datetime

import httpx
from django.db.models import Max

from bench.figures import FIRST_LINE, LOG_LINE, SUBMIT, THROUGHPUT, Series
from bench.live.stack import NAME, Stack, StackError
from bench.plan import LINE_COMMAND, Plan, read_line_time
from bench.processor import read_processor
from muster.jobs.models import Job
from muster_client.client import Client
from muster_client.logs import LogEnd, LogText
from muster_client.shapes import JobSpec
from scheduler.model.lifecycle import JOB_TERMINAL, JobState

_TIMEOUT_S = 300.0
_BATCH_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.1


def measure(stack: Stack, plan: Plan) -> Series:
    """Every series that needs jobs to run."""
    series: Series = {}
    with Client(stack.url, stack.token) as client:
        for _ in range(plan.warm_ups):
            first_line(client, spec_of("echo hello"))
        if FIRST_LINE in plan.items:
            series["first_line_ms"] = [
                first_line(client, spec_of("echo hello")) * 1000 for _ in range(plan.first_lines)
            ]
        if SUBMIT in plan.items:
            series["submit_ms"] = [_paced_submit(client, plan) * 1000 for _ in range(plan.submits)]
            _await_all_ended()
        if THROUGHPUT in plan.items:
            series |= {"throughput_single": [], "throughput_submit_ms": [], "throughput_cpu_ms": []}
            for _ in range(plan.bursts):
                before = read_processor()
                rate, calls = _burst(client, plan.jobs)
                spent = read_processor().since(before)
                series["throughput_single"].append(rate)
                series["throughput_submit_ms"] += [call * 1000 for call in calls]
                series["throughput_cpu_ms"].append(spent.ours_s * 1000 / plan.jobs)
            series["throughput_batch"] = [_batch(stack, plan.jobs) for _ in range(plan.bursts)]
        if LOG_LINE in plan.items:
            series["log_line_ms"] = [
                delay * 1000 for _ in range(plan.talks) for delay in talk(client, lines=plan.lines)
            ]
    return series


def first_line(client: Client, spec: JobSpec) -> float:
    """Seconds from the call that submits to the first line at the client; the job has ended when this returns."""
    start = time.perf_counter()
    job = client.submit(spec)
    took = None
    for event in client.follow_logs(job["id"]):
        if took is None and isinstance(event, LogText) and "\n" in event.text:
            took = time.perf_counter() - start
    if took is None:
        raise StackError(f"job {job['id']} ended without a line")
    return took


def _paced_submit(client: Client, plan: Plan) -> float:
    start = time.perf_counter()
    client.submit(spec_of("true"))
    took = time.perf_counter() - start
    time.sleep(plan.submit_pause_s)
    return took


def _burst(client: Client, jobs: int) -> tuple[float, list[float]]:
    """Jobs a second of a burst of single submissions, and how long each call took."""
    last_before, start = _newest_job(), time.time()
    calls = []
    for _ in range(jobs):
        before = time.perf_counter()
        client.submit(spec_of("true"))
        calls.append(time.perf_counter() - before)
    return _rate(last_before, start, jobs), calls


def _batch(stack: Stack, jobs: int) -> float:
    headers = {"Authorization": f"Bearer {stack.token}", "Idempotency-Key": str(uuid.uuid4())}
    last_before, start = _newest_job(), time.time()
    answer = httpx.post(
        f"{stack.url}/api/v1/jobs:batch",
        json={"jobs": [spec_of("true")] * jobs},
        headers=headers,
        timeout=_BATCH_TIMEOUT_S,
        trust_env=False,
    )
    answer.raise_for_status()
    return _rate(last_before, start, jobs)


def _rate(last_before: int, start: float, jobs: int) -> float:
    """Jobs a second up to the end of the last one, which is when the last of its GPUs was free again."""
    _await_all_ended()
    ours = Job.objects.filter(pk__gt=last_before)
    succeeded = ours.filter(state=JobState.SUCCEEDED).count()
    if succeeded != jobs:
        raise StackError(f"only {succeeded} of {jobs} jobs succeeded")
    last_end: datetime = ours.aggregate(at=Max("ended_at"))["at"]
    return jobs / (last_end.timestamp() - start)


def talk(client: Client, *, lines: int) -> list[float]:
    """Seconds from each line's print to its arrival at a client that follows the job."""
    job = client.submit(spec_of(f"set -- {lines}; {LINE_COMMAND}"))
    delays: list[float] = []
    rest = ""
    for event in client.follow_logs(job["id"]):
        now = time.time()
        if isinstance(event, LogText):
            *whole, rest = (rest + event.text).split("\n")
            delays += [now - read_line_time(line) for line in whole]
        elif isinstance(event, LogEnd) and event.state != JobState.SUCCEEDED:
            raise StackError(f"job {job['id']} is {event.state}")
    if len(delays) != lines:
        raise StackError(f"{len(delays)} of {lines} lines of job {job['id']} came")
    return delays


def spec_of(command: str, *, vc: str = NAME, image: str | None = None) -> JobSpec:
    """A job of one GPU."""
    spec: JobSpec = {"name": NAME, "vc": vc, "command": command, "gpus": 1, "cpus": 1, "memory": "64MiB"}
    return spec if image is None else {**spec, "image": image}


def _newest_job() -> int:
    return Job.objects.aggregate(newest=Max("pk"))["newest"] or 0


def _await_all_ended() -> None:
    end = time.monotonic() + _TIMEOUT_S
    while left := Job.objects.exclude(state__in=JOB_TERMINAL).count():
        if time.monotonic() >= end:
            raise StackError(f"{left} jobs have not ended after {_TIMEOUT_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)
