"""The use of a cluster over time, in a few thousand samples for simulations of any length."""

from __future__ import annotations

Sample = tuple[float, int, int]  # time s, busy GPUs, waiting jobs

_MAX_SAMPLES = 8_000


class Timeline:
    """Samples that each hold until the next; the first and the last are always kept.

    Above the maximum number of samples, those closer together than a gap are merged, and the gap grows. Merging keeps
    the last sample, which holds longest: after a burst of changes the cluster may not change for days.
    """

    def __init__(self, max_samples: int = _MAX_SAMPLES) -> None:
        self.samples: list[Sample] = []
        self._max_samples, self._gap_s = max_samples, 0.0

    def add(self, sample: Sample) -> None:
        """Add a sample no earlier than the ones before."""
        _append(self.samples, sample, self._gap_s)
        if len(self.samples) > self._max_samples:
            span_s = sample[0] - self.samples[0][0]
            self._gap_s = max(2 * self._gap_s, 4 * span_s / self._max_samples)
            samples, self.samples = self.samples, []
            for one in samples:
                _append(self.samples, one, self._gap_s)


def _append(samples: list[Sample], sample: Sample, gap_s: float) -> None:
    """Add a sample; it replaces the last one if that came less than the gap after its predecessor."""
    same_moment = bool(samples) and samples[-1][0] == sample[0]
    if same_moment or (len(samples) > 1 and sample[0] - samples[-2][0] < gap_s):
        samples[-1] = sample
    else:
        samples.append(sample)
