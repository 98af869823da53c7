"""The figure of AlloX that GPEmu reproduced, simulated: mean completion times of DRF and AlloX on GPUs and CPUs.

The workload is that of GPEmu's run (Wang et al., PVLDB 2025): four users with ten jobs each, all there at the start,
four GPUs, and eight CPU nodes that only AlloX uses. A CPU node counts as a GPU of a slow type.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork

BEGIN, END = "<!-- allox -->\n", "<!-- /allox -->"
CPU_NODES = 8
CLUSTER = f"GPU:4x1,CPU:{CPU_NODES}x1"
_OTHERS, _BEGIN_S = "others", 0.001  # who has the CPU nodes before, and how much earlier they come
# Seconds on a GPU and on a CPU node, as the specs of the run say.
SECONDS: Mapping[str, tuple[float, float]] = {
    "alexnet": (10, 57),
    "googlenet": (8, 51),
    "lenet": (7, 9),
    "lenet-2": (14, 18),
    "lenet-3": (21, 27),
    "lenet-4": (28, 36),
    "lenet-5": (21, 27),
    "mobilenet": (13, 103),
    "resnet34": (9, 49),
    "shufflenet": (13, 62),
}
USERS = 4
# A container's start. DRF FIFO ran ten jobs of together 144 s on each GPU, and the last of them ended after 176 s.
START_S = 3.2


@dataclass(frozen=True, slots=True)
class Study:
    """A scheduler of the figure, and how it is simulated here."""

    policy: str
    params: Mapping[str, object]
    shortest_first: bool = False  # of each user: by seconds on a GPU, else as submitted
    gpu_types: tuple[str, ...] = ("GPU",)
    cpus_after_s: float = 0.0  # until then other jobs have all CPU nodes


_ALLOX = Study("gavel", {"objective": "allox", "round_s": 1, "reset_s": 0}, gpu_types=("GPU", "CPU"))
# By the title of the row: the name in the figure, and the study.
STUDIES = {
    "DRF, each user's jobs as submitted": ("DRFF", Study("drf", {})),
    "DRF, each user's shortest job first": ("DRFS", Study("drf", {}, shortest_first=True)),
    "AlloX, CPUs after 33 s as in GPEmu's log": ("Allox", replace(_ALLOX, cpus_after_s=33.0)),
    "AlloX, CPUs from the start": ("Allox", _ALLOX),
}


def published(folder: Path) -> dict[str, float]:
    """GPEmu's mean completion times, in seconds."""
    with (folder / "gpemu" / "plots" / "rep__allox__jct.csv").open() as lines:
        return {row[0]: float(row[1]) for row in csv.reader(lines, delimiter="\t") if row}


def simulated(study: Study) -> float:
    """The mean completion time of the workload, in seconds."""
    options = Options(policy=study.policy, policy_params=study.params, admission="open", restart_s=START_S)
    result = simulate(_trace(study), parse_cluster(CLUSTER), options)
    return fmean((job.ended_s or 0.0) - job.submitted_s for job in result.records if job.owner != _OTHERS)


def _trace(study: Study) -> Trace:
    jobs = []
    if study.cpus_after_s:
        work = FixedWork(study.cpus_after_s - START_S, {"CPU": 1.0})
        jobs += [
            TraceJob(number, f"others-{number}", 0.0, 1, work, owner=_OTHERS, gpu_type="CPU")
            for number in range(1, CPU_NODES + 1)
        ]
    for user in range(1, USERS + 1):
        names = sorted(SECONDS, key=lambda name: SECONDS[name][0]) if study.shortest_first else SECONDS
        for name in names:
            on_gpu, on_cpu = SECONDS[name]
            jobs.append(
                TraceJob(
                    id=len(jobs) + 1,
                    name=f"user{user}-{name}",
                    submitted_s=_BEGIN_S if study.cpus_after_s else 0.0,
                    gpus=1,
                    work=FixedWork(on_gpu, {"GPU": 1.0, "CPU": on_gpu / on_cpu}),
                    owner=f"user{user}",
                    gpu_types=study.gpu_types,
                )
            )
    return Trace("allox", tuple(jobs))


def page(folder: Path, text: str) -> str:
    """The page with the table of the figure made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    theirs = published(folder)
    lines = ["| scheduler | GPEmu, s | here, s | difference |", "|---|---|---|---|"]
    for title, (name, study) in STUDIES.items():
        ours = simulated(study)
        lines.append(f"| {title} | {theirs[name]:.0f} | {ours:.1f} | {ours / theirs[name] - 1:+.1%} |")
    return before + BEGIN + "\n".join(lines) + "\n" + END + after
