"""What a reader of traces can be told."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a trace; each format uses what concerns it."""

    skip_bad: bool = False  # leave out and list what cannot be used, rather than refuse the file
    start_s: float = 0.0  # only jobs from here, since the trace's start; the trace then starts here
    end_s: float = math.inf  # only jobs before this, likewise
    limit: int | None = None  # only so many jobs, the first ones
    gpu_type: str | None = None  # what every job asks for where the trace names no type
    throughputs: Path | None = None  # gavel, shockwave, philly_gavel: the table, or a folder that has it
    consolidation: bool = False  # likewise: scattered gangs run at the rates that were measured scattered
    applications: Path | None = None  # pollux: the folder with a folder of measurements per application
    whole_seconds: bool = False  # pollux: epochs, but for the last, end at whole seconds, as in the authors' program
    processors_per_gpu: int = 1  # swf: so many processors are read as one GPU
    gpus_per_node: int = 3  # mirage: the trace counts nodes
    unit_s: float = 1.0  # tiresias, chronus: what the trace counts its times in

    def but(self, *, skip_bad: bool, start_s: float, end_s: float, limit: int | None) -> ReadOptions:
        """These options with another part of the file."""
        return replace(self, skip_bad=skip_bad, start_s=start_s, end_s=end_s, limit=limit)
