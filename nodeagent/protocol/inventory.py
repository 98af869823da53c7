"""Inventory of a node, as its agent sends it at its registration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Optional, Tuple

from nodeagent.protocol import wire
from nodeagent.protocol.volumes import MAX_PATH_CHARS
from nodeagent.protocol.wire import Message, ProtocolError, address, sentence, text

PCIE_LEVELS = ("SYS", "NODE", "PHB", "PXB", "PIX")
"""Meeting points of two GPUs without NVLink, the farthest first: across sockets, on one NUMA node, at a host bridge,
over several switches, at one switch or on one board.
"""

MAX_NVLINKS = 64
"""The most NVLinks that a topology may name between two GPUs."""


@dataclass(frozen=True)
class GpuInfo(Message):
    """One GPU of the inventory; `model` is the GPU type that jobs ask for."""

    index: int
    uuid: str = field(metadata=text(80))
    model: str = field(metadata=sentence(120))
    memory_mib: int
    pci_bus_id: str = field(default="", metadata=text(40))
    numa_node: Optional[int] = None


@dataclass(frozen=True)
class Inventory(Message):
    """Hardware and software of a node.

    `topology` is a square matrix in the order of `gpus`, whose indexes then count up from 0: `X` on the diagonal, else
    the closest link, in the words of `nvidia-smi topo`: `NV4` for four NVLinks, or a level of `PCIE_LEVELS`. Empty or
    missing when unknown. `toolkit_version` is that of the NVIDIA Container Toolkit, empty where there is none.
    `mount_roots` are the folders below which volumes of jobs may lie; a node that names none mounts none.
    `single_user`: all jobs run as the agent's own account, with nothing that keeps one from the files and processes of
    another.
    """

    hostname: str = field(metadata=text(255))
    address: str = field(metadata=address())
    cpus: int
    memory_mib: int
    disk_mib: int = 0
    driver_version: str = field(default="", metadata=text(100))
    runtimes: Tuple[str, ...] = field(default=(), metadata=text(100))
    labels: Mapping[str, str] = field(default_factory=dict, metadata=text(255))
    gpus: Tuple[GpuInfo, ...] = ()
    topology: Tuple[Tuple[str, ...], ...] = field(default=(), metadata=text(200))
    toolkit_version: str = field(default="", metadata=text(100))
    mount_roots: Tuple[str, ...] = field(default=(), metadata=text(MAX_PATH_CHARS))
    single_user: bool = False


def nvlinks(word: str) -> int:
    """NVLinks that a word of a topology names: 0 for a level of PCIe. `ProtocolError` for any other word."""
    count = word[2:]
    if word.startswith("NV") and wire.is_digits(count) and count[0] != "0" and int(count) <= MAX_NVLINKS:
        return int(count)
    if word not in PCIE_LEVELS:
        words = ", ".join(PCIE_LEVELS)
        raise ProtocolError("", "expected NV1 to NV{} or one of {}, got {!r:.40}".format(MAX_NVLINKS, words, word))
    return 0
