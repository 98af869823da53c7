"""Modules that jobs may import, and programs of batch scripts; the agent uses none of them."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any, Dict

FOLDER = ".muster-modules"
"""The folder's name, in the home of the job; it ends the job's PYTHONPATH."""
MODULE = "muster_report.py"
COMMANDS = "muster-commands"
"""The folder with the programs of a batch script, in that of the modules; by its name no job imports it."""

_MODULE_OF = {
    **dict.fromkeys(("squeue", "scancel", "sinfo", "sacct", "scontrol"), "words"),
    "sbatch": "submit",
    "srun": "srun",
    "muster-batch": "batch",
}
_MAIN = """\
import sys
from importlib import import_module
sys.exit(import_module("nodeagent.jobside.slurm." + sys.argv[1]).main(sys.argv[2:]))
"""
# -I and -S: no variable and no package of the job changes these programs, and they start sooner.
_COMMAND = """\
#!/bin/sh
exec "${{MUSTER_PYTHON:-python3}}" -IS "${{0%/*}}/.." {module} {command} "$@"
"""


def unpack(folder: str) -> None:
    """Write the modules to a new folder."""
    os.mkdir(folder, 0o700)
    with open(os.path.join(folder, MODULE), "wb") as file:
        file.write(source())


def unpack_commands(folder: str) -> str:
    """Write the programs of a batch script below the folder of the modules, and return their folder."""
    root = os.path.join(folder, COMMANDS)
    package, commands = os.path.join(root, "nodeagent", "jobside", "slurm"), os.path.join(root, "bin")
    for place in (package, commands):
        os.makedirs(place, 0o700)
    for path, data in {"__main__.py": _MAIN.encode(), **_programs()}.items():
        with open(os.path.join(root, path), "wb") as file:
            file.write(data)
    for command, module in _MODULE_OF.items():
        path = os.path.join(commands, command)
        with open(path, "w", encoding="ascii") as script:
            script.write(_COMMAND.format(module=module, command=command))
        os.chmod(path, 0o700)
    return root


@lru_cache(maxsize=2)
def source(name: str = MODULE) -> bytes:
    """The source of a module; the agent may be a zipapp, so that it is no file that a job could read."""
    # What importlib.resources does for a file and for a zipapp alike, but loads half of the standard library for.
    loader: Any = sys.modules[__name__].__loader__
    return bytes(loader.get_data(os.path.join(os.path.dirname(__file__), name)))


@lru_cache(maxsize=1)
def _programs() -> Dict[str, bytes]:
    """The sources of the package `slurm`, by their paths in the folder of the programs."""
    import pkgutil  # noqa: PLC0415 - most agents run no batch script

    found = pkgutil.iter_modules([os.path.join(os.path.dirname(__file__), "slurm")])
    names = ["__init__.py", *(one.name + ".py" for one in found)]
    return {"nodeagent/jobside/slurm/" + name: source.__wrapped__("slurm/" + name) for name in names}
