"""`muster-agent start`: the agent as a daemon that the platform's links speak with, in the place of an older one.

`daemon.json` holds the daemon's process and a tag, by which the platform recognises the program and its options.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from typing import List, Optional, Sequence

from nodeagent.runtime.shim.tree import read_process
from nodeagent.system.files import read_json, write_in_place
from nodeagent.system.sockets import owner_of
from nodeagent.transport.linksocket import connect

RECORD = "daemon.json"
LOG = "agent.log"
_RECORD_BYTES = 1024
_LOG_LIMIT_BYTES = 8 << 20
_START_WITHIN_S = 60.0
_END_WITHIN_S = 20.0
_POLL_S = 0.05
_SHOWN_LINES, _SHOWN_BYTES = 12, 4000
_KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "SSH_CONNECTION", "USER")

_log = logging.getLogger("nodeagent")


def start(state: str, tag: str, options: Sequence[str]) -> int:
    """Start the agent, ending an older one first, and return once links can come; 1 if it does not get there.

    Jobs do not notice: the new agent adopts what the older one left.
    """
    state = os.path.abspath(state)
    with open(os.path.join(state, "start.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _end_older(state)
        return _start(state, tag, options)


def _start(state: str, tag: str, options: Sequence[str]) -> int:
    path = os.path.join(state, LOG)
    if os.path.exists(path) and os.path.getsize(path) > _LOG_LIMIT_BYTES:
        os.replace(path, path + ".1")
    with open(path, "ab") as log:
        os.fchmod(log.fileno(), 0o600)
        begins_at = log.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            [*program(), "run", "--linked", "--state", state, *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={name: os.environ[name] for name in (*_KEPT, "PYTHONPATH") if name in os.environ},
            start_new_session=True,
            close_fds=True,
        )
    started = _started_at(process.pid)
    try:
        # In place, as the disk may be full: with what jobs left, which only an agent that runs removes.
        record = {"pid": process.pid, "started": started, "tag": tag}
        write_in_place(os.path.join(state, RECORD), record, _RECORD_BYTES)
    except OSError as error:
        process.kill()  # without the record, `stop` and `status` would not find it
        _log.error("the agent cannot be recorded: %s", error)
        return 1
    until = time.monotonic() + _START_WITHIN_S
    while process.poll() is None and time.monotonic() < until:
        if _listens(state, process.pid):
            return 0
        time.sleep(_POLL_S)
    if process.poll() is None:
        process.kill()
        _log.error("the agent did not get ready in %g s", _START_WITHIN_S)
    else:
        _log.error("the agent ended with status %d", process.returncode)
    with open(path, "rb") as log:
        log.seek(max(begins_at, os.path.getsize(path) - _SHOWN_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    sys.stderr.write("\n".join(lines[-_SHOWN_LINES:]) + "\n")
    return 1


def program() -> List[str]:
    """The command that runs this program again: the zipapp, or the package."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable, home] if os.path.isfile(home) else [sys.executable, "-m", "nodeagent"]


def _listens(state: str, pid: int) -> bool:
    """True if this process listens. The kernel may close an older one's socket later than it tells its end."""
    try:
        with contextlib.closing(connect(state)) as connection:
            return owner_of(connection).pid == pid
    except OSError:
        return False


def _end_older(state: str) -> None:
    """End the daemon that runs, if one does."""
    record = read_json(os.path.join(state, RECORD)) or {}
    pid, started = record.get("pid"), record.get("started")
    if not isinstance(pid, int) or started is None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        if _started_at(pid) != started:
            return
        os.kill(pid, number)
        until = time.monotonic() + _END_WITHIN_S
        while _started_at(pid) == started and time.monotonic() < until:
            time.sleep(_POLL_S)


def _started_at(pid: int) -> Optional[int]:
    """The process's start in ticks since boot; None if it is gone or a zombie."""
    process = read_process(pid)
    return None if process is None or process.ended else process.started_ticks
