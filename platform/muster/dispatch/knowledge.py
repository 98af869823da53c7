"""What the policy of a pool needs to know of jobs, and how well the pool knows it now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.samples.rates import LIVE, live_rates
from scheduler.engine.policy import POLICIES, InformedPolicy, Need
from scheduler.registry import ConfigError

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
    """How well the rates and run times of the pool's live jobs are known."""
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
    """What the policy needs to know with these parameters; nothing if it does not accept them."""
    try:
        made = POLICIES.make(policy, params)
    except ConfigError:
        return frozenset()
    return made.needs if isinstance(made, InformedPolicy) else frozenset()


def needs_in_words(needs: Collection[Need]) -> str:
    """A sentence about what a policy needs to know."""
    if not needs:
        return "This policy decides by what jobs ask for. It needs neither rates nor expected run times."
    return f"This policy needs {' and '.join(words for need, words in _WORDS.items() if need in needs)}."
