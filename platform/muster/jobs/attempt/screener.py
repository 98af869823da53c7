"""Where an app above this one has jobs screened before they get their gang. It registers when Django starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.common.errors import Invalid
from muster.jobs.models import Attempt, Job
from scheduler.diagnosis.failures import Verdict
from scheduler.model.lifecycle import AttemptState
from scheduler.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class ScreeningEnd:
    """How a screening run ended; its job and its attempt are locked, and it holds nothing any more."""

    job: Job
    attempt: Attempt
    ended_as: AttemptState
    reason: Reason
    verdict: Verdict | None
    nodes: Sequence[int]
    """The ids of those that its end may be blamed on."""
    held_s: float


class Screener(Protocol):
    """Decides which jobs are screened, and what becomes of them after that."""

    def require_pool(self, job: Job) -> None:
        """Return if the job, which is to be screened in any case, can be, and raise `Invalid` if not."""
        ...

    def submitted(self, job: Job) -> Callable[[], None]:
        """Let a job that is about to be stored wait for its screening run, if any; call the result after that."""
        ...

    def ended(self, end: ScreeningEnd) -> None:
        """Move the job on by the verdict of its screening run."""
        ...


class NoScreening:
    """Without the app that screens, no job is screened."""

    def require_pool(self, job: Job) -> None:
        """There is none."""
        raise Invalid.field("screening", f"pool {job.pool.name} screens no jobs; write auto or never")

    def submitted(self, job: Job) -> Callable[[], None]:
        """It stays where it is."""
        return lambda: None

    def ended(self, end: ScreeningEnd) -> None:
        """There are no screening runs."""
        raise RuntimeError(f"attempt {end.attempt.pk} is a screening run, and no app screens")


_screeners: list[Screener] = [NoScreening()]


def screen_by(screener: Screener) -> None:
    """Let an app above this one screen; called when Django starts."""
    _screeners.append(screener)


def screener() -> Screener:
    """The app that screens."""
    return _screeners[-1]
