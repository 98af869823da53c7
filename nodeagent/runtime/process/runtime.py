"""The runtime that needs no container engine: jobs are processes of this machine."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, Mapping, Optional, Tuple

from nodeagent import clock
from nodeagent.protocol import EndReason, LaunchSpec
from nodeagent.runtime.port import LaunchError, Listener, NotYet
from nodeagent.runtime.process.job import Command
from nodeagent.runtime.shim import tree
from nodeagent.runtime.shim.folders import FolderRuntime, JobUser, owned_environment, parts_below_work
from nodeagent.runtime.shim.forker import Forker
from nodeagent.runtime.shim.gang import gang_environment
from nodeagent.runtime.shim.layout import AllocationFolder

JOBS = "nodeagent.runtime.process.job"
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MARK = "MUSTER_ALLOCATION_DIR"
_SWEEP_WAIT_S = 2.0
_SWEEP_PAUSE_S, _LONGEST_SWEEP_PAUSE_S = 0.01, 0.5  # each look reads all of /proc


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
    ) -> None:
        super().__init__(state, listener, forker=forker or Forker(JOBS), job_user=job_user, spool_bytes=spool_bytes)

    def labels(self) -> Mapping[str, str]:
        """Nothing here keeps a job from another job's GPUs."""
        return {"isolation": "advisory"}

    @property
    def single_user(self) -> bool:
        """Whether all jobs run as the agent's own account."""
        return not self._is_root

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

    def _job(
        self, spec: LaunchSpec, folder: AllocationFolder, uid: Optional[int], gids: Tuple[int, ...]
    ) -> Dict[str, Any]:
        shell = next((path for path in _SHELLS if os.path.exists(path)), "/bin/sh")
        cwd = os.path.join(folder.work, *parts_below_work(spec.workdir))
        environment = job_environment(spec, folder, cwd)
        return Command(argv=(shell, "-c", spec.command), env=environment, cwd=cwd, uid=uid, gids=gids).to_dict()

    def _sweep(self, folder: AllocationFolder) -> None:
        """Kill whatever carries the allocation's mark, until nothing does any more.

        A process that hangs in the kernel may end later, or never: `NotYet`.
        """
        mark = "{}={}".format(_MARK, folder.root).encode()
        until, pause_s = clock.boottime() + _SWEEP_WAIT_S, _SWEEP_PAUSE_S
        while True:
            left = tree.marked(mark, tree.all_processes().values())
            if not left:
                return
            tree.signal_all(left, signal.SIGKILL)
            if clock.boottime() >= until:
                raise NotYet("processes {} cannot be killed".format(sorted(left)))
            time.sleep(pause_s)
            pause_s = min(_LONGEST_SWEEP_PAUSE_S, pause_s * 2)


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
