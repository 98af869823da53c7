"""Slurm's commands in a job that is a batch script: its programs, and the variables by which it finds them."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from dataclasses import dataclass
from typing import Dict

from nodeagent import jobside
from nodeagent.protocol.messages import LaunchSpec

BATCH = "MUSTER_BATCH"
"""The variable by which the platform marks a batch script."""
_CERTIFICATES = "certificates.pem"
_SYSTEM_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class Platform:
    """The platform as the agent reaches it, and so a job on the same machine."""

    url: str = ""
    """Empty for an agent that does not dial."""
    ca_file: str = ""
    """The file with the certificates of the platform's authority; empty for those of the machine."""


def write_commands(spec: LaunchSpec, modules: str, platform: Platform) -> None:
    """Write the programs of a batch script below the folder of its modules; other jobs get none.

    Raises:
        OSError: they cannot be written, or the certificates cannot be read.
    """
    if BATCH in spec.env:
        root = jobside.unpack_commands(modules)
        if platform.ca_file:
            shutil.copyfile(platform.ca_file, os.path.join(root, _CERTIFICATES))


def commands_environment(spec: LaunchSpec, modules: str, python: str, platform: Platform) -> Dict[str, str]:
    """The variables of a batch script, and none for other jobs; `modules` is the folder's path as the job sees it."""
    if BATCH not in spec.env:
        return {}
    root = os.path.join(modules, jobside.COMMANDS)
    found = {"MUSTER_PYTHON": python, "MUSTER_COMMANDS": os.path.join(root, "bin")}
    if platform.url:
        found["MUSTER_URL"] = platform.url.rstrip("/")
    if platform.ca_file:
        found["MUSTER_CA_FILE"] = os.path.join(root, _CERTIFICATES)
    return found


def python_of_jobs() -> str:
    """The agent's own interpreter, outside any virtual environment; the machine's where other users may not run it."""
    own = os.path.realpath(sys.executable)
    if os.geteuid() != 0 or _may_run(own):
        return own
    return _SYSTEM_PYTHON


def _may_run(path: str) -> bool:
    """True if every user may pass to the file and execute it."""
    while os.stat(path).st_mode & stat.S_IXOTH:
        if path == "/":
            return True
        path = os.path.dirname(path)
    return False
