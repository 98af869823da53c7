"""The options of trace readers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of reading a trace; each format uses those that apply to it."""

    skip_bad: bool = False  # skip and list unusable jobs, rather than refuse the file
    start_s: float = 0.0  # only jobs from here on, since the trace's start; the trace then starts here
    end_s: float = math.inf  # only jobs before this, since the trace's start
    limit: int | None = None  # only the first jobs, at most this many
    gpu_type: str | None = None  # the type that jobs ask for if the trace names none
    throughputs: Path | None = None  # gavel, shockwave, philly_gavel: the table, or its folder
    consolidation: bool = False  # the same formats: scattered gangs run at the rates measured for scattered ones
    batch_sizes: bool = False  # shockwave: they change as the folder `batch_sizes` beside the traces says, if there
    applications: Path | None = None  # pollux: the folder with a folder of measurements per application
    whole_seconds: bool = False  # pollux: epochs, but for the last, end at whole seconds, as in the authors' program
    processors_per_gpu: int = 1  # swf: this many processors count as one GPU
    gpus_per_node: int = 3  # mirage: the trace counts nodes
    unit_s: float = 1.0  # tiresias, chronus: the unit of the trace's times
