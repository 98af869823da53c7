"""The interface of GPU drivers. Every driver passes tests/agent/gpu/test_gpu_conformance.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Collection, FrozenSet, Mapping, Optional, Protocol, Sequence, Tuple

from nodeagent.protocol.messages import GpuInfo, GpuSample, HealthEvent
from nodeagent.runtime.port import Usage

NO_SUCH_GPU = "this machine has no such GPU"


class GpuUnavailable(Exception):
    """The driver cannot be used on this machine; the message says why."""


@dataclass(frozen=True)
class SelfTestResult:
    """The result of a GPU self-test; `how` names the kind of test."""

    is_right: bool
    detail: str = ""
    tflops: Optional[float] = None
    gb_s: Optional[float] = None
    how: str = ""


@dataclass(frozen=True)
class Occupancy:
    """The processes on one GPU; `problem` says why they cannot be told at this moment."""

    pids: FrozenSet[int] = frozenset()
    problem: str = ""

    @property
    def words(self) -> str:
        """A list of the processes for people; of many only the first few."""
        return "process {} is on it".format(", ".join(str(pid) for pid in sorted(self.pids)[:5]))


class GpuDriver(Protocol):
    """The GPUs of one node. All calls but `self_test` come from one thread at a time."""

    name: str

    def inventory(self) -> Tuple[GpuInfo, ...]:
        """Every GPU, by index; the same at every call."""

    def topology(self) -> Tuple[Tuple[str, ...], ...]:
        """The closest link between each two GPUs (see `Inventory`)."""

    def driver_version(self) -> str:
        """The driver's version, empty when there is none."""

    def samples(self, usage: Mapping[str, Usage]) -> Tuple[GpuSample, ...]:
        """A reading of every GPU that answers; `usage` is what our jobs do, by GPU uuid."""

    def health(self) -> Tuple[HealthEvent, ...]:
        """New events since the last call."""

    def occupancy(self, uuids: Sequence[str]) -> Mapping[str, Occupancy]:
        """The processes on each of these GPUs now; without GPUs that this machine lacks."""

    def faults(self, uuids: Sequence[str], alone: Collection[str]) -> Tuple[Tuple[str, str], ...]:
        """The GPUs unfit for a start now, and why; on GPUs in `alone`, any process is a fault."""

    def self_test(self, uuid: str, wait: Callable[[float], bool]) -> Optional[SelfTestResult]:
        """Run a computation with a known result on the GPU; None from a driver that has no such test.

        It takes seconds, in parallel to other calls, and ends soon after `wait` (wait for a stop) returned true.
        """

    def furnish(self, uuids: Sequence[str], folder: str) -> None:
        """Write what a job on these GPUs needs of the driver into the folder of its modules; `OSError` if that fails.

        Several threads may call it at once.
        """

    def close(self) -> None:
        """Let go of the driver."""


class NoGpus:
    """A node without GPUs."""

    name = "none"

    def inventory(self) -> Tuple[GpuInfo, ...]:
        return ()

    def topology(self) -> Tuple[Tuple[str, ...], ...]:
        return ()

    def driver_version(self) -> str:
        return ""

    def samples(self, usage: Mapping[str, Usage]) -> Tuple[GpuSample, ...]:
        return ()

    def health(self) -> Tuple[HealthEvent, ...]:
        return ()

    def occupancy(self, uuids: Sequence[str]) -> Mapping[str, Occupancy]:
        return {}

    def faults(self, uuids: Sequence[str], alone: Collection[str]) -> Tuple[Tuple[str, str], ...]:
        return tuple((uuid, NO_SUCH_GPU) for uuid in uuids)

    def self_test(self, uuid: str, wait: Callable[[float], bool]) -> Optional[SelfTestResult]:
        return None

    def furnish(self, uuids: Sequence[str], folder: str) -> None:
        """Jobs need nothing."""

    def close(self) -> None:
        """Nothing to let go of."""
