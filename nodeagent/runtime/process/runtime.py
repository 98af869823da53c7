"""The runtime that needs no container engine: jobs are processes of this machine."""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import replace
from typing import Any, Collection, Dict, Mapping, Optional, Sequence, Tuple

from nodeagent.protocol.messages import EndReason, LaunchSpec
from nodeagent.runtime.port import LaunchError, Listener, NotYet, Usage
from nodeagent.runtime.process import cgroup
from nodeagent.runtime.process.job import Command
from nodeagent.runtime.process.namespaces import Isolation
from nodeagent.runtime.process.probe import namespaces_problem, read_only_paths
from nodeagent.runtime.shim import tree
from nodeagent.runtime.shim.commands import python_of_jobs
from nodeagent.runtime.shim.folders import FolderRuntime, JobUser, owned_environment, parts_below_work
from nodeagent.runtime.shim.forker import Forker
from nodeagent.runtime.shim.gang import gang_environment
from nodeagent.runtime.shim.layout import AllocationFolder
from nodeagent.system import clock

JOBS = "nodeagent.runtime.process.isolated"
_log = logging.getLogger("nodeagent.process")

_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MARK = "MUSTER_ALLOCATION_DIR"
_SWEEP_WAIT_S = 2.0
_SWEEP_PAUSE_S, _MAX_SWEEP_PAUSE_S = 0.01, 0.5  # each look reads all of /proc


