"""The memory of groups of processes, sampled while they work, from /proc.

RSS counts a page that several processes share once for each of them; PSS divides it among them, so that the sum over
a group is what the group costs. Postgres's and Python's forks share much, so both are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Usage:
    """The memory of some processes at one moment, or the largest values of many moments."""

    processes: int = 0
    rss_mib: float = 0.0
    pss_mib: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.processes + other.processes, self.rss_mib + other.rss_mib, self.pss_mib + other.pss_mib)

    def peak(self, other: Usage) -> Usage:
        """The larger of both, value by value."""
        return Usage(
            max(self.processes, other.processes),
            max(self.rss_mib, other.rss_mib),
            max(self.pss_mib, other.pss_mib),
        )


TOTAL = "all together"


class PeakMemory:
    """Samples groups of processes in a thread while the block runs; `peaks` tells the largest sums."""

    def __init__(
        self, groups: Callable[[], Mapping[str, list[int]]], look: Callable[[int], Usage] | None = None
    ) -> None:
        self._groups, self._look = groups, look or usage_of
        self._peaks: dict[str, Usage] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def peaks(self) -> dict[str, Usage]:
        """The peak of each group, and of all together at one moment."""
        return dict(self._peaks)

    def sample(self) -> None:
        """Looks once."""
        total = Usage()
        for name, pids in self._groups().items():
            usage = sum((self._look(pid) for pid in pids), Usage())
            self._peaks[name] = self._peaks.get(name, Usage()).peak(usage)
            total += usage
        self._peaks[TOTAL] = self._peaks.get(TOTAL, Usage()).peak(total)

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY_S):
            self.sample()


def usage_of(pid: int) -> Usage:
    """The memory of one process; nothing if it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return Usage()
    return parse_rollup(text)


def parse_rollup(text: str) -> Usage:
    """Parse the kernel's summary of a process's mappings; it is empty for a process that has ended."""
    kib = {}
    for line in text.splitlines()[1:]:
        name, _, rest = line.partition(":")
        kib[name] = int(rest.split()[0])
    return Usage(1, kib["Rss"] / 1024, kib["Pss"] / 1024) if kib else Usage()
