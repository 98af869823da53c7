"""The interface of runtimes. Every runtime passes tests/agent/runtime/test_runtime_conformance.py."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Callable, Mapping, Optional, Protocol, Tuple

from nodeagent.protocol.messages import EndReason, LaunchSpec, MetricPoint, RegistryLogin
from nodeagent.runtime import ENGINES

STOPPED_BEFORE_IT_STARTED = "it was stopped before it started"
"""The detail of an end that came before the start."""


LABELS = (
    "isolation",
    "limits",
    "single-user-reason",
    "gang-network",
    "default-image",
    *ENGINES,
    "containers",
)
"""All labels that runtimes may give to their node."""


class LaunchError(Exception):
    """A launch that came to nothing; no process of the allocation exists. It ends with `reason` and `detail`."""

    def __init__(self, reason: EndReason, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)


class RuntimeUnavailable(Exception):
    """The runtime cannot be used on this machine, or with this state folder; the message says why."""


class NotYet(Exception):
    """Nothing can be said of an allocation for now: its engine is down, or a process cannot be killed; ask again."""


class Watched(Exception):
    """An allocation that was to be settled is being watched after all, such as by a shim that came late."""


class Phase(Enum):
    """Phases of an allocation in its runtime."""

    ABSENT = "absent"
    """No trace of a start."""
    STARTING = "starting"
    RUNNING = "running"
    GONE = "gone"
    """It was started, its shim is gone, and the shim left no exit status."""
    EXITED = "exited"


@dataclass(frozen=True)
class ExitStatus:
    """The exit code or signal of an allocation's end. Once it can be read, no process of the allocation is left."""

    reason: EndReason
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    detail: str = ""
    started: bool = True
    started_at: Optional[float] = None
    ended_at: Optional[float] = None
    log_size: int = 0


@dataclass(frozen=True)
class Kept:
    """A command that has failed, and what it ran in, which stays until then (CLOCK_BOOTTIME)."""

    until: float
    reason: EndReason
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    detail: str = ""


@dataclass(frozen=True)
class Observation:
    """One look at an allocation; `exit` is there exactly when the phase is EXITED, `kept` only while it is RUNNING."""

    phase: Phase
    exit: Optional[ExitStatus] = None
    kept: Optional[Kept] = None


@dataclass(frozen=True)
class Usage:
    """Resources used by the processes of one allocation; `cpu_fraction` is 1.0 for one busy core.

    Bytes count up from the start, as far as this can be told: None where it cannot.
    """

    processes: int = 0
    cpu_fraction: float = 0.0
    rss_mib: int = 0
    page_cache_mib: Optional[float] = None
    disk_read_bytes: Optional[int] = None
    disk_write_bytes: Optional[int] = None
    net_receive_bytes: Optional[int] = None
    net_transmit_bytes: Optional[int] = None
    progress: Optional[float] = None
    """The job's reported progress, in a unit of its own."""


@dataclass(frozen=True)
class WorkFolder:
    """The working folder of an allocation on this machine; the job's own from `path` on."""

    path: str
    below: Tuple[str, ...]
    """The folders that lead from there to where the command started."""
    uid: int
    """The user that owns the job's files."""


@dataclass(frozen=True)
class Holdings:
    """The places in which an allocation can fill disks; none once its folders are gone."""

    folders: Tuple[Tuple[str, str], ...] = ()
    """Each with a name for people, and its path on this machine."""
    pids: Tuple[int, ...] = ()
    """Processes that may hold files which no folder names any more."""
    devices: Tuple[int, ...] = ()
    """The numbers by which those processes see the disks of the folders, beside the folders' own."""


@dataclass(frozen=True)
class StopCause:
    """The agent's own cause for stopping a job, which then ends with this reason."""

    reason: EndReason
    detail: str


class ShellRefused(Exception):
    """A shell that was not opened; the message says why."""


@dataclass(frozen=True)
class ShellRequest:
    """A shell beside a job; `command` are its arguments, an interactive shell where there are none."""

    id: int
    command: Tuple[str, ...]
    terminal: bool
    term: str
    rows: int = 24
    cols: int = 80


@dataclass(frozen=True)
class ShellEnding:
    """The end of a shell; no process of it is left. `detail` says what ended it if it was not the shell itself."""

    exit_code: Optional[int] = None
    signal: Optional[int] = None
    detail: str = ""


class Shell(Protocol):
    """An open shell, from the agent's side. Its descriptors never block."""

    output: int
    """Descriptor of the shell's output; its end may show as EIO."""
    input: int
    """Descriptor for typed input; the same one with a terminal, -1 once the input has ended."""
    control: int
    """Becomes readable when the shell has ended."""

    def resize(self, rows: int, cols: int) -> None:
        """Give its terminal another size."""

    def end_input(self) -> None:
        """Let it read the end of its input."""

    def ending(self) -> Optional[ShellEnding]:
        """The shell's end; None while it runs."""

    def close(self) -> None:
        """Hang up: what is left of it ends."""


class EventKind(str, Enum):
    """Events of an allocation that a runtime reports by itself."""

    RUNNING = "run"
    KEPT = "kept"
    LOG = "log"
    EXITED = "exit"


