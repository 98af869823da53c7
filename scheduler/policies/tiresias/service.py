"""What the service that past jobs needed says about one that has had some already: the Gittins index."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Service:
    """A sample of the service that whole jobs needed, GPU-seconds, ascending, and its sums from the left."""

    samples: tuple[float, ...]
    sums: tuple[float, ...]

    @property
    def most(self) -> float:
        """The largest sample, or 0 without any."""
        return self.samples[-1] if self.samples else 0.0

    def index(self, attained: float, delta: float, *, less_attained: bool = True) -> float:
        """The chance that a job which has had `attained` ends within `delta` more, by the service that it takes then.

        P(S - a ≤ Δ | S > a) ÷ E[min(S - a, Δ) | S > a] (Gu et al., NSDI 2019, §3.2.2), in 1 per GPU-second; 0 for one
        that has had more than any sample. Without `less_attained`, the denominator is E[min(S, Δ) | S > a].
        """
        first, last = bisect_right(self.samples, attained), bisect_right(self.samples, attained + delta)
        base = attained if less_attained else 0.0
        if first == len(self.samples):
            return 0.0
        cut = bisect_right(self.samples, base + delta, lo=first)
        ended = self.sums[cut] - self.sums[first] - base * (cut - first)
        return (last - first) / (ended + delta * (len(self.samples) - cut))


def service_of(samples: Iterable[float]) -> Service:
    """The distribution that the samples are of, in any order."""
    ascending, sums = sorted(samples), [0.0]
    for sample in ascending:
        sums.append(sums[-1] + sample)
    return Service(tuple(ascending), tuple(sums))
