"""A run of a script on a system with Slurm's words, and all that was seen of it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.slurm.scripts import Place, Script, lay_out

# Reasons for which a job waits for ever; it is cancelled then.
STUCK = {"DependencyNeverSatisfied", "JobHeldUser"}
_OVER = {
    "COMPLETED",
    "FAILED",
    "TIMEOUT",
    "CANCELLED",
    "NODE_FAIL",
    "PREEMPTED",
    "OUT_OF_MEMORY",
    "DEADLINE",
    "BOOT_FAIL",
}
_FILE_BYTES = 20_000


class System(Protocol):
    """A system that runs scripts."""

    uid: int
    gid: int

    def submit(self, place: Place, script: Script) -> subprocess.CompletedProcess[str]:
        """Runs sbatch in the folder of the place."""

    def ask(self, *words: str) -> str:
        """The output of one of Slurm's commands, run as the user of the jobs."""


@dataclass(frozen=True, slots=True)
class Run:
    """The results of a script: its submission, jobs as scontrol shows them, notes of the tools, new files."""

    place: Place
    submitted: subprocess.CompletedProcess[str]
    jobs: Sequence[Mapping[str, str]]
    notes: Sequence[Mapping[str, Any]]
    files: Mapping[str, str]


def run(script: Script, system: System, base: Path, *, within_s: float) -> Run:
    """Submits the script and waits until all its jobs have ended, or cannot start."""
    place = lay_out(script, base, system.uid, system.gid)
    given = {path: path.read_bytes() for path in place.folder.rglob("*") if path.is_file()}
    submitted = system.submit(place, script)
    number = re.search(r"\d{5,}", submitted.stdout)
    jobs = _ended(system, place, number[0], within_s) if number is not None else []
    files = {
        path.relative_to(place.folder).as_posix(): path.read_bytes()[:_FILE_BYTES].decode(errors="replace")
        for path in sorted(place.folder.rglob("*"))
        if path.is_file() and given.get(path) != path.read_bytes()
    }
    notes = [json.loads(line) for line in place.record.read_text().splitlines()]
    return Run(place, submitted, jobs, notes, files)


def _ended(system: System, place: Place, first: str, within_s: float) -> list[dict[str, str]]:
    """The jobs of the folder, and the one with this number, once they have all ended or cannot start."""
    end = time.monotonic() + within_s
    pause = 0.15
    before: list[dict[str, str]] = []
    while True:
        jobs = [job for job in shown(system.ask("scontrol", "show", "job")) if _is_ours(job, place, first)]
        stuck = {job["JobId"]: job["Reason"] for job in jobs if job["JobState"] == "PENDING" and job["Reason"] in STUCK}
        if jobs and all(job["JobState"] in _OVER or job["JobId"] in stuck for job in jobs):
            if jobs == before:  # a job that has ended may be about to be requeued
                break
            before = jobs
        assert time.monotonic() < end, f"{place.folder}: after {within_s} s: {jobs}"
        time.sleep(pause)
        pause = min(pause * 1.2, 1.0)
    for number in stuck:
        system.ask("scancel", number)
    return [job | {"stuck": stuck[job["JobId"]]} if job["JobId"] in stuck else job for job in jobs]


def _is_ours(job: Mapping[str, str], place: Place, first: str) -> bool:
    if first in {job["JobId"], job.get("ArrayJobId")}:
        return True
    return Path(job["WorkDir"]).is_relative_to(place.folder)


def shown(text: str) -> list[dict[str, str]]:
    """The jobs that `scontrol show job` shows: the fields that are looked at here."""
    names = "JobId|ArrayJobId|ArrayTaskId|JobName|JobState|Reason|Restarts|ExitCode|WorkDir|SubmitTime|StartTime"
    found = []
    for part in text.split("\n\n"):
        pairs = re.findall(rf"(?:^|\s)({names})=(.*?)(?= [A-Z][A-Za-z:/]*=|\n|$)", part)
        job: dict[str, str] = {}
        for name, value in pairs:
            job.setdefault(name, value)
        if "JobId" in job and "-" not in job.get("ArrayTaskId", "") and "," not in job.get("ArrayTaskId", ""):
            found.append(job)
        elif "JobId" in job:  # tasks that have no row of their own yet
            found.append(job | {"JobState": "PENDING"})
    return found
