"""The agent's side of shims: allocations as folders, requests to the zygote, and looks at what the shims left.

A runtime adds what its jobs are: the part of the task that is its own, and how the rest of a job is found whose shim
has died.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Collection, Dict, Iterator, Mapping, Optional, Sequence, Set, Tuple

from nodeagent import jobside
from nodeagent.protocol.archives import UnsafeArchive, safe_parts
from nodeagent.protocol.messages import EndReason, LaunchSpec, MetricPoint, ProtocolError, RegistryLogin
from nodeagent.protocol.unixids import gids_problem, uid_problem
from nodeagent.runtime.port import (
    ExitStatus,
    Holdings,
    LaunchError,
    Listener,
    Observation,
    Phase,
    RuntimeUnavailable,
    ShellRefused,
    ShellRequest,
    StopCause,
    Tell,
    Usage,
    Wanted,
    Watched,
    WorkFolder,
)
from nodeagent.runtime.shim import meters, tree
from nodeagent.runtime.shim.commands import Platform, commands_environment, write_commands
from nodeagent.runtime.shim.events import EventPipe
from nodeagent.runtime.shim.forker import Forker
from nodeagent.runtime.shim.layout import (
    AllocationFolder,
    Task,
    cause_of,
    read_exit,
    read_kept,
    stop_to_dict,
    to_dict,
)
from nodeagent.runtime.shim.leash import LeashedShell
from nodeagent.runtime.shim.progress import read_progress
from nodeagent.runtime.shim.removal import remove_tree
from nodeagent.runtime.shim.reported import ReportReader
from nodeagent.runtime.shim.spool import SpoolReader
from nodeagent.system import clock
from nodeagent.system.files import read_json, write_atomic, write_in_place, write_json

_log = logging.getLogger("nodeagent.runtime")

_GONE = ".gone"
_STARTING = Observation(Phase.STARTING)
_PASSABLE = 0o711
_NO_UID = (
    "uid: none, and no job runs as root. An operator gives {} a uid in the admin, "
    "or starts this node's agent with --job-user"
)
_BAD_ID = "{}. An operator gives {} another one in the admin"
_LEASE_BYTES, _CONTROL_BYTES = 128, 2048


Furnish = Callable[[Sequence[str], str], None]
"""Writes what a job on these GPUs needs of their driver into the folder of its modules."""


@dataclass(frozen=True)
class JobUser:
    """The user that jobs run as when their spec names none."""

    uid: int
    gids: Tuple[int, ...]


class FolderRuntime:
    """A runtime whose allocations each run under a shim, and are known by its files in their folders."""

    name = ""
    has_groups = False
    """True if each job has a control group of its own."""
    passes_terminals_on = False
    """True if the program that opens a shell puts a terminal of its own behind ours."""

    def __init__(
        self,
        state: str,
        listener: Listener,
        *,
        forker: Forker,
        job_user: Optional[JobUser] = None,
        spool_bytes: int = 64 << 20,
        others: Collection[str] = (),
        beside: Optional[FolderRuntime] = None,
    ) -> None:
        """Raises `RuntimeUnavailable` while a job of another runtime runs, unless that one is among the `others`.

        `beside` is a runtime of the same agent, which has the same folders.
        """
        self.furnish: Furnish = _give_nothing
        self.platform = Platform()
        self._forker = forker
        self._root = os.path.join(state, "allocations")
        self._lease = os.path.join(state, "lease.json")
        self._job_user = job_user
        self._spool_bytes = spool_bytes
        self._is_root = os.geteuid() == 0
        self._boot_id = clock.boot_id()
        self._controls: Dict[int, Dict[str, Any]] = {}
        self._cpu: Dict[int, Tuple[float, float]] = {}
        self._reports = ReportReader()
        self._tried: Set[str] = set()
        self._late: Set[str] = set()
        # Jobs of other users pass through these folders to their own; they can list neither.
        for folder in (state, self._root):
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, _PASSABLE)
        self._beside = beside
        if beside is None:
            self._refuse_others_jobs(others)
            self._events = EventPipe(os.path.join(state, "events"), listener)
        else:
            self._events = beside._events
        self._forker.begin()

    def prepare(self, spec: LaunchSpec) -> str:
        """Make the allocation's folder and return the one for its code; what a crash left of it is removed."""
        self._user(spec)  # before anything is fetched for a job that this node refuses
        folder = self._folder(spec.allocation_id)
        try:
            if os.path.exists(folder.root):
                if self.observe(spec.allocation_id).phase is not Phase.ABSENT:
                    raise LaunchError(EndReason.LAUNCH_FAILED, "the allocation was started before")
                remove_tree(folder.root)
            os.mkdir(folder.root)
            os.chmod(folder.root, _PASSABLE)
            for own in (folder.log, folder.work, folder.home, folder.tmp):
                os.mkdir(own, 0o700)
            jobside.unpack(folder.modules)
            write_commands(spec, folder.modules, self.platform)
            self.furnish(spec.gpu_uuids, folder.modules)
            os.mkfifo(folder.wake, 0o600)
            write_in_place(folder.control, {}, _CONTROL_BYTES)
        except OSError as error:
            raise LaunchError(EndReason.LAUNCH_FAILED, "cannot make its folder: {}".format(error.strerror)) from error
        return folder.work

    def offers(self) -> Tuple[str, ...]:
        """Itself."""
        return (self.name,)

    def change(self) -> str:
        """Nothing, unless a runtime says otherwise."""
        return ""

    def labels(self) -> Mapping[str, str]:
        """Labels of this runtime that the node must report."""
        raise NotImplementedError

    @property
    def single_user(self) -> bool:
        """True if all jobs run as the agent's own account; each has its member's, unless a runtime says otherwise."""
        return False

    def mount_roots(self) -> Tuple[str, ...]:
        """None, unless a runtime says otherwise."""
        return ()

    def lacks(self, spec: LaunchSpec) -> str:
        """Nothing, unless a runtime says otherwise."""
        return ""

    def fetch(self, spec: LaunchSpec, login: Optional[RegistryLogin], tell: Tell, wanted: Wanted) -> None:
        """Nothing is ever lacking."""

    def give_up_fetches(self, device: int, why: str) -> bool:
        """Nothing is ever fetched."""
        return False

    def launch(self, spec: LaunchSpec) -> None:
        """Hand a prepared allocation to a new shim."""
        folder = self._folder(spec.allocation_id)
        try:
            self._make_working_folder(folder, spec.workdir)
            uid, gids = self._user(spec)
            if uid is not None:
                for own in (folder.work, folder.home, folder.tmp):
                    _give(own, uid, gids[0])
            commands = commands_environment(spec, *self._commands(folder), self.platform)
            # No secret is written to disk, even if a caller left one in.
            spec = replace(spec, registry_login=None, env={**spec.env, **commands})
            task = self._task(spec, self._job(spec, folder, uid, gids))
            write_json(folder.launch, {"runtime": self.name, "spec": spec.to_dict(), "task": task.to_dict()})
            self._forker.fork_shim(folder.root)
        except OSError as error:
            raise LaunchError(EndReason.LAUNCH_FAILED, "cannot start: {}".format(error.strerror or error)) from error

    def _commands(self, folder: AllocationFolder) -> Tuple[str, str]:
        """The folder of the job's modules and the Python for its programs, as the job sees them."""
        raise NotImplementedError

    def _job(
        self, spec: LaunchSpec, folder: AllocationFolder, uid: Optional[int], gids: Tuple[int, ...]
    ) -> Dict[str, Any]:
        """The part of the task that is the runtime's own, in plain JSON types."""
        raise NotImplementedError

    def _sweep(self, folder: AllocationFolder) -> None:
        """Kill what a dead shim left behind; on return no process of the allocation is left, else `NotYet`."""
        raise NotImplementedError

    def observe(self, allocation_id: int) -> Observation:
        folder = self._folder(allocation_id)
        status = read_exit(folder.exit)
        if status is None:
            marker = read_json(folder.shim)
            started = marker is not None and marker.get("root") is not None
            try:
                with self._lock(folder) as taken:
                    if not taken:
                        return Observation(Phase.RUNNING, kept=read_kept(folder.kept)) if started else _STARTING
                    # While the lock is ours: a shim that comes now leaves its mark later, and is not taken for a dead
                    # one.
                    status = read_exit(folder.exit)
                    if status is None:
                        return Observation(Phase.GONE if os.path.exists(folder.shim) else Phase.ABSENT)
            except FileNotFoundError:
                return Observation(Phase.ABSENT)  # there is no folder (yet)
        return Observation(Phase.EXITED, status)

    def allocations(self) -> Tuple[int, ...]:
        return tuple(sorted(int(name) for name in os.listdir(self._root) if name.isdigit()))

    def spec(self, allocation_id: int) -> Optional[LaunchSpec]:
        """The spec in launch.json."""
        launch = read_json(self._folder(allocation_id).launch)
        try:
            return None if launch is None else LaunchSpec.from_dict(launch.get("spec"))
        except ProtocolError as error:
            _log.warning("allocation %d: its launch.json cannot be read: %s", allocation_id, error)
            return None

    def adopt(self, allocation_id: int) -> Optional[Tuple[str, float]]:
        """Continue from the newest wish that the earlier agent left for the shim."""
        control = read_json(self._folder(allocation_id).control) or {}
        self._controls[allocation_id] = control
        self._reports.skip(allocation_id, self._folder(allocation_id).home)
        stop = control.get("stop")
        return (str(stop["signal"]), float(stop["grace_s"])) if stop else None

    def stop(self, allocation_id: int, signal: str, grace_s: float, cause: Optional[StopCause] = None) -> None:
        """Leave the wish for the shim and wake it."""
        before = self._controls.get(allocation_id, {}).get("stop")
        first = cause_of(before) if before else cause
        self._wish(allocation_id, "stop", stop_to_dict(clock.boottime(), signal, grace_s, first))

    def limit(self, allocation_id: int, time_left_s: float) -> None:
        """Leave the new limit for the shim and wake it."""
        self._wish(allocation_id, "limit_at", clock.boottime() + time_left_s)

    def settle(self, allocation_id: int, fallback: ExitStatus) -> ExitStatus:
        """Make an allocation without a shim EXITED; holding its lock keeps a late shim from starting it."""
        folder = self._folder(allocation_id)
        os.makedirs(folder.log, exist_ok=True)
        with self._lock(folder) as taken:
            if not taken:
                raise Watched("allocation {} is watched by a shim".format(allocation_id))
            known = read_exit(folder.exit)
            if known is not None:
                return known
            self._sweep(folder)
            detail = " ".join(filter(None, (fallback.detail, _last_line(folder.shim_err))))
            log_size = SpoolReader(folder.log).end()
            status = replace(fallback, detail=detail, ended_at=fallback.ended_at or time.time(), log_size=log_size)
            write_atomic(folder.exit, json.dumps(to_dict(status)).encode(), sync=True)
            return status

    def usage(self) -> Mapping[int, Usage]:
        """Usage by the descendants of each live job's head; processor time since the last call."""
        return self.usage_of(self.allocations(), tree.all_processes())

    def usage_of(self, ids: Collection[int], processes: Dict[int, tree.Process]) -> Mapping[int, Usage]:
        """As `usage`, of these allocations, by what was seen of the machine's processes."""
        now = clock.boottime()
        found: Dict[int, Usage] = {}
        cpu: Dict[int, Tuple[float, float]] = {}
        for allocation_id in ids:
            marker = read_json(self._folder(allocation_id).shim)
            root = marker.get("root") if marker else None
            head = processes.get(root[0]) if root else None
            if root is None or head is None or head.started_ticks != root[1]:
                continue
            members = tree.descendants(processes, head.pid)
            total_s = head.cpu_s + sum(process.cpu_s for process in members)
            before_at, before_s = self._cpu.get(allocation_id, (now, total_s))
            cpu[allocation_id] = (now, total_s)
            fraction = max(0.0, total_s - before_s) / (now - before_at) if now > before_at else 0.0
            progress = read_progress(self._folder(allocation_id).home)
            found[allocation_id] = replace(self._usage(head, members, fraction), progress=progress)
        self._cpu = cpu
        return found

    def _usage(self, head: tree.Process, members: Sequence[tree.Process], fraction: float) -> Usage:
        io = meters.io_of([head.pid, *(process.pid for process in members)])
        received, sent = meters.network_of(head.pid) or (None, None)
        return Usage(
            processes=len(members),
            cpu_fraction=fraction,
            rss_mib=sum(process.rss_mib for process in members),
            page_cache_mib=meters.page_cache_mib_of(head.pid) if self.has_groups else None,
            disk_read_bytes=io.read_bytes if io else None,
            disk_write_bytes=io.write_bytes if io else None,
            net_receive_bytes=received,
            net_transmit_bytes=sent,
        )

    def reported(self, allocation_id: int) -> Tuple[MetricPoint, ...]:
        """The new points in the job's own file."""
        return self._reports.read(allocation_id, self._folder(allocation_id).home)

    def log(self, allocation_id: int) -> SpoolReader:
        """A new reader of the allocation's spool."""
        return SpoolReader(self._folder(allocation_id).log)

    def shell(self, allocation_id: int, request: ShellRequest) -> LeashedShell:
        """Ask the allocation's shim for a shell."""
        try:
            return LeashedShell(self._folder(allocation_id).shells, request, raw=self.passes_terminals_on)
        except OSError as error:
            raise ShellRefused("the job has ended, or this node is out of resources: {}".format(error)) from error

    def work(self, spec: LaunchSpec) -> Optional[WorkFolder]:
        """The folder `work`, which is the job's, and the one below it where the command started."""
        try:
            below = parts_below_work(spec.workdir)
            uid, _ = self._user(spec)
        except LaunchError:
            return None  # it was never launched
        return WorkFolder(self._folder(spec.allocation_id).work, below, os.geteuid() if uid is None else uid)

    def disks(self) -> Tuple[str, ...]:
        """The one of the allocations' folders."""
        return (self._root,)

    def holdings(self, allocation_id: int) -> Holdings:
        """The folders of the allocation, or what is left of them, and the descendants of its head."""
        folder = self._folder(allocation_id)
        folders = (
            ("work", folder.work),
            ("home", folder.home),
            ("tmp", folder.tmp),
            ("log", folder.log),
            ("what is removed", folder.root + _GONE),
        )
        head = self._head(folder)
        return Holdings(
            folders=tuple((name, path) for name, path in folders if os.path.lexists(path)),
            pids=() if head is None else (head, *(one.pid for one in tree.descendants(tree.all_processes(), head))),
        )

    def _head(self, folder: AllocationFolder) -> Optional[int]:
        """The process that the job descends from, if it is there."""
        root = (read_json(folder.shim) or {}).get("root")
        return int(root[0]) if root and tree.identity(int(root[0])) == tuple(root) else None

    def remove(self, allocation_id: int) -> None:
        """Put the allocation's folder aside: at once it is none any more, however long the rest takes."""
        self._controls.pop(allocation_id, None)
        self._reports.forget(allocation_id)
        folder = self._folder(allocation_id).root
        try:
            os.rename(folder, folder + _GONE)
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("allocation %d: its folder cannot be removed: %s", allocation_id, error)

    def clear(self) -> None:
        """Remove the folders that were put aside; each once, so that a folder which cannot be removed waits for the
        next run.

        The next call goes on with a removal that takes too long, after all others.
        """
        for name in sorted(os.listdir(self._root), key=self._late.__contains__):
            if not name.endswith(_GONE) or name in self._tried:
                continue
            self._tried.add(name)
            try:
                remove_tree(os.path.join(self._root, name))
            except TimeoutError as error:
                _log.warning("the folder %s is not removed yet: %s", name, error)
                self._tried.discard(name)
                self._late.add(name)
            except OSError as error:
                _log.warning("the folder %s cannot be removed: %s", name, error)
                self._late.discard(name)
            else:
                self._tried.discard(name)
                self._late.discard(name)

    def renew(self, sent_at: float, stop_after_s: float) -> None:
        """Rewrite the lease; shims read it when they think that it has run out. A full disk does not matter."""
        write_in_place(self._lease, {"sent_at": sent_at, "stop_after_s": stop_after_s}, _LEASE_BYTES)

    def close(self) -> None:
        """End the zygote and the event thread; shims and their jobs go on."""
        self._forker.close()
        if self._beside is None:
            self._events.close()

    def runtime_of(self, allocation_id: int) -> str:
        """The name of the runtime that an allocation was launched in; empty before that."""
        launch = read_json(self._folder(allocation_id).launch) or {}
        return str(launch.get("runtime", ""))

    def runtimes_in_use(self) -> Mapping[str, int]:
        """The runtimes that have unfinished jobs here, each with one such allocation."""
        unfinished = [one for one in self.allocations() if self.observe(one).phase not in (Phase.ABSENT, Phase.EXITED)]
        return {name: one for one in unfinished if (name := self.runtime_of(one))}

    def _refuse_others_jobs(self, others: Collection[str]) -> None:
        """Only the runtime that started a job can clean up after it, should its shim die."""
        for name, allocation_id in self.runtimes_in_use().items():
            if name not in (self.name, *others):
                detail = "allocation {} still runs by the runtime {}: drain the node before its runtime is changed"
                raise RuntimeUnavailable(detail.format(allocation_id, name))

    def _folder(self, allocation_id: int) -> AllocationFolder:
        return AllocationFolder(os.path.join(self._root, str(allocation_id)))

    @contextlib.contextmanager
    def _lock(self, folder: AllocationFolder) -> Iterator[bool]:
        """Hold the folder's lock for the block; yield False if it was taken. FileNotFoundError without a folder."""
        descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = True
        except BlockingIOError:
            taken = False
        try:
            yield taken
        finally:
            os.close(descriptor)

    def _wish(self, allocation_id: int, name: str, value: object) -> None:
        folder = self._folder(allocation_id)
        control = self._controls.setdefault(allocation_id, {})
        control[name] = value
        try:
            write_in_place(folder.control, control, _CONTROL_BYTES)
            descriptor = os.open(folder.wake, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):  # no shim (yet): it reads the wish when it starts, if ever
                return
            raise
        # Full of wake-ups already, or the shim has ended since it was opened.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(descriptor, b"!")
        os.close(descriptor)

    def _user(self, spec: LaunchSpec) -> Tuple[Optional[int], Tuple[int, ...]]:
        """The job's uid and gids, never root's; uid None = the agent's own, as an agent without root has no other.

        Raises:
            LaunchError: SPEC_REFUSED, for an id that is missing, or that no job may have on this machine.
        """
        if not self._is_root:
            return None, ()
        if spec.uid is None:
            if self._job_user is None:
                raise LaunchError(EndReason.SPEC_REFUSED, _NO_UID.format(spec.owner))
            return self._job_user.uid, self._job_user.gids
        gids = spec.gids or (spec.uid,)
        problem = uid_problem(spec.uid) or gids_problem(gids)
        if problem:
            raise LaunchError(EndReason.SPEC_REFUSED, _BAD_ID.format(problem, spec.owner))
        return spec.uid, gids

    def _make_working_folder(self, folder: AllocationFolder, workdir: str) -> None:
        os.makedirs(os.path.join(folder.work, *parts_below_work(workdir)), exist_ok=True)

    def _task(self, spec: LaunchSpec, job: Dict[str, Any]) -> Task:
        return Task(
            allocation_id=spec.allocation_id,
            command=spec.command,
            job=job,
            stop_signal=spec.stop_signal,
            grace_s=spec.grace_s,
            time_limit_s=spec.time_limit_s,
            stop_after_s=spec.stop_after_s,
            on_disconnect=spec.on_disconnect.value,
            spool_bytes=self._spool_bytes,
            lease_path=self._lease,
            events_path=self._events.path,
            boot_id=self._boot_id,
            keep_failed_s=spec.keep_failed_s,
        )


