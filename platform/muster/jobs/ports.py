"""The ports through which apps above take part in the life of jobs. They connect when Django starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from muster.common.errors import Invalid
from muster.jobs.models import Attempt, Job
from scheduler.diagnosis.failures import RuleSet, builtin
from scheduler.diagnosis.screening import Judgement
from scheduler.predict.history import History, RunTimeJob
from scheduler.predict.runtimes import RunTime, by_rules


@dataclass(frozen=True, slots=True)
class ScreeningEnd:
    """A screening run that has ended, and the judgement on it; its job and its attempt are locked."""

    job: Job
    attempt: Attempt
    judgement: Judgement
    held_s: float


class Screener(Protocol):
    """Decides which jobs are screened, and keeps the results."""

    def require_pool(self, job: Job) -> None:
        """Return if the job, which is to be screened in any case, can be, and raise `Invalid` if not."""
        ...

    def submitted(self, job: Job) -> Callable[[], None]:
        """Let a job that is about to be stored wait for its screening run, if any; call the result after that."""
        ...

    def next_run(self, job: Job) -> dict[str, Any] | None:
        """The fields of a job that is screened again; None if nothing can screen it any more."""
        ...

    def ended(self, end: ScreeningEnd) -> None:
        """Store the result of a screening run."""
        ...


class NoScreening:
    """Without the app that screens, no job is screened."""

    def require_pool(self, job: Job) -> None:
        """There is none."""
        raise Invalid.field("screening", f"pool {job.pool.name} screens no jobs; write auto or never")

    def submitted(self, job: Job) -> Callable[[], None]:
        """It stays where it is."""
        return lambda: None

    def next_run(self, job: Job) -> dict[str, Any] | None:
        """There is none."""
        return None

    def ended(self, end: ScreeningEnd) -> None:
        """There are no screening runs."""
        raise RuntimeError(f"attempt {end.attempt.pk} is a screening run, and no app screens")


class WhyInfeasible(Protocol):
    """The reason why the pool of a job, even if it was empty, could never run it, naming the field; None if it could.

    With `each_choice`, every one of the GPU types that the job accepts must be one that the pool could give it.
    """

    def __call__(self, job: Job, *, each_choice: bool = False) -> Invalid | None:
        """The refusal of the job."""
        ...


def _feasible(job: Job, *, each_choice: bool = False) -> Invalid | None:  # noqa: ARG001
    return None


def _no_progress(attempt_ids: Collection[int]) -> set[int]:  # noqa: ARG001
    return set()


def _by_rules(jobs: Sequence[RunTimeJob], history: History) -> list[RunTime | None]:
    return [by_rules(job, history) for job in jobs]


@dataclass(slots=True)
class Ports:
    """Hooks that the apps above fill."""

    screener: Screener = field(default_factory=NoScreening)
    why_infeasible: WhyInfeasible = _feasible
    failure_rules: Callable[[], RuleSet] = builtin
    """The rules by which failures are judged."""
    with_progress: Callable[[Collection[int]], set[int]] = _no_progress
    """The attempts, of those with these ids, that have made progress."""
    run_times: Callable[[Sequence[RunTimeJob], History], Sequence[RunTime | None]] = _by_rules
    """The predicted run times of jobs that are submitted now; None: nothing is known."""
    when_requeued: list[Callable[[Sequence[int]], object]] = field(default_factory=list)
    """Called to forget what was stored of the ends of these jobs, because they are queued again."""


ports = Ports()
