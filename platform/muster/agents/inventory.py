"""From the inventory of a registration to what the fleet stores of it. What an agent says need not make sense."""

from __future__ import annotations

from collections import Counter

from muster.common.errors import Invalid
from muster.fleet.inventory import Reported, ReportedGpu
from muster.fleet.links import link_scores
from muster.fleet.runtimes import NO_CONTAINERS
from muster.fleet.toolkit import safe_runtimes
from nodeagent.protocol.messages import GpuInfo, Inventory

MAX_GPUS = 128
_MAX_NUMA_NODES = 1024
_MAX_ROOTS = 64
_MAX_INTEGER = (1 << 31) - 1
_MAX_BIG_INTEGER = (1 << 63) - 1


def reported(inventory: Inventory) -> Reported:
    """The inventory as the fleet stores it; what no machine can have is `Invalid`, with the name of the field."""
    _require("cpus", inventory.cpus, _MAX_INTEGER)
    _require("memory_mib", inventory.memory_mib, _MAX_BIG_INTEGER)
    if len(inventory.gpus) > MAX_GPUS:
        raise Invalid.field(
            "inventory.gpus", f"a node has at most {MAX_GPUS} GPUs, and these are {len(inventory.gpus)}"
        )
    repeated = [uuid for uuid, count in Counter(gpu.uuid for gpu in inventory.gpus).items() if count > 1]
    if repeated:
        raise Invalid.field("inventory.gpus", f"two GPUs have the UUID {repeated[0]}")
    runtimes, no_containers = safe_runtimes(inventory.toolkit_version, inventory.runtimes)
    return Reported(
        address=inventory.address,
        cpus=inventory.cpus,
        memory_mib=inventory.memory_mib,
        labels={**inventory.labels, **({NO_CONTAINERS: no_containers} if no_containers else {})},
        single_user=inventory.single_user,
        details={
            "hostname": inventory.hostname,
            "disk_mib": inventory.disk_mib,
            "driver_version": inventory.driver_version,
            "toolkit_version": inventory.toolkit_version,
            "runtimes": runtimes,
            "mount_roots": list(inventory.mount_roots[:_MAX_ROOTS]),
            "topology": [list(row) for row in inventory.topology],
        },
        gpus=tuple(_gpu(position, gpu) for position, gpu in enumerate(inventory.gpus)),
        links=link_scores(
            inventory.topology, indexes=[gpu.index for gpu in inventory.gpus], field="inventory.topology"
        ),
    )


def _gpu(position: int, gpu: GpuInfo) -> ReportedGpu:
    name = f"gpus[{position}]"
    _require(f"{name}.index", gpu.index, MAX_GPUS - 1)
    _require(f"{name}.memory_mib", gpu.memory_mib, _MAX_INTEGER)
    if gpu.numa_node is not None:
        _require(f"{name}.numa_node", gpu.numa_node, _MAX_NUMA_NODES - 1)
    if not 0 < len(gpu.uuid) <= 80:
        raise Invalid.field(f"inventory.{name}.uuid", "it must have 1 to 80 characters")
    return ReportedGpu(gpu.index, gpu.uuid, gpu.model, gpu.memory_mib, gpu.numa_node)


def _require(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise Invalid.field(f"inventory.{name}", f"it must be a number from 0 to {most}, not {value}")
