"""Links between GPUs as drivers find them, on machines that are not here."""

# ruff: noqa: N802 (the names are NVML's)

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.gpu import nvml
from nodeagent.gpu.choose import open_gpus
from nodeagent.gpu.port import GpuUnavailable
from nodeagent.protocol.messages import MAX_NVLINKS, PCIE_LEVELS, ProtocolError, nvlinks

GPU, SWITCH = 0, 2
SAME_SWITCH, NUMA_NODE, SYSTEM = 10, 40, 50


class NoAnswer(Exception):
    """The fake NVML's error for a reading that a GPU does not have."""


@dataclass
class Machine:
    """NVML of a machine, as far as the links of its GPUs go.

    `links[gpu]` has for each NVLink of that GPU the other GPU's number, "switch", or None for a link that is down.
    """

    links: list[list[int | str | None]]
    meet: dict[frozenset[int], int] = field(default_factory=dict)
    apart: frozenset[int] = frozenset()

    NVMLError = NoAnswer
    NVML_NVLINK_MAX_LINKS = 18
    NVML_NVLINK_DEVICE_TYPE_SWITCH = SWITCH
    NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 2, 0
    NVML_TOPOLOGY_INTERNAL, NVML_TOPOLOGY_SINGLE, NVML_TOPOLOGY_MULTIPLE = 0, SAME_SWITCH, 20
    NVML_TOPOLOGY_HOSTBRIDGE, NVML_TOPOLOGY_NODE = 30, NUMA_NODE

    def nvmlInit(self) -> None:
        """It can be used."""

    def nvmlDeviceGetCount(self) -> int:
        return len(self.links)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA A100-SXM4-80GB"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=80 << 30, used=0)

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"00000000:{handle + 10:02X}:00.0".encode())

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return []

    def nvmlEventSetCreate(self) -> Any:
        raise NoAnswer

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if link >= len(self.links[handle]):
            raise NoAnswer
        return int(self.links[handle][link] is not None)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:
        return SWITCH if self.links[handle][link] == "switch" else GPU

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> Any:
        peer = self.links[handle][link]
        if not isinstance(peer, int):
            raise NoAnswer
        # Written with other digits than by nvmlDeviceGetPciInfo, as by some drivers.
        return SimpleNamespace(busId=f"0000:{peer + 10:02x}:00.0")

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, capability: int) -> int:
        return 5 if {one, other} & self.apart else 0

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        if frozenset((one, other)) not in self.meet:
            raise NoAnswer
        return self.meet[frozenset((one, other))]


MACHINES = {
    "pairs by bridges, and PCIe between them": (
        Machine(
            [[1, 1, 1, 1], [0, 0, 0, 0], [3, 3], [2, 2]],
            {frozenset((0, 2)): NUMA_NODE, frozenset((0, 3)): SYSTEM, frozenset((1, 2)): SAME_SWITCH},
        ),
        ["X NV4 NODE SYS", "NV4 X PIX SYS", "NODE PIX X NV2", "SYS SYS NV2 X"],
    ),
    "everything on NVSwitches, whose bus ids are no GPU's": (
        Machine([["switch"] * 12, ["switch"] * 12, ["switch"] * 12]),
        ["X NV12 NV12", "NV12 X NV12", "NV12 NV12 X"],
    ),
    "a GPU that has lost links to the switches": (
        Machine([["switch"] * 12, ["switch"] * 10 + [None] * 2]),
        ["X NV10", "NV10 X"],
    ),
    "a GPU that the switches keep apart": (
        Machine([["switch"] * 12] * 3, {frozenset((0, 2)): NUMA_NODE}, apart=frozenset({2})),
        ["X NV12 NODE", "NV12 X SYS", "NODE SYS X"],
    ),
    "links that only one end sees": (Machine([[1, 1], [0, None]]), ["X NV1", "NV1 X"]),
    "links to a GPU that this machine does not show": (Machine([[7], [8]]), ["X SYS", "SYS X"]),
    "a GPU alone": (Machine([["switch"] * 18]), ["X"]),
}


@pytest.mark.parametrize(("machine", "expected"), MACHINES.values(), ids=MACHINES)
def test_nvml_finds(machine: Machine, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "pynvml", machine)
    assert [" ".join(row) for row in nvml.NvmlGpus().topology()] == expected


def declared(spec: str) -> list[str]:
    return [" ".join(row) for row in open_gpus(spec, "here", "").topology()]


LAYOUTS = {
    "emulated:A100:5": ["X NV4 NV4 NV4 SYS"]
    + [f"{'NV4 ' * n}X {'NV4 ' * (3 - n)}SYS" for n in (1, 2, 3)]
    + ["SYS " * 4 + "X"],
    "emulated:A100:3@nvlink-pairs": ["X NV4 NODE", "NV4 X NODE", "NODE NODE X"],
    "emulated:A100:2,V100:1@nvswitch": ["X NV18 NODE", "NV18 X NODE", "NODE NODE X"],
    "emulated:L4:3@pcie": ["X PIX NODE", "PIX X NODE", "NODE NODE X"],
}


@pytest.mark.parametrize(("spec", "expected"), LAYOUTS.items(), ids=LAYOUTS)
def test_a_declared_machine_has_the_links_of_its_layout(spec: str, expected: list[str]) -> None:
    assert declared(spec) == expected


def test_a_matrix_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "links").write_text("# as the test machine\nX NV2 PHB\n\nNV2 X PXB\nPHB PXB X\n")
    assert declared(f"emulated:A100:3@{tmp_path}/links") == ["X NV2 PHB", "NV2 X PXB", "PHB PXB X"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    {
        "X NV2": "2 lines of 2 words",
        "X NV2\nNV2": "2 lines of 2 words",
        "X NV2\nNV4 X": "line 1, word 2: 'NV2' is 'NV4' the other way round",
        "NV2 X\nX NV2": "line 1, word 1: a GPU and itself are `X`, not 'NV2'",
        "X X\nX X": "line 1, word 2",
        "X FAR\nFAR X": "one of SYS, NODE, PHB, PXB, PIX, got 'FAR'",
    }.items(),
)
def test_a_matrix_that_is_none_is_refused_with_its_place(content: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "links").write_text(content)
    with pytest.raises(GpuUnavailable, match=complaint):
        open_gpus(f"emulated:A100:2@{tmp_path}/links", "here", "")


@pytest.mark.parametrize("layout", ["", "ring", "/no/such/file"])
def test_a_layout_that_is_not_there_is_refused(layout: str) -> None:
    with pytest.raises(GpuUnavailable):
        open_gpus(f"emulated:A100:2@{layout}", "here", "")


def test_words_say_how_many_nvlinks_there_are() -> None:
    assert [nvlinks(word) for word in ("NV1", "NV18", f"NV{MAX_NVLINKS}", *PCIE_LEVELS)] == [1, 18, MAX_NVLINKS] + [
        0
    ] * 5


@pytest.mark.parametrize("word", ["", "X", "NV", "NV0", "NV04", "NV-1", "NV65", "NV٣", "nv4", "PIX ", "9" * 5000])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(ProtocolError):
        nvlinks(word)
