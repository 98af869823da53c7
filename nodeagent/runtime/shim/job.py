"""The interface of a job to the shim that watches it: a process of its own, or a container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, NoReturn, Optional, Protocol, Tuple

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.port import ShellRequest

PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031


class StartFailed(Exception):
    """The job was not started, and nothing of it is left; `detail` says why."""

    def __init__(self, detail: str, reason: EndReason = EndReason.LAUNCH_FAILED) -> None:
        self.detail = detail
        self.reason = reason
        super().__init__(detail)


@dataclass(frozen=True)
class Ending:
    """The end of the job's command; `reason` only where it says more than code and signal do."""

    exit_code: Optional[int] = None
    signal: Optional[int] = None
    reason: Optional[EndReason] = None
    detail: str = ""


class Job(Protocol):
    """One job. All calls come from the one thread of its shim."""

    shells_linger_s: float
    """Seconds after the end in which a process that a shell has asked for may still start."""

    def start(self) -> int:
        """Start it and return the reading end of its output, which never blocks; `StartFailed` if it cannot be."""

    def identity(self) -> Optional[Tuple[int, int]]:
        """The process whose descendants the job is (see `tree.identity`); None once it is gone."""

    def descriptors(self) -> Tuple[int, ...]:
        """Descriptors that become readable when a process ended, beside the signal of a child's end."""

    def look(self) -> None:
        """Take note of what has ended."""

    @property
    def over(self) -> bool:
        """True if the command has ended, though processes that it started may go on."""

    def failed(self) -> Optional[Ending]:
        """The command's failure, while a shell can still enter its surroundings; otherwise None."""

    @property
    def gone(self) -> bool:
        """True if no process of the job is left."""

    def members(self) -> List[int]:
        """Every process of the job."""

    def kill(self) -> None:
        """Kill every process of the job, as far as this can be done at once."""

    def ending(self) -> Ending:
        """The job's end; asked once, when it is gone. Whatever it used is given back when this returns."""

    def become_shell(self, request: ShellRequest) -> NoReturn:
        """Turn this process, whose standard streams are the shell's, into a shell beside the job; `OSError` if not."""

    def keep_status(self, pid: int) -> None:
        """Keep the wait status of a child that is no part of what this job watches."""

    def take_status(self, pid: int, *, wait: bool = False) -> Optional[int]:
        """The wait status of such a child, None while it lives; with `wait`, wait for its end."""
