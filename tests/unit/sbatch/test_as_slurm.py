"""The translation against the record of what a real Slurm did with the same scripts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.sbatch import values
from muster.sbatch.directives import Refused
from muster.sbatch.translate import Translation, translate
from tests.unit.sbatch.cases import RECORD, Case, cases, site

RECORDED: dict[str, dict[str, Any]] = json.loads(RECORD.read_text())
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
# Where the translation differs from Slurm, by the reason.
DIFFERENCES = {
    "each node of a job has the same size": ["-N2 -n 3", "-n 3 -c 8", "--gpus=3 -N 2"],
    "a range of nodes becomes its least, as how many are free is not known then": [
        "-N 1-2",
        "-N 1-4",
        "-N 2-1k",
        "-w n1,n2 | -N | 2-4",
    ],
    "not supported, and refused by name": [
        "--dependency=afterburstbuffer:1",
        "-w n1 -N 2",
        "-C 'ib*2' -N 2",
    ],
    "of several partitions the first is taken": ["-p gpu,debug"],
    "kinder or stricter with slips: types of GPUs without case, no 29 February in 2027, no empty name": [
        "--gpus=A100:1",
        "--begin='2027-02-29'",
        "--job-name=",
    ],
}
DIFFERENT = {key: why for why, keys in DIFFERENCES.items() for key in keys}


def translated(case: Case) -> Translation | None:
    """The translation; None if it is refused."""
    try:
        return translate(case.submission, site(), NOW)
    except Refused:
        return None


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.key)
def test_a_script_asks_for_what_it_asks_for_in_slurm_but_for_the_listed_differences(case: Case) -> None:
    recorded, found = RECORDED[case.key], translated(case)
    agrees = (found is None) == ("refused" in recorded)
    if agrees and found is not None:
        asks = asked(found)
        agrees = all(asks[name] == value for name, value in given(recorded).items() if name in asks)
    assert agrees == (case.key not in DIFFERENT), (found, recorded)


def asked(found: Translation) -> dict[str, Any]:
    """The spec's request in the terms of the record, without values that it leaves to defaults."""
    spec = found.spec
    nodes, gpus = spec["nodes"], str(spec.get("gpus", 0)).rpartition(":")[2]
    told = {
        "name": spec["name"],
        "partition": spec["vc"].removeprefix("lab-"),
        "minutes": _limit_min(spec),
        "nodes": nodes,
        "cpus": nodes * spec["cpus"],
        "gpus": nodes * int(gpus),
        "requeue": spec.get("retry", {}).get("max") != 0,
        "nodes_in": set(spec.get("nodes_in", ())),
        "exclude_nodes": set(spec.get("exclude_nodes", ())),
        "comment": spec.get("tags", {}).get("comment", ""),
    }
    if "memory" in spec:
        told["memory_mib"] = nodes * int(spec["memory"].removesuffix("MiB"))
    if "array" in spec:
        told |= {"array": _indices(spec["array"]["indices"]), "parallel": spec["array"].get("max_parallel")}
    return told


def _indices(text: str) -> tuple[int, ...]:
    return values.array(text, 10**6).indices


def _limit_min(spec: dict[str, Any]) -> int:
    number, unit = int(spec["time"][:-1]), spec["time"][-1]
    seconds = number * {"s": 1, "m": 60, "h": 3600}[unit]
    return seconds // 60


def given(recorded: dict[str, Any]) -> dict[str, Any]:
    """Slurm's record of the job; of a waiting one, without sizes that are known only once it runs."""
    tres = dict(part.split("=") for part in recorded["TRES"].split(","))
    names = {
        field: set(values.hosts(recorded[field])) if field in recorded else set()
        for field in ("ReqNodeList", "ExcNodeList")
    }
    told: dict[str, Any] = {
        "name": recorded["JobName"],
        "partition": recorded["Partition"],
        "minutes": values.minutes(recorded["TimeLimit"]),
        "requeue": recorded["Requeue"] == "1",
        "exclude_nodes": names["ExcNodeList"],
        "comment": recorded.get("Comment", ""),
    }
    if "Features" not in recorded:
        told["nodes_in"] = names["ReqNodeList"]
    if "ArrayTaskId" in recorded and recorded["JobState"] == "PENDING":
        indices, _, parallel = recorded["ArrayTaskId"].partition("%")
        told |= {"array": _indices(indices), "parallel": int(parallel) if parallel else None}
    if "ArrayTaskId" not in recorded and recorded["JobState"] == "RUNNING":
        told |= {"nodes": int(recorded["NumNodes"]), "cpus": int(tres["cpu"]), "gpus": recorded["gpus"]}
        told["memory_mib"] = values.mebibytes(tres["mem"])
    return told
