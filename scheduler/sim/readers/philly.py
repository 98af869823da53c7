"""Microsoft's Philly trace as published: a JSON array of jobs with their attempts, `cluster_job_log`.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019,
and philly-traces. A job's GPUs are the maximum over its attempts, its run time is the sum over them. A job without any
attempt that started and ended is left out. Times are the cluster's local ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from sys import intern
from typing import IO, Any

from scheduler.sim.readers import Format
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Excluded, Source, Unusable, is_nothing, moment, opened
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork

_STATUS = {"Pass": "succeeded", "Killed": "cancelled", "Failed": "failed"}
_CHUNK = 256 * 1024
_MAX_JOB_CHARS = 8 * 1024 * 1024  # characters; the longest job of the published trace has some ten thousand

FORMAT = Format(
    name="philly",
    sentence="Philly as published: a JSON array of jobs with user, virtual cluster, status and attempts.",
    files=("cluster_job_log", "cluster_job_log.json"),
    sniff=lambda lines: bool(lines) and _looks_like(lines),
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file that ran."""
    source = Source(path, options, dated=True)
    with opened(path) as file:
        for line, job in _jobs(file, source):
            source.add(line, job, _draft)
    return source.trace()


def _draft(job: dict[str, Any]) -> TraceJob:
    for name in ("jobid", "submitted_time", "user", "vc", "status"):
        if not isinstance(job.get(name), str):
            raise Unusable(f"no {name!r}, or it is not a string")
    status = _STATUS.get(job["status"])
    if status is None:
        raise Unusable(f"unknown status {job['status']!r}")
    submitted_s = moment(job["submitted_time"], "submitted_time")
    attempts = job.get("attempts")
    if not isinstance(attempts, list):
        raise Unusable("no list of 'attempts'")
    runs = [run for attempt in attempts if (run := _run(attempt)) is not None]
    if not runs:
        raise Excluded("never started")
    gpus = max(count for _, _, count in runs)
    if gpus == 0:
        raise Excluded("held no GPU")
    waited_s = min(started_s for started_s, _, _ in runs) - submitted_s
    if waited_s < 0:
        raise Unusable(f"started {-waited_s:g} s before its submission")
    return TraceJob(
        id=0,
        name=job["jobid"],
        submitted_s=submitted_s,
        gpus=gpus,
        work=FixedWork(sum(ended_s - started_s for started_s, ended_s, _ in runs)),
        vc=intern(job["vc"]),
        owner=intern(job["user"]),
        status=status,
        attempts=len(runs),
        waited_s=waited_s,
    )


def _run(attempt: object) -> tuple[float, float, int] | None:
    """Start and end in seconds and GPUs of an attempt; None if it did not start, or its end is unknown."""
    if not isinstance(attempt, dict):
        raise Unusable("an attempt is not an object")
    started, ended = attempt.get("start_time"), attempt.get("end_time")
    if is_nothing(str(started)) or is_nothing(str(ended)):
        return None
    started_s, ended_s = moment(str(started), "start_time"), moment(str(ended), "end_time")
    if ended_s < started_s:
        raise Unusable(f"an attempt ended {started_s - ended_s:g} s before its start")
    servers = attempt.get("detail")
    if not isinstance(servers, list) or not all(
        isinstance(server, dict) and isinstance(server.get("gpus"), list) for server in servers
    ):
        raise Unusable("an attempt has no list of servers with their GPUs in 'detail'")
    return started_s, ended_s, sum(len(server["gpus"]) for server in servers)


def _jobs(file: IO[str], source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each job with its first line, without the whole file in memory."""
    decoder = json.JSONDecoder()
    text, line, more = "", 1, True
    broken = False  # searching for the next job after a malformed one
    while True:
        start = text.find("{")
        if start < 0 or (more and len(text) - start < _CHUNK // 2):
            chunk = file.read(_CHUNK)
            more = bool(chunk)
            text += chunk
            start = text.find("{")
        if start < 0:
            rest = text.strip()
            if not more:
                if rest.strip("[], \n") or not rest.endswith("]"):
                    source.bad(line + text.rstrip().count("\n"), "the file does not end with a whole job and `]`")
                return
            continue
        between = text[:start]
        if not broken and between.strip().strip("[,").strip():
            source.bad(line + between.count("\n"), "not a job of a JSON array")
        line += between.count("\n")
        text = text[start:]
        try:
            job, length = decoder.raw_decode(text)
        except json.JSONDecodeError as error:
            if more and len(text) < _MAX_JOB_CHARS and _may_go_on(error, text):
                chunk = file.read(_CHUNK)
                more = bool(chunk)
                text += chunk
                continue
            if not broken:
                source.bad(line, f"no job in JSON: {error.msg} on line {line + error.lineno - 1}")
            broken, text = True, text[1:]
            continue
        if not (broken and "jobid" not in job):  # else it is a part of the malformed job
            broken = False
            yield line, job
        line += text.count("\n", 0, length)
        text = text[length:]


def _may_go_on(error: json.JSONDecodeError, text: str) -> bool:
    """True if the object may only be cut off by the end of the text read so far."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - 16


def _looks_like(lines: Sequence[str]) -> bool:
    text = " ".join(lines).lstrip()
    return text.startswith("[") and any(f'"{name}"' in text for name in ("status", "vc", "jobid", "attempts"))
