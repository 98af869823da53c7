"""The node's inventory, sent when the agent registers."""

from __future__ import annotations

import os
import socket
from typing import Optional

from nodeagent.gpu.port import GpuDriver
from nodeagent.protocol.messages import Inventory
from nodeagent.runtime.port import LABELS, Runtime
from nodeagent.system import host
from nodeagent.watch import toolkit


def look(
    *,
    gpus: GpuDriver,
    runtime: Runtime,
    state: str,
    address: str,
    hostname: str = "",
    cpus: Optional[int] = None,
    memory_mib: Optional[int] = None,
) -> Inventory:
    """The inventory; what is given stands for what would be found."""
    return Inventory(
        hostname=hostname or socket.gethostname(),
        address=address,
        cpus=host.cpus(cpus),
        memory_mib=host.memory_mib(memory_mib),
        disk_mib=host.disk_mib(state),
        driver_version=gpus.driver_version(),
        runtimes=runtime.offers(),
        # Labels of a node stay until they are overwritten, so those of an earlier start are taken back here.
        labels={
            "kernel": os.uname().release,
            "agent-in": os.environ.get("MUSTER_AGENT_IN", ""),
            **dict.fromkeys(LABELS, ""),
            **runtime.labels(),
        },
        gpus=gpus.inventory(),
        topology=gpus.topology(),
        toolkit_version=toolkit.version(),
        mount_roots=runtime.mount_roots(),
        single_user=runtime.single_user,
    )
