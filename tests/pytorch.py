"""Where PyTorch is on this machine: it belongs to some Python of the machine, not to the one that runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

_LOOK = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"


def python_with_torch(user: str | None = None) -> str:
    """The first `python3` on the path that has PyTorch, and that this user may run; skips the test without one."""
    for folder in os.environ["PATH"].split(os.pathsep):
        found = shutil.which("python3", path=folder)
        if found is not None and _has_torch(found, user):
            return found
    pytest.skip("PyTorch is not installed: `make engines` installs it where there are apt and root")


def _has_torch(python: str, user: str | None) -> bool:
    try:
        tried = subprocess.run([python, "-c", _LOOK], user=user, cwd="/", capture_output=True, check=False)
    except OSError:  # it lies where this user may not go
        return False
    return tried.returncode == 0
