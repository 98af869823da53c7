"""The places of steps, against those of Slurm 22.05.8: the node of each task, the CPUs of the step there, the GPUs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from nodeagent.jobside.slurm import options, srun
from nodeagent.jobside.slurm.environment import Job, task_environment
from nodeagent.jobside.slurm.layout import Busy, Layout, Node, Refused, Request

RECORD = json.loads(Path(__file__).with_name("steps-22.05.8.json").read_text())
"""Jobs of Slurm and the steps started in each: `n1 4 0,1` is a task on n1 whose step has 4 CPUs; it sees 0 and 1."""
STEPS = [(number, step) for number, known in enumerate(RECORD) for step in known["steps"]]
# Slurm was seen to answer otherwise; here such a step gets what it names.
OTHERWISE = {
    # The type of a GPU is not looked at: all GPUs of a job are of one type.
    (0, "-n 3 --gres=gpu:a100:1"),
    (0, "-n 3 --gres=gpu:v100:1"),
    # The number of the step takes the place of the job's total, as --gpus does.
    (1, "-N1 -n1 --gres=gpu:1"),
    # 22.05.8 told this task of one CPU.
    (4, "-n1 -c3"),
    # A step may give its tasks more than the job's words do, if the job has them.
    (2, "-n1 --gpus-per-task=2"),
}


def layout_of(job: dict[str, Any]) -> Layout:
    sizes = zip(job["cpus"], job["memory"], job["gpus"], strict=True)
    return Layout([Node(f"n{number}", *size) for number, size in enumerate(sizes, 1)])


def place(layout: Layout, job: dict[str, Any], words: str) -> list[str]:
    """The tasks of a step, in the form of the record."""
    parsed = options.parse([*shlex.split(words), "true"], job["env"])
    bind = srun._tasks_per_gpu(parsed.given.get("gpu-bind", ""))
    shares = layout.place(Request.from_dict(srun.request_of(parsed)))
    found = {}
    for share in shares:
        told = {"nodes": [one.name for one in layout.nodes], "rank": share.rank, "gpus": [list(range(9))] * 9}
        node = Job(told, {})
        for index, task in enumerate(share.tasks):
            step = {"node_index": 0, "tasks_per_gpu": bind}
            seen = task_environment(node, step, share, index)
            gpus = seen.get("SLURM_STEP_GPUS", "-")
            found[task] = f"{seen['SLURMD_NODENAME']} {seen['SLURM_CPUS_ON_NODE']} {gpus}"
    return [found[task] for task in sorted(found)]


@pytest.mark.parametrize(
    ("number", "step"), STEPS, ids=lambda one: one["srun"] or "srun" if isinstance(one, dict) else ""
)
def test_a_step_has_the_place_that_slurm_gave_it(number: int, step: dict[str, Any]) -> None:
    job = RECORD[number]["job"]
    if (number, step["srun"]) in OTHERWISE:
        assert place(layout_of(job), job, step["srun"])
    elif "refused" in step:
        with pytest.raises(Refused) as refused:
            place(layout_of(job), job, step["srun"])
        assert ["error: " + line.format(job=42) for line in refused.value.args] == step["refused"]
    else:
        assert place(layout_of(job), job, step["srun"]) == step["tasks"]


def test_steps_take_turns_unless_they_fit_or_overlap() -> None:
    job = RECORD[0]["job"]
    layout = layout_of({**job, "cpus": [4, 4], "memory": [8192] * 2, "gpus": [2, 2]})
    whole = {"env": {"SLURM_NNODES": "2"}}
    assert place(layout, whole, "-N1 -n1") == ["n1 4 0,1"]
    assert place(layout, whole, "-N1 -n1") == ["n2 4 0,1"]
    with pytest.raises(Busy):
        place(layout, whole, "-N1 -n1")
    assert place(layout, whole, "-N1 -n1 --overlap") == ["n1 4 0,1"]
    layout = layout_of({**job, "cpus": [4, 4], "memory": [8192] * 2, "gpus": [2, 2]})
    exact = "-N1 -n1 --exact --mem=4G --gpus=1"
    assert [place(layout, whole, exact)[0] for _ in range(4)] == ["n1 1 0", "n1 1 1", "n2 1 0", "n2 1 1"]
    with pytest.raises(Busy):  # the memory and the GPUs are held, CPUs are not
        place(layout, whole, exact)


def test_what_a_step_held_is_free_when_it_has_ended() -> None:
    job = RECORD[0]["job"]
    layout = layout_of(job)
    shares = layout.place(Request(nodes=3, max_nodes=3, tasks=3))
    with pytest.raises(Busy):
        layout.place(Request(nodes=1, max_nodes=1, tasks=1))
    layout.release(shares)
    assert layout.place(Request(nodes=3, max_nodes=3, tasks=3)) == shares
