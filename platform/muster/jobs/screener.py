"""Where an app above this one has jobs tried before they get their gang. It registers when Django starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.common.errors import Invalid
from muster.jobs.models import Attempt, Job
from scheduler.diagnosis.failures import Verdict
from scheduler.model.lifecycle import AttemptState, Reason


@dataclass(frozen=True, slots=True)
class TrialEnd:
    """How a trial ended; its job and its attempt are locked, and nothing of it is held any more."""

    job: Job
    attempt: Attempt
    gpus: int
    ended_as: AttemptState
    reason: Reason
    verdict: Verdict | None
    nodes: Sequence[int]
    """The ids of those that its end may be blamed on."""
    held_s: float


class Screener(Protocol):
    """Decides which jobs are tried, and what becomes of them after that."""

    def require_pool(self, job: Job) -> None:
        """Return if the job, which is to be tried in any case, can be, and raise `Invalid` if not."""
        ...

    def submitted(self, job: Job) -> Callable[[], None]:
        """Send a job that is about to be stored to its trial, if it is to have one; the result is called after that."""
        ...

    def ended(self, end: TrialEnd) -> None:
        """Move the job on, by what its trial said."""
        ...


class NobodyScreens:
    """Without the app that screens, nobody is tried."""

    def require_pool(self, job: Job) -> None:
        """There is none."""
        raise Invalid.field("screening", f"pool {job.pool.name} tries no jobs; write auto or never")

    def submitted(self, job: Job) -> Callable[[], None]:
        """It stays where it is."""
        return lambda: None

    def ended(self, end: TrialEnd) -> None:
        """There are no trials."""
        raise RuntimeError(f"attempt {end.attempt.pk} is a trial, and nobody screens")


_screeners: list[Screener] = [NobodyScreens()]


def screen_by(screener: Screener) -> None:
    """Let an app above this one screen; called when Django starts."""
    _screeners.append(screener)


def screener() -> Screener:
    """Who screens."""
    return _screeners[-1]
