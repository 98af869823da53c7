"""The key `batch` of a spec: the command is a batch script, run as Slurm runs one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from muster.common.errors import FieldError

MAX_TASKS = 1_000_000


def _path(text: str) -> str:
    if not text or not text.isprintable():
        raise ValueError("use printable characters only")
    return text


def _folder(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("write an absolute path, such as /data/runs/1")
    return _path(text)


_Path = Annotated[str, AfterValidator(_path), Field(max_length=4096)]
_Count = Annotated[int, Field(ge=1, le=MAX_TASKS)]


class Batch(BaseModel):
    """The way in which a batch script runs: on the first node only, with `srun` for tasks on all of them."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    folder: Annotated[str, AfterValidator(_folder), Field(max_length=4096)] | None = Field(
        default=None, description="The folder on the nodes in which it runs. Default: the job's own folder."
    )
    output: _Path | None = Field(
        default=None,
        description="The file of its output, with Slurm's patterns, such as logs/%x-%j.out. Default: none.",
    )
    error: _Path | None = Field(default=None, description="The file of its errors. Default: that of the output.")
    input: _Path | None = Field(default=None, description="The file that it reads. Default: it reads nothing.")
    open_mode: Literal["truncate", "append"] = Field(
        default="truncate", description="Whether its files are emptied first."
    )
    tasks: Annotated[int, Field(ge=1, le=MAX_TASKS)] | None = Field(
        default=None, description="The number of tasks that `srun` starts. Default: one on each node."
    )
    tasks_per_node: list[_Count] | None = Field(
        default=None, max_length=4096, description="The tasks that each node has room for, by rank, such as [2, 1]."
    )
    cpus_per_task: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="CPUs of each task. Default: 1."
    )
    gpus_per_task: Annotated[int, Field(ge=0, le=1024)] | None = Field(
        default=None, description="GPUs of each task. Default: a task sees all GPUs of its node."
    )
    step_gpus: bool = Field(
        default=True, description="Whether the tasks of `srun` see the GPUs; the script sees them in any case."
    )
    export: Literal["ALL", "NONE"] = Field(
        default="ALL", description="Whether it has the environment from which it was submitted, where that is known."
    )
    signal: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9]{1,6}$")] | None = Field(
        default=None, description="A signal, such as USR1, that is sent some time before `time` is over."
    )
    signal_before_s: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=60, description="Seconds between that signal and the end of `time`."
    )
    signal_script: bool = Field(
        default=False, description="Whether that signal goes to the script alone, and not to the tasks of `srun`."
    )


def problems_of(batch: Batch, *, nodes: int, slurm_env: bool, grows: bool) -> Iterator[FieldError]:
    """The disagreements of the key with the other keys of a spec; `grows`: its number of nodes may change."""
    layout = batch.tasks_per_node
    if layout is not None and len(layout) != nodes:
        yield FieldError("batch.tasks_per_node", f"write a number for each of the {nodes} nodes, not {len(layout)}")
    if grows:
        yield FieldError("batch", "a batch script keeps its nodes: leave out elastic.over: gang")
    if slurm_env:
        yield FieldError("slurm_env", "a batch script has the variables of Slurm: leave it out")
