"""Records what a real Slurm does with each case: `make sbatch-reference`, as root, with slurm-wlm and munge installed.

Each script is submitted to an idle cluster, looked at once it runs (or waits, where it may not start), and cancelled.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.slurm.cluster import Cluster, running_slurm
from bench.slurm.config import Profile
from muster.sbatch.values import hosts
from tests.unit.sbatch.cases import FEATURES, GPUS, NAME, RECORD, Case, cases

FIELDS = [
    "JobName",
    "Partition",
    "NumNodes",
    "NumCPUs",
    "NumTasks",
    "TimeLimit",
    "TRES",
    "MinMemoryNode",
    "MinMemoryCPU",
    "Requeue",
    "ArrayTaskId",
    "ArrayTaskThrottle",
    "ReqNodeList",
    "ExcNodeList",
    "Features",
    "Dependency",
    "JobState",
    "Reason",
    "Comment",
]
PROFILE = Profile(
    "Slurm, as clusters with GPUs have it",
    "what the translation is compared with",
    {
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": "2048",
        "EnforcePartLimits": "ALL",
        "SchedulerParameters": "defer,batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1",
        "EpilogMsgTime": "0",
        "KillWait": "1",
    },
    features=FEATURES,
    partitions=(
        "PartitionName=gpu Default=YES MaxTime=3-00:00:00 DefaultTime=01:00:00",
        "PartitionName=debug MaxTime=00:30:00 DefaultTime=00:10:00 MaxNodes=2",
    ),
)
STARTS_WITHIN_S = 4.0
# A job that is cancelled while it is launched takes a minute to leave its nodes.
SETTLES_S = 0.4


def main() -> None:
    recorded = {}
    with (
        running_slurm(PROFILE, nodes=len(FEATURES), gpus_per_node=GPUS) as cluster,
        tempfile.TemporaryDirectory() as name,
    ):
        for case in cases():
            recorded[case.key] = ask(cluster, case, Path(name))
            sys.stderr.write(".")
            sys.stderr.flush()
    lines = [f"{json.dumps(key)}: {json.dumps(one, sort_keys=True)}" for key, one in sorted(recorded.items())]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    refused = sum("refused" in one for one in recorded.values())
    sys.stdout.write(f"\n{len(recorded)} cases, of which Slurm refused {refused}: {RECORD}\n")


def ask(cluster: Cluster, case: Case, folder: Path) -> dict[str, Any]:
    """The result of the case: the exit status of a refusal, or the job's fields."""
    (folder / NAME).write_bytes(case.script.encode())

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**cluster.environment, **case.environment}
        return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    told = run("sbatch", *case.options, NAME)
    number = re.search(r"Submitted batch job (\d+)", told.stdout)
    if number is None:
        return {"refused": told.returncode}
    end = time.monotonic() + STARTS_WITHIN_S
    while True:
        shown = run("scontrol", "--details", "show", "job", number[1]).stdout
        job = fields_of(shown)
        waits = job["JobState"] == "PENDING" and job["Reason"] in {"None", "Resources", "Priority"}
        if not waits or "ArrayTaskId" in job or time.monotonic() > end:
            break
        time.sleep(0.1)
    if job["JobState"] == "RUNNING":
        time.sleep(SETTLES_S)
    run("scancel", number[1])
    while run("squeue", "--noheader").stdout.strip():
        time.sleep(0.1)
    found: dict[str, Any] = {name: job[name] for name in FIELDS if job.get(name) not in {None, "(null)", "N/A"}}
    # Without a database for accounting the TRES have no GPUs; the nodes of a running job do.
    return found | {"gpus": sum(len(names) * number for names, number in _on_nodes(shown))}


def _on_nodes(shown: str) -> list[tuple[list[str], int]]:
    """The nodes of a job with the number of GPUs on each of them."""
    return [(hosts(names), int(number)) for names, number in re.findall(r" Nodes=(\S+) .*?GRES=gpu:\w+:(\d+)", shown)]


def fields_of(shown: str) -> dict[str, str]:
    """The fields of the first job that scontrol shows, each of which begins a line or follows a blank."""
    first = shown.split("\n\n", maxsplit=1)[0]
    found: dict[str, str] = {}
    for line in first.splitlines():
        for name, value in re.findall(r"([A-Za-z:/]+)=(.*?)(?= [A-Za-z:/]+=|$)", line.strip()):
            found.setdefault(name, value)
    return found


if __name__ == "__main__":
    main()
