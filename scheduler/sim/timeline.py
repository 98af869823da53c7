"""How busy a cluster was over time, in a few thousand samples however long the simulation is."""

from __future__ import annotations

Sample = tuple[float, int, int]  # time s, busy GPUs, jobs waiting

_MOST_SAMPLES = 8_000


class Timeline:
    """Samples that each hold until the next; the first and the last are always there.

    When there are too many, samples closer together than a gap are merged, and the gap grows. Of those merged the last
    is kept, as it is what holds for long: after a burst of changes the cluster may stay as it is for days.
    """

    def __init__(self, most: int = _MOST_SAMPLES) -> None:
        self.samples: list[Sample] = []
        self._most, self._gap_s = most, 0.0

    def add(self, sample: Sample) -> None:
        """Take a sample that is no earlier than those before."""
        _append(self.samples, sample, self._gap_s)
        if len(self.samples) > self._most:
            span_s = sample[0] - self.samples[0][0]
            self._gap_s = max(2 * self._gap_s, 4 * span_s / self._most)
            samples, self.samples = self.samples, []
            for one in samples:
                _append(self.samples, one, self._gap_s)


def _append(samples: list[Sample], sample: Sample, gap_s: float) -> None:
    """Add a sample, in the place of the last one when the time since the one before that is below the gap."""
    same_moment = bool(samples) and samples[-1][0] == sample[0]
    if same_moment or (len(samples) > 1 and sample[0] - samples[-2][0] < gap_s):
        samples[-1] = sample
    else:
        samples.append(sample)
