"""PyTorch on this machine: it is installed for a Python of the machine, not for that of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.needed import skip_without

_LOOK = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"


def python_with_torch(user: str | None = None) -> str:
    """The first `python3` on the path that has PyTorch, and that this user may run; skips the test without one."""
    folders = os.environ["PATH"].split(os.pathsep)
    pythons = filter(None, (shutil.which("python3", path=folder) for folder in folders))
    found = next((python for python in pythons if _has_torch(python, user)), None)
    if found is None:
        skip_without("torch", "PyTorch is not installed: `make engines` installs it where there are apt and root")
    return found


def _has_torch(python: str, user: str | None) -> bool:
    try:
        tried = subprocess.run([python, "-c", _LOOK], user=user, cwd="/", capture_output=True, check=False)
    except OSError:  # it lies where this user may not go
        return False
    return tried.returncode == 0