class ProcessRuntime(FolderRuntime):
    """Runs allocations as processes of this machine, without any container."""

    name = "process"

    def __init__(
        self,
        state: str,
        listener: Listener,
        job_user: Optional[JobUser] = None,
        spool_bytes: int = 64 << 20,
        forker: Optional[Forker] = None,
        *,
        pids: int = 4096,
        cgroup_root: str = "",
        hide: Sequence[str] = (),
        others: Collection[str] = (),
    ) -> None:
        """`cgroup_root` is the control group that is delegated to the agent; empty = jobs have no limits.

        `hide` are folders that jobs in namespaces of their own do not see, beside the agent's state folder.
        """
        super().__init__(
            state, listener, forker=forker or Forker(JOBS), job_user=job_user, spool_bytes=spool_bytes, others=others
        )
        self._pids = pids
        self._cgroup_root = cgroup_root
        self._hidden = hidden_folders(state, hide)
        self._shared_because = "" if self._is_root else namespaces_problem()
        if self._shared_because:
            _log.warning("jobs share the agent's account, without namespaces of their own: %s", self._shared_because)

    def labels(self) -> Mapping[str, str]:
        """Nothing here keeps a job from another job's GPUs."""
        # Jobs of an agent without root run as its own user, who may move processes out of their groups.
        limits = "enforced" if self._cgroup_root and self._is_root else "advisory"
        return {
            "isolation": "advisory",
            "limits": limits,
            "single-user-reason": self._shared_because,
            "containers": "its agent runs with --runtime process",
        }

    @property
    def single_user(self) -> bool:
        """True if all jobs run as the agent's own account, without namespaces of their own."""
        return bool(self._shared_because)

    def prepare(self, spec: LaunchSpec) -> str:
        """Make the folder; a job that needs an image cannot run here."""
        if spec.image:
            raise LaunchError(EndReason.SPEC_REFUSED, "image: this node runs jobs as processes, without images")
        if spec.mounts:
            raise LaunchError(EndReason.SPEC_REFUSED, "mounts: this node runs jobs as processes, and mounts nothing")
        if spec.shm_mib:
            raise LaunchError(
                EndReason.SPEC_REFUSED, "shm: this node runs jobs as processes, which share the machine's"
            )
        return super().prepare(spec)

    def _commands(self, folder: AllocationFolder) -> Tuple[str, str]:
        return folder.modules, python_of_jobs()

    def _job(
        self, spec: LaunchSpec, folder: AllocationFolder, uid: Optional[int], gids: Tuple[int, ...]
    ) -> Dict[str, Any]:
        shell = next((path for path in _SHELLS if os.path.exists(path)), "/bin/sh")
        cwd = os.path.join(folder.work, *parts_below_work(spec.workdir))
        environment = job_environment(spec, folder, cwd)
        command = Command(
            argv=(shell, "-c", spec.command),
            env=environment,
            cwd=cwd,
            uid=uid,
            gids=gids,
            cgroup=self._cgroup(folder),
            memory_mib=spec.memory_mib,
            pids=self._pids,
        )
        if not self._is_root and not self._shared_because:
            command = replace(command, isolation=self._isolation(folder))
        return command.to_dict()

    def _cgroup(self, folder: AllocationFolder) -> str:
        """The path of an allocation's control group, empty where no cgroups are delegated."""
        if not self._cgroup_root:
            return ""
        return os.path.join(self._cgroup_root, "job-" + os.path.basename(folder.root))

    def _isolation(self, folder: AllocationFolder) -> Isolation:
        return Isolation(
            hidden=self._hidden, read_only=read_only_paths(), own=(folder.work, folder.home, folder.tmp), tmp=folder.tmp
        )

    def _usage(self, head: tree.Process, members: Sequence[tree.Process], fraction: float) -> Usage:
        """The job's usage, without the init of its PID namespace."""
        job = [one for one in members if one.parent != head.pid or not tree.is_namespace_init(one.pid)]
        return super()._usage(head, job, fraction)

    def _sweep(self, folder: AllocationFolder) -> None:
        """Kill whatever carries the allocation's mark, until nothing does any more.

        A process that hangs in the kernel may end later, or never: `NotYet`.
        """
        mark = "{}={}".format(_MARK, folder.root).encode()
        until, pause_s = clock.boottime() + _SWEEP_WAIT_S, _SWEEP_PAUSE_S
        while True:
            left = tree.marked(mark, tree.all_processes().values())
            if not left:
                self._remove_cgroup(folder)
                return
            tree.signal_all(left, signal.SIGKILL)
            if clock.boottime() >= until:
                raise NotYet("processes {} cannot be killed".format(sorted(left)))
            time.sleep(pause_s)
            pause_s = min(_MAX_SWEEP_PAUSE_S, pause_s * 2)

    def _remove_cgroup(self, folder: AllocationFolder) -> None:
        """Kill the processes of the job's control group that have removed the mark, and remove the group.

        Raises:
            NotYet: a process is left in it.
        """
        group = self._cgroup(folder)
        if not group or not os.path.isdir(group):
            return
        try:
            cgroup.kill(group)
            cgroup.remove(group)
        except OSError as error:
            raise NotYet("its control group cannot be removed: {}".format(error.strerror)) from error


def hidden_folders(state: str, hide: Sequence[str]) -> Tuple[str, ...]:
    """The folders whose files and sockets give power over the agent, the platform or the account."""
    home = os.path.expanduser("~")
    named = (state, *hide, os.environ.get("MUSTER_HOME", ""), "/run/user/{}".format(os.geteuid()))
    return tuple(map(os.path.realpath, (*filter(None, named), os.path.join(home, ".ssh"))))


def job_environment(spec: LaunchSpec, folder: AllocationFolder, cwd: str) -> Dict[str, str]:
    """The whole environment of a job: nothing of the agent's but its PATH and language."""
    environment = {
        "PATH": os.environ.get("PATH", _DEFAULT_PATH),
        "HOME": folder.home,
        "TMPDIR": folder.tmp,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PYTHONUNBUFFERED": "1",  # lines of a Python job arrive when they are printed
        **gang_environment(spec),
    }
    environment.update(spec.env)
    own = {
        "MUSTER_WORKDIR": cwd,
        _MARK: folder.root,
        "MUSTER_PROGRESS": folder.progress,
        "MUSTER_METRICS": folder.metrics,
        "PYTHONPATH": ":".join(filter(None, (spec.env.get("PYTHONPATH"), folder.modules))),
    }
    environment.update({**own, **owned_environment(spec.gpu_uuids)})
    return environment
