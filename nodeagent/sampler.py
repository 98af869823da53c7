"""Readings of GPUs and host for the platform, taken no more often than they are of use."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from nodeagent.gpu.port import GpuDriver
from nodeagent.host import HostMeter
from nodeagent.protocol import GpuSample, HealthEvent, HostSample
from nodeagent.runtime.port import Runtime, Usage

SAMPLE_EVERY_S = 5.0


@dataclass(frozen=True)
class News:
    """What a sync tells beside the allocations; empty when there is nothing new."""

    gpus: Tuple[GpuSample, ...] = ()
    host: Optional[HostSample] = None
    health: Tuple[HealthEvent, ...] = ()


class Sampler:
    """Serialises all calls of the GPU driver. Its methods may be called from any thread."""

    def __init__(self, gpus: GpuDriver, runtime: Runtime) -> None:
        self._gpus = gpus
        self._runtime = runtime
        self._meter = HostMeter()
        self._mutex = threading.Lock()
        self._due_at = 0.0
        self._unsaid: List[HealthEvent] = []
        self._gpus_of: Dict[int, Tuple[str, ...]] = {}

    def assign(self, allocation_id: int, uuids: Tuple[str, ...]) -> None:
        """An allocation uses these GPUs from now on; none = no longer."""
        with self._mutex:
            if uuids:
                self._gpus_of[allocation_id] = uuids
            else:
                self._gpus_of.pop(allocation_id, None)

    def take(self) -> News:
        """Readings if they are due, and health events that were not told yet."""
        with self._mutex:
            now = time.monotonic()
            if now < self._due_at:
                health, self._unsaid = tuple(self._unsaid), []
                return News(health=health)
            self._due_at = now + SAMPLE_EVERY_S
            samples = self._gpus.samples(self._usage_by_gpu())
            health, self._unsaid = (*self._unsaid, *self._gpus.health()), []
            return News(samples, self._meter.sample(), health)

    def give_back(self, news: News) -> None:
        """These health events did not reach the platform."""
        with self._mutex:
            self._unsaid = [*news.health, *self._unsaid]

    def report(self, event: HealthEvent) -> None:
        """Tell the platform with the next sync."""
        with self._mutex:
            self._unsaid.append(event)

    def busy(self, uuids: Sequence[str]) -> bool:
        """Whether any process still holds one of these GPUs."""
        with self._mutex:
            return self._gpus.busy(uuids)

    def _usage_by_gpu(self) -> Mapping[str, Usage]:
        """What jobs use, in equal shares for the GPUs of each."""
        if not self._gpus_of:
            return {}
        found: Dict[str, Usage] = {}
        for allocation_id, usage in self._runtime.usage().items():
            uuids = self._gpus_of.get(allocation_id, ())
            for uuid in uuids:
                share = usage.cpu_fraction / len(uuids)
                found[uuid] = Usage(usage.processes, share, usage.rss_mib // len(uuids))
        return found
