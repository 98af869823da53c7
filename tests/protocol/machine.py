"""A simulated GPU server: its clocks, its processes with their shims, and the runtime by which an agent sees them.

The shim's rules are those of `nodeagent/runtime/shim/supervisor.py`, with its own `Deadlines`; what is on disk outlives
the agent, and what runs outlives it too. The ledger knows what was alive when, by the true clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodeagent.protocol.messages import EndReason, GpuInfo, LaunchSpec, MetricPoint, OnDisconnect
from nodeagent.runtime.port import (
    EventKind,
    ExitStatus,
    Holdings,
    LaunchError,
    Observation,
    Phase,
    StopCause,
    Usage,
    Watched,
)
from nodeagent.runtime.shim.deadlines import Cause, Deadlines
from tests.protocol.kernel import Kernel

FORK_S, BEGIN_S, DIE_S = 0.05, 0.1, 0.2
_LINE = b"a line\n"


@dataclass
class Processes:
    """The processes of one allocation, alive until `ended`."""

    machine: str
    spec: LaunchSpec
    began: float
    ended: float | None = None
    by_itself: bool = False
    code: int | None = None


@dataclass
class Ledger:
    """All processes that ever were, and what must not have been."""

    kernel: Kernel
    rows: list[Processes] = field(default_factory=list)
    wrongs: list[str] = field(default_factory=list)
    may_be_two: Callable[[Processes, Processes], bool] = lambda one, other: False

    def alive(self) -> list[Processes]:
        return [row for row in self.rows if row.ended is None]

    def begin(self, machine: str, spec: LaunchSpec) -> Processes:
        """Note a start, and what it must not have met."""
        new = Processes(machine, spec, self.kernel.now)
        if any(not self.may_be_two(old, new) for old in self.of(spec.allocation_id)):
            # Also one after the other: what the first has done is done again.
            self.wrongs.append(f"allocation {spec.allocation_id} was started twice")
        for old in self.alive():
            if self.may_be_two(old, new):
                continue
            if old.spec.job_id == spec.job_id and old.spec.attempt != spec.attempt:
                self.wrongs.append(f"attempts {old.spec.attempt} and {spec.attempt} of job {spec.job_id} live")
            elif old.machine == machine and set(old.spec.gpu_uuids) & set(spec.gpu_uuids):
                self.wrongs.append(f"jobs {old.spec.job_id} and {spec.job_id} live on one GPU of {machine}")
        self.rows.append(new)
        return new

    def of(self, allocation_id: int) -> list[Processes]:
        return [row for row in self.rows if row.spec.allocation_id == allocation_id]


@dataclass
class Folder:
    """The disk's record of an allocation, and its shim if one lives."""

    spec: LaunchSpec
    launched: bool = False
    marked: bool = False
    status: ExitStatus | None = None
    stop: tuple[str, float] | None = None
    deadlines: Deadlines | None = None
    processes: Processes | None = None
    dying: bool = False
    taken_away: bool = False
    """True if its state folder is gone; its shim lives on."""
    size: int = 0

    @property
    def watched(self) -> bool:
        return self.deadlines is not None


