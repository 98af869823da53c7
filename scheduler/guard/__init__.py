"""What a virtual cluster may have: the port of the guards and their registry."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from scheduler.law import Objector
from scheduler.model import Job, View
from scheduler.plan import Denial
from scheduler.registry import Plugin, Registry

# GPUs held, by virtual cluster and GPU type: those of the view and those the cycle has given so far.
Usage = Counter[tuple[int, str]]


class Guard(Plugin, Objector, Protocol):
    """Decides what a virtual cluster may have, and gives the law its objections to plans that ignore it."""

    def admit(self, view: View, usage: Usage, job: Job, gpu_type: str | None, gpus: int) -> Denial | None:
        """None when the job may have so many GPUs of this type on top of `usage`, or why not.

        `gpu_type` is None for a job without GPUs. The reason is QUOTA_TOO_SMALL when the job could never be admitted,
        and another one when it could be with less in use.
        """
        ...


GUARDS: Registry[Guard] = Registry("guard", "scheduler.guard")
