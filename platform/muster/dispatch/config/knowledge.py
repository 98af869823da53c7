"""The facts about jobs that the policy of a pool needs, and the pool's knowledge of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from muster.dispatch.config.plugins import made
from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.jobs.spec.units import written_duration
from muster.samples.rates import LIVE, live_rates
from muster.samples.speeds import MIN_DURATION_S
from scheduler.engine.policy import InformedPolicy, Need

# How long a job must have its GPUs for its speed to be known: it starts, its first two numbers are read, and then a
# minute (`samples.speeds`).
MEASURED_AFTER_S = MIN_DURATION_S + 30
# The parameters that say how long a job has its GPUs before another one may have them.
_TURNS = ("round_s", "slice_s", "lease_s")
_WORDS = {Need.RATES: "rates", Need.REMAINING: "expected run times"}


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Of the live jobs with GPUs: for how many a rate is known, by its source too, and for how many a run time."""

    jobs: int
    rates: int
    by_source: Mapping[str, int]
    expected: int

    def __str__(self) -> str:
        if not self.jobs:
            return "No job with GPUs waits or runs."
        told = ", ".join(f"{count} {source}" for source, count in self.by_source.items())
        return (
            f"Of {self.jobs} {'job' if self.jobs == 1 else 'jobs'} with GPUs, rates are known for {self.rates}"
            f"{f' ({told})' if told else ''}, and the expected run time for {self.expected}."
        )


def knowledge_of(pool: Pool) -> Knowledge:
    """The pool's knowledge of the rates and run times of its live jobs."""
    jobs = list(Job.objects.filter(pool=pool, state__in=LIVE, gpus__gt=0).only("pk", "expected_s"))
    rates = live_rates(pool.pk)
    sources = [{rate.source for rate in rates.get(job.pk, ())} for job in jobs]
    counts = Counter(source for found in sources for source in found)
    return Knowledge(
        jobs=len(jobs),
        rates=sum(map(bool, sources)),
        by_source=dict(sorted(counts.items())),
        expected=sum(job.expected_s is not None for job in jobs),
    )


def needs_of(policy: str, params: Mapping[str, Any]) -> frozenset[Need]:
    """The facts that the policy needs with these parameters; none if it does not accept them."""
    found = made("policy", policy, params)
    return found.needs if isinstance(found, InformedPolicy) else frozenset()


def needs_in_words(needs: Collection[Need]) -> str:
    """A sentence about what a policy needs to know."""
    if not needs:
        return "This policy decides by what jobs ask for. It needs neither rates nor expected run times."
    return f"This policy needs {' and '.join(words for need, words in _WORDS.items() if need in needs)}."


def too_short_turn(policy: str, params: Mapping[str, Any]) -> str:
    """A warning if jobs take turns in which no speed can be measured; empty if they do not."""
    found = made("policy", policy, params)
    name, turn_s = next(((name, getattr(found, name)) for name in _TURNS if hasattr(found, name)), ("", None))
    uses_rates = name == "slice_s" or Need.RATES in needs_of(policy, params)
    if turn_s is None or turn_s >= MEASURED_AFTER_S or not uses_rates:
        return ""
    return (
        f"A job that has its GPUs for {written_duration(turn_s)} at a time is never measured: that takes a minute "
        f"after its first steps. Set {name} to {written_duration(MEASURED_AFTER_S)} or more, or state rates in specs."
    )
