"""The prediction of one run time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """The source of a predicted run time."""

    MODEL = "model"  # trees, from all that is known of the job and of earlier ones
    HISTORY = "history"  # the owner's jobs alike
    USER = "user"  # the user's estimate, by the user's record
    LIMIT = "limit"
    SWEEP = "sweep"  # the steps that its sweep still expects of it, at the speed of the members
    OUTLIVED = "outlived"  # the job has run for longer than nine of ten such jobs
    PROGRESS = "progress"  # the steps that it has done, of all


@dataclass(frozen=True, slots=True)
class RunTime:
    """Quantiles of a job's run time, s, from its first start to its end on the GPUs it asks for; they never cross."""

    p10_s: float
    p50_s: float
    p90_s: float
    source: Source
