"""The Gittins index: what the service of past jobs predicts for a job that has attained some."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Service:
    """A sample of the total service of jobs, GPU-seconds, ascending, and its prefix sums."""

    samples: tuple[float, ...]
    sums: tuple[float, ...]
    _indexes: dict[float, float] = field(default_factory=dict, compare=False, repr=False)  # cached results

    @property
    def largest(self) -> float:
        """The largest sample, or 0 without any."""
        return self.samples[-1] if self.samples else 0.0

    def index(self, attained: float) -> float:
        """The Gittins index of a job that has attained `attained` GPU-seconds, in 1 per GPU-second.

        The supremum over Δ of P(S - a ≤ Δ | S > a) ÷ E[min(S - a, Δ) | S > a] (Gittins, Journal of the Royal
        Statistical Society B 41, 1979; Gu et al., NSDI 2019, §3.2.2, fix Δ); 0 above the largest sample. Between two
        samples the probability is constant and the service grows, so only samples need to be tried as Δ.
        """
        if attained not in self._indexes:
            self._indexes[attained] = self._supremum(attained)
        return self._indexes[attained]

    def _supremum(self, attained: float) -> float:
        left = np.asarray(self.samples[bisect_right(self.samples, attained) :]) - attained
        if not left.size:
            return 0.0
        ended = np.arange(1, left.size + 1)
        service = np.cumsum(left) + left * (left.size - ended)
        return float(np.max(ended / service))

    def released_index(self, attained: float, delta: float) -> float:
        """The index as computed by the program that Tiresias's authors released, with a fixed Δ.

        P(S - a ≤ Δ | S > a) ÷ E[min(S, Δ) | S > a]: its denominator does not subtract the attained service.
        """
        first, last = bisect_right(self.samples, attained), bisect_right(self.samples, attained + delta)
        if first == len(self.samples):
            return 0.0
        cut = bisect_right(self.samples, delta, lo=first)
        ended = self.sums[cut] - self.sums[first]
        return (last - first) / (ended + delta * (len(self.samples) - cut))


def service_of(samples: Iterable[float]) -> Service:
    """The distribution of these samples, in any order."""
    ascending, sums = sorted(samples), [0.0]
    for sample in ascending:
        sums.append(sums[-1] + sample)
    return Service(tuple(ascending), tuple(sums))
