"""Probe for namespaces: a process tries to give jobs namespaces of their own on this machine."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from typing import Tuple

from nodeagent.runtime.process.namespaces import Isolation, create, mount_proc
from nodeagent.runtime.shim.forker import PACKAGE_HOME, python_command

_PROBE_S = 20.0
_MAX_PROBLEM = 200


def read_only_paths() -> Tuple[str, ...]:
    """By its program, its home and its control groups the account could run and end what is outside of a job."""
    return tuple({os.path.expanduser("~"), PACKAGE_HOME, sys.prefix, "/sys/fs/cgroup"} - {"/"})


@functools.lru_cache(maxsize=None)
def namespaces_problem() -> str:
    """The reason that jobs cannot have namespaces of their own on this machine; empty = they can."""
    code = "from nodeagent.runtime.process import probe; probe.run(sys.argv[1])"
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [*python_command(code), folder], cwd="/", env={}, capture_output=True, timeout=_PROBE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)[:_MAX_PROBLEM]
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines() or ["exit status {}".format(done.returncode)]
    return lines[-1][:_MAX_PROBLEM]


def run(folder: str) -> None:
    """Make the namespaces, and end this process: with status 0 if they hide the files of `folder` and all processes."""
    own = os.path.join(folder, "own")
    os.mkdir(own)
    with open(os.path.join(folder, "secret"), "w"):
        pass
    try:
        create(Isolation(hidden=(folder,), read_only=read_only_paths(), own=(own,)))
        child = os.fork()
        if child:
            sys.exit(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
        mount_proc()
        with open(os.path.join(own, "file"), "w"):
            pass
    except OSError as error:
        sys.exit("{}: {}".format(error.filename, error.strerror))
    if os.listdir(folder) != ["own"]:
        sys.exit("a file system over a folder does not hide it")
    if [name for name in os.listdir("/proc") if name.isdigit()] != ["1"]:
        sys.exit("a PID namespace does not hide the machine's processes")
