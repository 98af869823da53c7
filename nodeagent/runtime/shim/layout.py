"""The folder of one allocation: which file in it means what, and who writes it.

    launch.json   agent   what to start and how
    lock          shim    held (flock) for as long as the shim lives
    shim.json     shim    a start was possible: number and start of the shim and of the process that heads the job
    control.json  agent   stop and time limit, the newest wish only
    wake          agent   a FIFO; one byte makes the shim read control.json again
    log/          shim    the spool of the job's output
    kept          shim    how the command failed, and until when what it ran in is kept
    exit          shim    how it ended; with this file there, no process of the job is left
    shim.err      shim    what the shim says when it breaks
    out           agent   a FIFO: the output of a container
    status        agent   a FIFO: by it a container tells how its command failed, if it was killed or is kept
    shells        shim    a socket: the agent asks for shells by it, while the job runs (see shells.py)
    work, home, tmp       the job's own; in its home it may say how far it is (see progress.py) and how it goes
                          (see reported.py), and there lie modules that it may import (see nodeagent.jobside)

Beside the allocations: `lease.json` (agent: until when jobs may live without it) and `events` (a FIFO that the agent
reads; shims write a line for it when something happens, and nothing depends on the line's arrival).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Union

from nodeagent import jobside
from nodeagent.protocol.messages import EndReason, OnDisconnect
from nodeagent.runtime.port import ExitStatus, Kept, StopCause
from nodeagent.runtime.shim import progress, reported
from nodeagent.system.files import read_json

_MAX_DETAIL_CHARS = 500


class AllocationFolder:
    """The paths in an allocation's folder."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.launch = os.path.join(root, "launch.json")
        self.lock = os.path.join(root, "lock")
        self.shim = os.path.join(root, "shim.json")
        self.control = os.path.join(root, "control.json")
        self.wake = os.path.join(root, "wake")
        self.log = os.path.join(root, "log")
        self.kept = os.path.join(root, "kept")
        self.status = os.path.join(root, "status")
        self.shells = os.path.join(root, "shells")
        self.out = os.path.join(root, "out")
        self.exit = os.path.join(root, "exit")
        self.shim_err = os.path.join(root, "shim.err")
        self.work = os.path.join(root, "work")
        self.home = os.path.join(root, "home")
        self.tmp = os.path.join(root, "tmp")
        self.progress = os.path.join(self.home, progress.NAME)
        self.metrics = os.path.join(self.home, reported.NAME)
        self.modules = os.path.join(self.home, jobside.FOLDER)


@dataclass(frozen=True)
class Task:
    """A shim's task; its part of launch.json. `job` is the runtime's part."""

    allocation_id: int
    command: str
    job: Mapping[str, Any]
    stop_signal: str
    grace_s: float
    time_limit_s: Optional[float]
    stop_after_s: float
    on_disconnect: str
    spool_bytes: int
    lease_path: str
    events_path: str
    boot_id: str
    keep_failed_s: float = 0.0

    def to_dict(self) -> Dict[str, Any]:
        """The task in plain JSON types."""
        return dict(self.__dict__, job=dict(self.job))

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> Task:
        """The task that `to_dict` spelled."""
        return cls(**data)

    @property
    def outlives_its_agent(self) -> bool:
        """True if the job goes on however long the agent is silent."""
        return self.on_disconnect == OnDisconnect.KEEP.value


def stop_to_dict(at: float, signal: str, grace_s: float, cause: Optional[StopCause]) -> Dict[str, Any]:
    """The wish for a stop in `control.json`."""
    wish: Dict[str, Any] = {"at": at, "signal": signal, "grace_s": grace_s}
    return wish if cause is None else dict(wish, reason=cause.reason.value, detail=cause.detail[:_MAX_DETAIL_CHARS])


def cause_of(stop: Optional[Mapping[str, Any]]) -> Optional[StopCause]:
    """The agent's own cause for that stop; None if it has none."""
    if stop is None or "reason" not in stop:
        return None
    return StopCause(EndReason(stop["reason"]), str(stop["detail"]))


def to_dict(ended: Union[ExitStatus, Kept]) -> Dict[str, Any]:
    """The content of the file `exit` or `kept`."""
    return dict(ended.__dict__, reason=ended.reason.value)


def read_kept(path: str) -> Optional[Kept]:
    """The contents of the file `kept`; None while there is none."""
    data = read_json(path)
    return None if data is None else Kept(**dict(data, reason=EndReason(data["reason"])))


def read_exit(path: str) -> Optional[ExitStatus]:
    """The status in the file `exit`, None while there is none."""
    data = read_json(path)
    return None if data is None else ExitStatus(**dict(data, reason=EndReason(data["reason"])))