Listener = Callable[[int, EventKind], None]
Tell = Callable[[str], None]
"""Tells the progress of a pull."""
Wanted = Callable[[], bool]
"""Returns True while a pull may go on."""


class LogSource(Protocol):
    """The bounded spool of what an allocation wrote."""

    def read(self, offset: int, limit: int) -> Tuple[int, bytes]:
        """The first bytes kept at or after `offset`, and where they begin; empty when there are none (yet)."""

    def end(self) -> int:
        """The offset after the last byte that is kept."""

    def close(self) -> None:
        """Let go of open files."""


class Runtime(Protocol):
    """A way to run allocations. Calls about one allocation come from one thread at a time."""

    name: str

    def offers(self) -> Tuple[str, ...]:
        """The names of the runtimes that new jobs may have: `process`, an engine, or both."""

    def change(self) -> str:
        """The change in the node's offer since the start, empty for none; may take seconds."""

    @property
    def single_user(self) -> bool:
        """True if all jobs run as the agent's own account, with nothing between them."""

    def labels(self) -> Mapping[str, str]:
        """Labels of this runtime that the node must report, such as `isolation: advisory`; those of `LABELS` only."""

    def mount_roots(self) -> Tuple[str, ...]:
        """The folders of the node below which volumes of jobs may lie; none where nothing is mounted."""

    def prepare(self, spec: LaunchSpec) -> str:
        """Make room for an allocation and return the folder into which its code is unpacked.

        `LaunchError` where the spec asks for what this runtime cannot do; its detail begins with the field's name.
        """

    def lacks(self, spec: LaunchSpec) -> str:
        """The host from which something must be fetched before the launch, which may take long; empty for nothing."""

    def fetch(self, spec: LaunchSpec, login: Optional[RegistryLogin], tell: Tell, wanted: Wanted) -> None:
        """Fetch the image while it is `wanted`, and tell the progress.

        The `login` is not in the spec, because the spec is written to disk.

        Raises: LaunchError if the image cannot be fetched.
        """

    def give_up_fetches(self, device: int, why: str) -> bool:
        """Cancel what is being fetched to this device, as for lack of room; returns whether anything was.

        Returns at once, and may be called from any thread.
        """

    def launch(self, spec: LaunchSpec) -> None:
        """Start a prepared allocation, or raise `LaunchError`."""

    def observe(self, allocation_id: int) -> Observation:
        """The state of an allocation; cheap."""

    def allocations(self) -> Tuple[int, ...]:
        """Every allocation of which something is there, sorted."""

    def spec(self, allocation_id: int) -> Optional[LaunchSpec]:
        """The spec that an allocation was prepared with, if it can still be read."""

    def adopt(self, allocation_id: int) -> Optional[Tuple[str, float]]:
        """Take up an allocation that an earlier run started; return signal and grace of its stop, if one began."""

    def stop(self, allocation_id: int, signal: str, grace_s: float, cause: Optional[StopCause] = None) -> None:
        """Signal every process of the allocation, and kill those that remain after the grace. Returns at once.

        With a `cause` it ends with that reason, unless its command was over before. The first stop counts: a later
        one may hasten it, and does not change why the job ends.
        """

    def limit(self, allocation_id: int, time_left_s: float) -> None:
        """Set what is left of the time limit."""

    def settle(self, allocation_id: int, fallback: ExitStatus) -> ExitStatus:
        """Make an allocation without a shim EXITED: kill what is left of it and keep `fallback` as its status.

        Raises: NotYet if something is left or that cannot be known; Watched if a shim holds the allocation after all.
        """

    def usage(self) -> Mapping[int, Usage]:
        """Usage by each live allocation."""

    def reported(self, allocation_id: int) -> Tuple[MetricPoint, ...]:
        """Metrics that a job, live or over, has reported since the last look. Calls come one at a time."""

    def log(self, allocation_id: int) -> LogSource:
        """A new reader of the allocation's log."""

    def shell(self, allocation_id: int, request: ShellRequest) -> Shell:
        """Open a shell in a running allocation, as its user and within its limits, or raise `ShellRefused`.

        It ends with the job, when it is told to stop, when this agent ends, and when it is closed.
        """

    def work(self, spec: LaunchSpec) -> Optional[WorkFolder]:
        """The folder of a started allocation's files; None when that cannot be told."""

    def disks(self) -> Tuple[str, ...]:
        """Folders on the disks that jobs fill, the agent's own first."""

    def holdings(self, allocation_id: int) -> Holdings:
        """The places in which an allocation, live or over, can fill disks."""

    def remove(self, allocation_id: int) -> None:
        """Forget an allocation that has exited. Quick: what was in its folder goes with `clear`."""

    def clear(self) -> None:
        """Remove what was in the folders of allocations that were removed, also by earlier runs; may take long.

        Files that cannot be removed stay, and are logged; the next call goes on with a removal that takes too long.
        Calls come one at a time.
        """

    def renew(self, sent_at: float, stop_after_s: float) -> None:
        """Allow all jobs to live until `stop_after_s` after `sent_at` (CLOCK_BOOTTIME), also without the agent."""

    def close(self) -> None:
        """Let go of everything; jobs go on."""
