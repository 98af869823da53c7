"""The run of a script: the key `batch` of its spec, and the variables of Slurm that follow from its options."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from muster.sbatch import values
from muster.sbatch.exports import exports_all
from muster.sbatch.geometry import Layout
from muster.sbatch.options import Given
from muster.sbatch.site import Partition

_GPUS = frozenset({"gpus", "gpus-per-node", "gpus-per-task", "gres"})
_FILES = ("output", "error", "input")
# Variables that have the value of an option as it is written.
_COPIED = {
    "dependency": "SLURM_JOB_DEPENDENCY",
    "distribution": "SLURM_DISTRIBUTION",
    "gpu-bind": "SLURM_GPU_BIND",
    "hint": "SLURM_HINT",
    "ntasks-per-core": "SLURM_NTASKS_PER_CORE",
    "threads-per-core": "SLURM_THREADS_PER_CORE",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
}


def batch_of(given: Mapping[str, Given], layout: Layout, folder: str | None) -> dict[str, Any]:
    """The key `batch`; `folder`: where the script was submitted, if it runs there."""
    batch: dict[str, Any] = {name: given[name].value for name in _FILES if name in given and given[name].value}
    chdir = given["chdir"].value if "chdir" in given else ""
    inside = posixpath.normpath(posixpath.join(folder or "", chdir)) if folder or chdir else ""
    if inside.startswith("/"):
        batch["folder"] = inside
    if folder is not None:
        batch.setdefault("output", "slurm-%A_%a.out" if "array" in given else "slurm-%j.out")
    if "open-mode" in given and given["open-mode"].value.startswith("a"):
        batch["open_mode"] = "append"
    batch |= {"tasks": layout.ntasks, "tasks_per_node": list(layout.tasks_per_node)}
    if "cpus-per-task" in given:
        batch["cpus_per_task"] = values.count(given["cpus-per-task"].value)
    if "gpus-per-task" in given:
        batch["gpus_per_task"] = values.gpus(given["gpus-per-task"].value).number
    if "exclusive" in given and not given.keys() & _GPUS:
        batch["step_gpus"] = False  # Slurm gives the whole node to the script, and to steps what was asked for
    if not exports_all(export_of(given)):
        batch["export"] = "NONE"
    if "signal" in given:
        signal = values.signal(given["signal"].value)
        batch |= {"signal": signal.name, "signal_before_s": signal.before_s, "signal_script": signal.to_script}
    return batch


def below(chdir: str) -> str:
    """The folder of `--chdir` below the uploaded one; `ValueError` if it is outside."""
    inside = posixpath.normpath(chdir)
    if inside == ".." or inside.startswith("../"):
        raise ValueError("it leads out of the uploaded folder")
    return inside


def export_of(given: Mapping[str, Given]) -> str:
    """The value of `--export`."""
    return given["export"].value if "export" in given else "ALL"


def variables_of(given: Mapping[str, Given], name: str, layout: Layout, partition: Partition) -> dict[str, str]:
    """The variables of Slurm that do not depend on where the job runs."""
    variables = {"SLURM_JOB_NAME": name}
    if {"ntasks", "ntasks-per-node", "ntasks-per-gpu"} & given.keys() or layout.ntasks != layout.nodes:
        variables |= {"SLURM_NTASKS": str(layout.ntasks), "SLURM_NPROCS": str(layout.ntasks)}
    variables |= {variable: given[option].value for option, variable in _COPIED.items() if option in given}
    if "overcommit" in given:
        variables["SLURM_OVERCOMMIT"] = "1"
    export = export_of(given)
    if export.upper() != "ALL":
        variables["SLURM_EXPORT_ENV"] = export
    if "SLURM_EXPORT_ENV" in variables or "get-user-env" in given:
        variables["SLURM_GET_USER_ENV"] = "1"
    memory = {"mem": "NODE", "mem-per-cpu": "CPU", "mem-per-gpu": "GPU"}
    for option in memory.keys() & given.keys():
        asked = values.mebibytes(given[option].value)
        variables |= {f"SLURM_MEM_PER_{memory[option]}": str(asked)} if asked else {}
    if partition.memory_per_cpu_mib is not None and not given.keys() & memory.keys():
        variables["SLURM_MEM_PER_CPU"] = str(partition.memory_per_cpu_mib)
    return variables
