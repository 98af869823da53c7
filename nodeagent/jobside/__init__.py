"""Modules that jobs may import; the agent uses none of them."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any

FOLDER = ".muster-modules"
"""The folder's name, in the home of the job; it ends the job's PYTHONPATH."""
MODULE = "muster_report.py"


def unpack(folder: str) -> None:
    """Write the modules to a new folder."""
    os.mkdir(folder, 0o700)
    with open(os.path.join(folder, MODULE), "wb") as file:
        file.write(source())


@lru_cache(maxsize=2)
def source(name: str = MODULE) -> bytes:
    """The source of a module; the agent may be a zipapp, so that it is no file that a job could read."""
    # What importlib.resources does for a file and for a zipapp alike, but loads half of the standard library for.
    loader: Any = sys.modules[__name__].__loader__
    return bytes(loader.get_data(os.path.join(os.path.dirname(__file__), name)))