def parts_below_work(workdir: str) -> Tuple[str, ...]:
    """The folder below `work` in which the command starts: an absolute `workdir` is the name of that folder itself."""
    try:
        return () if workdir.startswith("/") else safe_parts(workdir)
    except UnsafeArchive as error:
        raise LaunchError(EndReason.SPEC_REFUSED, "workdir {}".format(error)) from error


def owned_environment(gpu_uuids: Sequence[str]) -> Dict[str, str]:
    """The variables by which GPUs are found; whatever a spec or an image says of them is overwritten."""
    gpus = ",".join(gpu_uuids)
    return {"CUDA_VISIBLE_DEVICES": gpus, "NVIDIA_VISIBLE_DEVICES": gpus or "void"}


def _give_nothing(_uuids: Sequence[str], _folder: str) -> None:
    """Stands for a driver when jobs need nothing of one."""


def _give(folder: str, uid: int, gid: int) -> None:
    """Make a user the owner of a folder and all in it; the folder itself last, which keeps the user out until then.

    Other processes of that user may run: inside folders that the user owns they could swap a folder for a link.
    """
    for parent, folders, names in os.walk(folder, topdown=False):
        for name in folders + names:
            os.chown(os.path.join(parent, name), uid, gid, follow_symlinks=False)
    os.chown(folder, uid, gid, follow_symlinks=False)


def _last_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read()[-4000:].strip().splitlines()
    except FileNotFoundError:
        return ""
    return "(shim: {})".format(lines[-1][:300]) if lines else ""
