"""The operator's options for the containers of a node, apart so that they load before any code of containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple


@dataclass(frozen=True)
class Options:
    """The operator's options for all containers of a node."""

    default_image: str = ""
    """The image of jobs that name none; empty = they are refused."""
    network: str = "bridge"
    gang_network: str = ""
    """The network of jobs on several nodes: `host`, one that spans nodes, or `refuse`; empty = the pool's."""
    pids: int = 4096
    read_only_root: bool = False
    infiniband: bool = True
    """True if containers get InfiniBand where the pool says so."""
    mount_roots: Tuple[str, ...] = ()
    """The folders below which volumes may lie; none = nothing is mounted."""
