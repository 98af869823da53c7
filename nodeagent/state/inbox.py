"""Messages from the agent's threads to its main loop."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Callable, Optional, Union

from nodeagent.protocol.messages import LaunchSpec, SyncResponse
from nodeagent.runtime.port import EventKind, ExitStatus


@dataclass(frozen=True)
class _OfAllocation:
    id: int
    """The allocation's."""


@dataclass(frozen=True)
class Synced:
    """The platform answered a long-poll; `at` is CLOCK_BOOTTIME."""

    answer: SyncResponse
    at: float


@dataclass(frozen=True)
class Happened(_OfAllocation):
    """A runtime noticed something."""

    kind: EventKind


class ClaimRefused(_OfAllocation):
    """The platform did not let us have an allocation."""


class Abandoned(_OfAllocation):
    """A claim was given up because a stop came first; nothing was started."""


@dataclass(frozen=True)
class Starting:
    """An allocation was claimed, its intent is on disk, and it is about to be started."""

    spec: LaunchSpec


class Launched(_OfAllocation):
    """The runtime took over."""


@dataclass(frozen=True)
class Exited(_OfAllocation):
    """An allocation is over and no process of it is left."""

    status: ExitStatus


class Unsettled(_OfAllocation):
    """An allocation that seemed to be over still has a shim."""


class EndAnswered(_OfAllocation):
    """The platform knows the end of an allocation."""


class LogDone(_OfAllocation):
    """A log is shipped, or the platform no longer wants it."""


class OutputsDone(_OfAllocation):
    """The files of an allocation are shipped, or the platform no longer wants them."""


@dataclass(frozen=True)
class DiskExceeded(_OfAllocation):
    """An allocation takes too much of a disk, as `detail` says. Its grace is that at most; None: as its spec says."""

    detail: str
    max_grace_s: Optional[float]


@dataclass(frozen=True)
class Quit:
    """The agent must end with `status`; jobs go on."""

    status: int
    message: str


Message = Union[
    Synced,
    Happened,
    ClaimRefused,
    Abandoned,
    Starting,
    Launched,
    Exited,
    Unsettled,
    EndAnswered,
    LogDone,
    OutputsDone,
    DiskExceeded,
    Quit,
]
Post = Callable[[Message], None]


class Worker(threading.Thread):
    """A thread that takes turns until the agent ends. If a turn breaks, the agent ends."""

    def __init__(self, post: Post, stopping: threading.Event) -> None:
        super().__init__(name=type(self).__name__.lower(), daemon=True)
        self._post = post
        self._stopping = stopping

    def run(self) -> None:
        """Take turn after turn."""
        try:
            while not self._stopping.is_set():
                self.turn()
        except BaseException as error:
            self._post(Quit(1, "{} broke: {!r}".format(self.name, error)))
            raise

    def turn(self) -> None:
        """One turn of the repeated work, with its waiting."""
        raise NotImplementedError
