"""Jobs on the running platform, submitted and followed through the REST API with its own client."""

from __future__ import annotations

import time
import uuid
from datetime import datetime

import httpx
from django.db import connection
from django.db.models import Max

from bench.figures import CLIENT, FIRST_LINE, LOG_LINE, SUBMIT, THROUGHPUT, Series
from bench.live import usage
from bench.live.stack import NAME, Stack, StackError, processor_of_groups
from bench.plan import LINE_COMMAND, Plan, read_line_time
from bench.samples import median
from muster.jobs.models import Job
from muster.usage.totals import BATCH, count_ended
from muster_client.answers.terms import JobSpec
from muster_client.calls.logs import LogEnd, LogText
from muster_client.client import Client
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
            await_all_ended()
        if THROUGHPUT in plan.items:
            for _ in range(plan.bursts):
                before, commits = processor_of_groups(), _commits()
                rate, calls = _burst(client, plan.jobs)
                spent = {name: seconds - before[name] for name, seconds in processor_of_groups().items()}
                _add(series, "throughput_single", rate)
                _add(series, "throughput_submit_ms", *(call * 1000 for call in calls))
                _add(series, "throughput_cpu_ms", sum(spent.values()) * 1000 / plan.jobs)
                for name, seconds in spent.items():
                    _add(series, f"throughput_{name}_ms", seconds * 1000 / plan.jobs)
                _add(series, "throughput_commits", (_commits() - commits) / plan.jobs)
            series["throughput_batch"] = [batch(stack, plan.jobs) for _ in range(plan.bursts)]
        if LOG_LINE in plan.items:
            series["log_line_ms"] = [
                delay * 1000 for _ in range(plan.talks) for delay in talk(client, lines=plan.lines)
            ]
    return series


def measure_rest(plan: Plan) -> Series:
    """The share of a core, in percent, that each group of processes takes while nothing runs or waits."""
    before, start = processor_of_groups(), time.monotonic()
    time.sleep(plan.rest_s)
    took = time.monotonic() - start
    percent = {
        name: 100 * (seconds - before[name]) / took for name, seconds in processor_of_groups().items() if name != CLIENT
    }
    return {"rest_percent": [sum(percent.values())]} | {f"rest_{name}_percent": [one] for name, one in percent.items()}


def measure_growth(stack: Stack, plan: Plan) -> Series:
    """Jobs a second of jobs submitted at once, before and after the database has jobs that ended long ago."""
    empty = [batch(stack, plan.jobs) for _ in range(plan.bursts)]
    usage.fill(plan.listed_jobs, name="ended", running=0, queued=0)
    while count_ended(most=BATCH):  # what the platform has done by the end of each day
        pass
    with connection.cursor() as cursor:  # what autovacuum does within a minute
        cursor.execute("VACUUM ANALYZE")
    full = [batch(stack, plan.jobs) for _ in range(plan.bursts)]
    return {"growth_empty": empty, "growth_full": full, "growth_ratio": [median(full) / median(empty)]}


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
    last_before, start = newest_job(), time.time()
    calls = []
    for _ in range(jobs):
        before = time.perf_counter()
        client.submit(spec_of("true"))
        calls.append(time.perf_counter() - before)
    return rate(last_before, start, jobs), calls


def batch(stack: Stack, jobs: int) -> float:
    """Jobs a second of jobs that are submitted by one call."""
    headers = {"Authorization": f"Bearer {stack.token}", "Idempotency-Key": str(uuid.uuid4())}
    last_before, start = newest_job(), time.time()
    answer = httpx.post(
        f"{stack.url}/api/v1/jobs:batch",
        json={"jobs": [spec_of("true")] * jobs},
        headers=headers,
        timeout=_BATCH_TIMEOUT_S,
        trust_env=False,
    )
    answer.raise_for_status()
    return rate(last_before, start, jobs)


def rate(last_before: int, start: float, jobs: int) -> float:
    """Jobs a second up to the end of the last one, which is when the last of its GPUs was free again."""
    await_all_ended()
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


def _add(series: Series, name: str, *values: float) -> None:
    series.setdefault(name, []).extend(values)


def _commits() -> int:
    """The transactions that Postgres has committed; its processes report theirs within a second of the end of each."""
    time.sleep(1.0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        count: int = cursor.fetchone()[0]
    return count


def newest_job() -> int:
    """The highest id of a job; 0 if there is none."""
    return Job.objects.aggregate(newest=Max("pk"))["newest"] or 0


def await_all_ended() -> None:
    """Wait until no job waits or runs."""
    end = time.monotonic() + _TIMEOUT_S
    while left := Job.objects.exclude(state__in=JOB_TERMINAL).count():
        if time.monotonic() >= end:
            raise StackError(f"{left} jobs have not ended after {_TIMEOUT_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)
