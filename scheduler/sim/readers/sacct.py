"""The accounting of a Slurm cluster, as `sacct --allusers --parsable2 --format=…` prints it, with its header.

Required are JobID, State, Submit, Start, and AllocTRES or ReqTRES; the run time is ElapsedRaw (s), Elapsed, or End
minus Start. Timelimit or TimelimitRaw (minutes), Account (the virtual cluster), User, JobName, NNodes and Priority are
optional. Job steps, jobs without GPUs, and jobs that never started or had not ended are left out. Source: Slurm's
manual page sacct(1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from sys import intern

from scheduler.sim.readers import Format
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import (
    Excluded,
    Source,
    Unusable,
    amount,
    gpu_count,
    has_columns,
    is_nothing,
    moment,
    per_gpu,
    whole,
)
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork

_COLUMNS = ("JobID", "State", "Submit", "Start")
_OPTIONAL = (
    "End", "ElapsedRaw", "Elapsed", "AllocTRES", "ReqTRES", "Timelimit", "TimelimitRaw", "Account", "User", "JobName",
    "NNodes", "Priority",
)  # fmt: skip
_STATUS = {
    "COMPLETED": "succeeded",
    "CANCELLED": "cancelled",
    "PREEMPTED": "cancelled",
    "REVOKED": "cancelled",
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "DEADLINE": "failed",
    "NODE_FAIL": "failed",
    "BOOT_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
}
_NOT_ENDED = frozenset({"PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "COMPLETING", "CONFIGURING"})
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.\d+)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}

FORMAT = Format(
    name="sacct",
    sentence="Slurm's accounting as sacct prints it with --parsable2 or --parsable, one line a job.",
    files=("sacct*.txt", "sacct*.csv", "*.sacct"),
    sniff=has_columns(*_COLUMNS, delimiter="|"),
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The GPU jobs of such a file that ran and ended."""
    source = Source(path, options, dated=True)
    names = (*_COLUMNS, *_OPTIONAL)

    def draft(row: Sequence[str]) -> TraceJob:
        return _draft(dict(zip(names, row, strict=True)))

    source.add_each(source.table(_COLUMNS, optional=_OPTIONAL, delimiter="|"), draft)
    return source.trace()


def _draft(row: Mapping[str, str]) -> TraceJob:
    if "." in row["JobID"]:
        raise Excluded("is a step of a job")
    state = row["State"].split(" ")[0].rstrip("+").upper()
    if state in _NOT_ENDED:
        raise Excluded("had not ended")
    if state not in _STATUS:
        raise Unusable(f"unknown State {row['State']!r}")
    resources = _resources(row["AllocTRES"] or row["ReqTRES"])
    gpus, gpu_type = _gpus(resources)
    if is_nothing(row["Start"]):
        raise Excluded("never started")
    submitted_s, started_s = moment(row["Submit"], "Submit"), moment(row["Start"], "Start")
    if started_s < submitted_s:
        raise Unusable(f"started {submitted_s - started_s:g} s before its submission")
    nodes = gpu_count(row["NNodes"], "NNodes") if row["NNodes"] else 1
    gang = nodes > 1 and gpus % nodes == 0
    return TraceJob(
        id=0,
        name=row["JobName"] or row["JobID"],
        submitted_s=submitted_s,
        gpus=gpus,
        work=FixedWork(_run_s(row, started_s)),
        gpu_type=gpu_type,
        vc=intern(row["Account"] or "default"),
        owner=intern(row["User"] or "owner"),
        nodes=nodes if gang else 1,
        split=not gang,
        cpus=per_gpu(amount(resources.get("cpu", "0"), "the number of CPUs"), nodes if gang else gpus),
        memory_mib=per_gpu(_mib(resources.get("mem", "0")), nodes if gang else gpus),
        time_limit_s=_limit_s(row),
        priority=whole(row["Priority"], "Priority") if row["Priority"] else 0,
        status=_STATUS[state],
        waited_s=started_s - submitted_s,
    )


def _resources(text: str) -> Mapping[str, str]:
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name: value for name, _, value in pairs}


def _gpus(resources: Mapping[str, str]) -> tuple[int, str | None]:
    typed = {
        name.removeprefix("gres/gpu:"): gpu_count(count, name)
        for name, count in resources.items()
        if name.startswith("gres/gpu:")
    }
    gpus = gpu_count(resources["gres/gpu"], "gres/gpu") if "gres/gpu" in resources else sum(typed.values())
    if not gpus:
        raise Excluded("asks for no GPU")
    return gpus, intern(next(iter(typed)).upper()) if len(typed) == 1 else None


def _run_s(row: Mapping[str, str], started_s: float) -> float:
    if row["ElapsedRaw"]:
        return amount(row["ElapsedRaw"], "ElapsedRaw")
    if row["Elapsed"]:
        return _time_s(row["Elapsed"], "Elapsed")
    if is_nothing(row["End"]):
        raise Excluded("had not ended")
    run_s = moment(row["End"], "End") - started_s
    if run_s < 0:
        raise Unusable(f"ended {-run_s:g} s before its start")
    return run_s


def _limit_s(row: Mapping[str, str]) -> float | None:
    for name in ("TimelimitRaw", "Timelimit"):
        text = row[name]
        if text.lower() in {"unlimited", "partition_limit"}:
            return None
        if text:
            return amount(text, name) * 60 if name == "TimelimitRaw" else _time_s(text, name)
    return None


def _time_s(text: str, what: str) -> float:
    """Seconds of Slurm's [days-]hours:minutes:seconds, minutes:seconds, minutes, or days-hours[:minutes]."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Unusable(f"{what} is not a duration: {text!r}")
    days, *parts = match.groups()
    values = [int(part) for part in parts if part is not None]
    if days is not None or len(values) == 3:
        hours, minutes, seconds = (*values, 0, 0)[:3]
        return int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds
    minutes, seconds = (*values, 0)[:2]
    return minutes * 60 + seconds


def _mib(text: str) -> float:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise Unusable(f"mem is not a size: {text!r}")
    return float(match[1]) * _MIB[match[2]]
