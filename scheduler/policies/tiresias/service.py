"""What the service that past jobs needed says about one that has had some already: the Gittins index."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Service:
    """A sample of the service that whole jobs needed, GPU-seconds, ascending, and its sums from the left."""

    samples: tuple[float, ...]
    sums: tuple[float, ...]
    _indexes: dict[float, float] = field(default_factory=dict, compare=False, repr=False)  # of what was asked before

    @property
    def most(self) -> float:
        """The largest sample, or 0 without any."""
        return self.samples[-1] if self.samples else 0.0

    def index(self, attained: float) -> float:
        """The Gittins index of a job that has had `attained` GPU-seconds, in 1 per GPU-second.

        The supremum over Δ of P(S - a ≤ Δ | S > a) ÷ E[min(S - a, Δ) | S > a] (Gittins, Journal of the Royal
        Statistical Society B 41, 1979; Gu et al., NSDI 2019, §3.2.2, fix Δ); 0 for a job that has had more than any
        sample. Between two samples the chance stays and the service grows, so the samples are the only Δ to try.
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
        """The index as the program that the authors of Tiresias released computes it, with a fixed Δ.

        P(S - a ≤ Δ | S > a) ÷ E[min(S, Δ) | S > a]: its denominator does not subtract what was attained.
        """
        first, last = bisect_right(self.samples, attained), bisect_right(self.samples, attained + delta)
        if first == len(self.samples):
            return 0.0
        cut = bisect_right(self.samples, delta, lo=first)
        ended = self.sums[cut] - self.sums[first]
        return (last - first) / (ended + delta * (len(self.samples) - cut))


def service_of(samples: Iterable[float]) -> Service:
    """The distribution that the samples are of, in any order."""
    ascending, sums = sorted(samples), [0.0]
    for sample in ascending:
        sums.append(sums[-1] + sample)
    return Service(tuple(ascending), tuple(sums))
