"""Phrases about demands for pending reasons and their evidence."""

from __future__ import annotations

from scheduler.model.lifecycle import RuntimeNeed
from scheduler.model.plan import Evidence
from scheduler.placement.demand import Demand

MEETS_PLURAL = {
    RuntimeNeed.ANY: "run jobs",
    RuntimeNeed.PLAIN: "run jobs without an image",
    RuntimeNeed.IMAGE: "run containers",
    RuntimeNeed.CONTAINER: "have an image for jobs that name none",
    RuntimeNeed.IMAGE_VOLUMES: "mount volumes",
    RuntimeNeed.CONTAINER_VOLUMES: "mount volumes for jobs without an image",
}
_VERBS_OF_ONE = {"run": "runs", "have": "has", "mount": "mounts"}
MEETS_SINGULAR = {
    form: f"{_VERBS_OF_ONE[verb]} {rest}"
    for form, (verb, rest) in ((form, text.split(" ", 1)) for form, text in MEETS_PLURAL.items())
}


def evidence(demand: Demand, **numbers: int) -> Evidence:
    """The numbers of the demand and of its failure."""
    return {
        "gpu_type": demand.gpu_type or "",
        "gpus_per_node": demand.gpus,
        "nodes": demand.nodes,
        "cpus_per_node": demand.cpus,
        "memory_mib_per_node": demand.memory_mib,
        **numbers,
    }


def count(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def nodes_meeting(nodes: int, form: RuntimeNeed) -> str:
    """`2 nodes that run containers`."""
    return f"{count(nodes, 'node')} that {MEETS_PLURAL[form] if nodes != 1 else MEETS_SINGULAR[form]}"


def have(number: int) -> str:
    """`none has`, `1 has`, `2 have`."""
    return f"{number or 'none'} {'has' if number < 2 else 'have'}"


def are(number: int) -> str:
    """`none is`, `1 is`, `2 are`."""
    return f"{number or 'none'} {'is' if number < 2 else 'are'}"


def memory(memory_mib: int) -> str:
    """`64 GiB`, or `1500 MiB` if it is not a whole number of GiB."""
    return f"{memory_mib} MiB" if memory_mib % 1024 else f"{memory_mib // 1024} GiB"


def with_gpus(demand: Demand) -> str:
    """` with 4 A100`, or an empty string for a demand without GPUs."""
    return f" with {demand.gpus} {demand.gpu_type}" if demand.gpu_type else ""