class Machine:
    """One server. It passes for a `Runtime`, a driver of GPUs, and an identity of an agent."""

    def __init__(
        self, kernel: Kernel, ledger: Ledger, hostname: str, *, credential: str, rate: float, label: str = ""
    ) -> None:
        self.kernel = kernel
        self.ledger = ledger
        self.hostname = hostname
        self.label = label or hostname
        self.credential = credential
        self.enrolled = True
        self.rate = rate
        self.boots = 0
        self.booted_at = 0.0
        self.states = 0
        self.folders: dict[int, Folder] = {}
        self.taken_away: list[Folder] = []
        self.lease: tuple[float, float] | None = None
        self.stubborn: set[int] = set()
        """Jobs whose processes do not end when they are asked to."""
        self.listener: Callable[[int, EventKind], None] | None = None
        self.fork_s, self.settle_s = FORK_S, FORK_S
        """After how long the shim of a launch comes, and how long after its call `settle` looks for one."""
        self.signals = 0
        """The number of wishes to stop that agents left."""

    # The machine

    def boottime(self) -> float:
        return (self.kernel.now - self.booted_at) * self.rate + 10.0

    def boot_id(self) -> str:
        return f"{self.label}-boot-{self.boots}"

    def reboot(self, *, disk_keeps_marks: bool) -> None:
        """Every process is gone at once; what was not synced to disk may be, too."""
        self.boots += 1
        self.booted_at = self.kernel.now
        for number, folder in list(self.folders.items()):
            self._gone(folder, by_itself=False, code=None)
            folder.deadlines = None
            if folder.status is None and not disk_keeps_marks:
                del self.folders[number]
            elif folder.status is None and folder.launched and not folder.marked:
                folder.launched = False
        for folder in self.taken_away:
            self._gone(folder, by_itself=False, code=None)
        self.taken_away = []

    @property
    def name(self) -> str:
        """The name of the state folder."""
        return f"{self.hostname}-state-{self.states}"

    def lose_state(self) -> None:
        """The state folder is taken away, and what runs goes on; the next agent makes another in its place."""
        self.states += 1
        for folder in self.folders.values():
            folder.taken_away = True
        self.taken_away += self.folders.values()
        self.folders, self.lease = {}, None

    def lose_shim(self, allocation_id: int) -> None:
        """The shim and all that it watched are killed, and leave no status."""
        folder = self.folders[allocation_id]
        self._gone(folder, by_itself=False, code=None)
        folder.deadlines = None

    def finish(self, allocation_id: int, code: int) -> None:
        """The job ends by itself."""
        self._over(self.folders[allocation_id], code=code, signal=None, by_itself=True)

    def live(self) -> list[int]:
        """The allocations whose processes are alive."""
        return sorted(number for number, one in self.folders.items() if one.processes is not None)

    def taken(self) -> list[LaunchSpec]:
        """Allocations in state folders that were taken away since the boot: their state is unknown to any agent."""
        return [one.spec for one in self.taken_away]

    def gpu_infos(self) -> tuple[GpuInfo, ...]:
        return tuple(
            GpuInfo(index, f"GPU-{self.hostname}-{index}", "NVIDIA A100-SXM4-80GB", 81_920) for index in range(2)
        )

    # The runtime, as the agent sees it

    single_user = False

    def offers(self) -> tuple[str, ...]:
        return ("process",)

    def change(self) -> str:
        return ""

    def labels(self) -> Mapping[str, str]:
        return {}

    def mount_roots(self) -> tuple[str, ...]:
        return ()

    def prepare(self, spec: LaunchSpec) -> str:
        self.kernel.wait(FORK_S)
        if spec.allocation_id in self.folders and self.observe(spec.allocation_id).phase is not Phase.ABSENT:
            raise LaunchError(EndReason.LAUNCH_FAILED, "the allocation was started before")
        self.folders[spec.allocation_id] = Folder(spec)
        return "/"

    def lacks(self, spec: LaunchSpec) -> str:
        return ""

    def fetch(self, spec: LaunchSpec, tell: Callable[[str], None], wanted: Callable[[], bool]) -> None:
        raise AssertionError("nothing is ever lacking")

    def launch(self, spec: LaunchSpec) -> None:
        folder = self.folders[spec.allocation_id]
        folder.launched = True
        self._later(self.fork_s, lambda: self._shim(folder))
        self.kernel.wait(FORK_S / 2)

    def observe(self, allocation_id: int) -> Observation:
        folder = self.folders.get(allocation_id)
        if folder is None:
            return Observation(Phase.ABSENT)
        if folder.status is not None:
            return Observation(Phase.EXITED, folder.status)
        if folder.watched:
            return Observation(Phase.RUNNING if folder.processes is not None else Phase.STARTING)
        return Observation(Phase.GONE if folder.marked else Phase.ABSENT)

    def allocations(self) -> tuple[int, ...]:
        return tuple(sorted(self.folders))

    def spec(self, allocation_id: int) -> LaunchSpec | None:
        folder = self.folders[allocation_id]
        return folder.spec if folder.launched else None

    def adopt(self, allocation_id: int) -> tuple[str, float] | None:
        folder = self.folders.get(allocation_id)
        return None if folder is None else folder.stop

    def stop(self, allocation_id: int, signal: str, grace_s: float, cause: StopCause | None = None) -> None:
        folder = self.folders.get(allocation_id)
        if folder is None:
            return
        self.signals += 1
        folder.stop = (signal, grace_s)
        if folder.deadlines is not None and folder.processes is not None:
            folder.deadlines.ask(self.boottime(), signal, grace_s)
            self._look(folder)

    def limit(self, allocation_id: int, time_left_s: float) -> None:
        folder = self.folders.get(allocation_id)
        if folder is not None and folder.deadlines is not None and folder.processes is not None:
            folder.deadlines.set_limit(self.boottime(), time_left_s)
            self._look(folder)

    def settle(self, allocation_id: int, fallback: ExitStatus) -> ExitStatus:
        self.kernel.wait(self.settle_s)
        folder = self.folders.get(allocation_id)
        if folder is None:
            return fallback
        if folder.status is not None:
            return folder.status
        if folder.watched:
            raise Watched(f"allocation {allocation_id} is watched by a shim")
        folder.status = replace(fallback, log_size=folder.size)
        return folder.status

    def usage(self) -> Mapping[int, Usage]:
        return {}

    def reported(self, allocation_id: int) -> tuple[MetricPoint, ...]:
        return ()

    def log(self, allocation_id: int) -> Spool:
        return Spool(self, allocation_id)

    def disks(self) -> tuple[str, ...]:
        return ()

    def give_up_fetches(self, device: int, why: str) -> bool:
        return False

    def holdings(self, allocation_id: int) -> Holdings:
        return Holdings()

    def remove(self, allocation_id: int) -> None:
        folder = self.folders.pop(allocation_id, None)
        if folder is not None and folder.processes is not None:
            self.ledger.wrongs.append(f"allocation {allocation_id} was forgotten while it ran")

    def clear(self) -> None:
        """A folder here is gone at once."""

    def renew(self, sent_at: float, stop_after_s: float) -> None:
        self.lease = (sent_at, stop_after_s)

    def close(self) -> None:
        """Jobs go on."""

    # The identity and the GPUs of an agent

    def enrol(self, node_id: int, node_name: str, cluster_id: str) -> None:
        self.enrolled = True

    def busy(self, uuids: Sequence[str]) -> bool:
        everything = [*self.folders.values(), *self.taken_away]
        used = {uuid for one in everything if one.processes is not None for uuid in one.processes.spec.gpu_uuids}
        return not used.isdisjoint(uuids)

    # The shim

    def _shim(self, folder: Folder) -> None:
        if folder.status is not None or self.folders.get(folder.spec.allocation_id) is not folder:
            return  # also where its folder was taken away: a shim that comes finds no launch there
        folder.marked = True
        spec = folder.spec
        folder.deadlines = Deadlines(spec.stop_signal, spec.grace_s)
        if folder.stop is not None:
            self._leave(folder, ExitStatus(EndReason.NEVER_STARTED, detail="stopped before", started=False))
            return
        self._later(BEGIN_S, lambda: self._begin(folder))

    def _begin(self, folder: Folder) -> None:
        if folder.deadlines is None:
            return
        spec, now = folder.spec, self.boottime()
        folder.processes = self.ledger.begin(self.label, spec)
        folder.size = len(_LINE)
        if spec.time_limit_s is not None:
            folder.deadlines.set_limit(now, spec.time_limit_s)
        folder.deadlines.lease_until = self._lease_end(folder, self.boottime() + spec.stop_after_s)
        if folder.stop is not None:
            folder.deadlines.ask(now, *folder.stop)
        self._tell(folder, EventKind.RUNNING)
        self._look(folder)

    def _look(self, folder: Folder) -> None:
        """Do what is due, and come again when more is."""
        deadlines = folder.deadlines
        if deadlines is None or folder.processes is None:
            return
        now = self.boottime()
        if now >= deadlines.lease_until:
            deadlines.lease_until = self._lease_end(folder, deadlines.lease_until)
        due = deadlines.due(now)
        if due is not None and due.kill:
            self._over(folder, code=None, signal=9, by_itself=False)
            return
        if due is not None and folder.spec.job_id not in self.stubborn and not folder.dying:
            folder.dying = True
            self._later(DIE_S, lambda: self._over(folder, code=None, signal=15, by_itself=False))
        following = deadlines.next_at()
        if following < math.inf:
            self._later(max(0.0, following - now) / self.rate + 1e-6, lambda: self._look(folder))

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        """Let something happen unless the machine boots again before."""
        boots = self.boots

        def unless_booted() -> None:
            if self.boots == boots:
                act()

        self.kernel.at(self.kernel.now + seconds, unless_booted)

    def _lease_end(self, folder: Folder, known: float) -> float:
        if folder.spec.on_disconnect is OnDisconnect.KEEP:
            return math.inf
        if self.lease is None or folder.taken_away:
            return known
        return self.lease[0] + max(folder.spec.stop_after_s, self.lease[1])

    def _over(self, folder: Folder, *, code: int | None, signal: int | None, by_itself: bool) -> None:
        if folder.processes is None or folder.deadlines is None:
            return
        cause = folder.deadlines.cause
        if cause is Cause.TIME_LIMIT:
            reason = EndReason.TIME_LIMIT
        elif cause is Cause.LEASE:
            reason = EndReason.AGENT_STOPPED
        elif signal is not None:
            reason = EndReason.KILLED_BY_SIGNAL
        else:
            reason = EndReason.EXIT_NONZERO if code else EndReason.COMPLETED
        self._gone(folder, by_itself=by_itself, code=code if signal is None else 128 + signal)
        self._leave(folder, ExitStatus(reason, exit_code=code, signal=signal, log_size=folder.size))

    def _leave(self, folder: Folder, status: ExitStatus) -> None:
        folder.status, folder.deadlines = status, None
        self._tell(folder, EventKind.EXITED)

    def _gone(self, folder: Folder, *, by_itself: bool, code: int | None) -> None:
        if folder.processes is not None:
            folder.processes.ended = self.kernel.now
            folder.processes.by_itself = by_itself
            folder.processes.code = code
            folder.processes = None

    def _tell(self, folder: Folder, kind: EventKind) -> None:
        if self.listener is not None:
            self.listener(folder.spec.allocation_id, kind)


@dataclass
class Spool:
    """The output of an allocation: one line, as soon as it runs."""

    machine: Machine
    allocation_id: int

    def end(self) -> int:
        folder = self.machine.folders.get(self.allocation_id)
        return 0 if folder is None else folder.size

    def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        return offset, _LINE[: self.end()][offset : offset + limit]

    def close(self) -> None:
        """Nothing is open."""
