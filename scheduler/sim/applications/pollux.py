"""The work of a job in Pollux's evaluation: epochs whose length depends on GPUs, batch size and gradient noise."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from scheduler.sim.applications.measured import Application
from scheduler.sim.work import Layout, Work

_NODE_GPUS = 4  # of the measured nodes: predictions fill them one by one


@dataclass(frozen=True, slots=True)
class _Speed:
    """The speed of one job on one layout, by epoch: progress per second, and the seconds from each epoch's start to the
    end."""

    goodputs: list[float]
    left_s: list[float]  # one entry more than epochs; the last is 0


# No slots: cached properties are stored in __dict__, and speeds by layout in a field. Neither changes the meaning.
@dataclass(frozen=True, eq=False)
class PolluxWork(Work):
    """A job tuned to one batch size; progress is iterations of perfect efficiency at the first batch size.

    `Application.iteration` splits the batch on n GPUs. In each epoch the goodput is the gain per iteration (efficiency
    times scale, Pollux §3.1) over the seconds of one; the epoch ends at the least progress that any validated batch
    size had there. With `whole_seconds` the rest of an epoch takes a whole number of seconds, rounded half to even, as
    in the authors' simulator: 0 for less than half a second. The last epoch is not rounded: its recorded end is a whole
    second, but its GPUs are freed at the exact end, perhaps after the next decision.

    Jobs with the same application, batch size and GPUs may share one instance, which only caches what it computes.
    """

    application: Application
    batch: int
    gpus: int  # the size the job asks for; `remaining_s` counts on it
    whole_seconds: bool = False
    _speed_by_layout: dict[tuple[Layout, float], _Speed | None] = field(default_factory=dict, repr=False)

    @cached_property
    def boundaries(self) -> list[float]:
        """The progress at which each epoch ends; the last is the total."""
        return [float(progress) for progress in self.application.progress]

    def epoch(self, done: float) -> int:
        """The number of completed epochs."""
        return bisect_right(self.boundaries, done)

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        """See `Work`; infinite on a layout outside the measured range."""
        del gpu_type  # measurements cover one type only
        epoch = self.epoch(done)
        if epoch == len(self.boundaries):
            return 0.0
        speeds = self._speed_on(layout, speed)
        if speeds is None:
            return math.inf
        rest_s = (self.boundaries[epoch] - done) / speeds.goodputs[epoch]
        return self._as_counted(rest_s, epoch) + speeds.left_s[epoch + 1]

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        del gpu_type
        speeds = self._speed_on(layout, speed)
        if speeds is None:
            return done
        for epoch in range(self.epoch(done), len(self.boundaries)):
            goodput = speeds.goodputs[epoch]
            if done + goodput * seconds < self.boundaries[epoch]:
                return done + goodput * max(seconds, 0.0)
            took_s = (self.boundaries[epoch] - done) / goodput
            # Rounding up may move the end of the epoch past the time span: the epoch then counts as done.
            seconds -= self._as_counted(took_s, epoch)
            done = self.boundaries[epoch]
        return done

    def remaining_s(self, done: float) -> float:
        """See `Work`; in whole epochs: `iterations_left` times the seconds of an iteration on the GPUs asked for."""
        return self.iterations_left(done) * self.seconds_per_iteration(self.gpus)

    def alone_s(self) -> float:
        """See `Work`; on nodes of four GPUs, in exact seconds instead of whole epochs."""
        return self.seconds_left(0.0, "", _filled(self.gpus), 1.0)

    def iterations_left(self, done: float) -> float:
        """Iterations at the job's batch size from the end of the current epoch to that of the last, at least 1.

        Counted in whole epochs, as Pollux's evaluation models Optimus (§5.2, baseline "Optimus+Oracle").
        """
        last = self.application.epochs - 1
        epoch = min(self.epoch(done), last)
        end = self.application.iterations_after(self.batch, last)
        return (end - self.application.iterations_after(self.batch, epoch)) or 1.0

    def seconds_per_iteration(self, gpus: int) -> float:
        """The predicted seconds of one iteration on `gpus` GPUs, four per node; infinite where not measured.

        On one GPU at least one pass accumulates, whatever the batch size.
        """
        iteration = self.application.iteration(self.batch, gpus, accumulates=gpus == 1)
        return self.application.seconds_per_iteration(_filled(gpus), iteration) if iteration else math.inf

    def speeds(self) -> tuple[float, ...]:
        """See `Work`; up to the largest size that the batch and the measurements allow."""
        return self._speeds

    @cached_property
    def _speeds(self) -> tuple[float, ...]:
        alone_s = self.seconds_per_iteration(1)
        speeds = []
        for gpus in range(1, self.application.largest_gang(self.batch) + 1):
            takes_s = self.seconds_per_iteration(gpus)
            if not math.isfinite(takes_s):
                break
            speeds.append(alone_s / takes_s)
        return tuple(speeds)

    def _speed_on(self, layout: Layout, speed: float) -> _Speed | None:
        key = (layout, speed)
        if key not in self._speed_by_layout:
            self._speed_by_layout[key] = self._measure(layout, speed)
        return self._speed_by_layout[key]

    def _measure(self, layout: Layout, speed: float) -> _Speed | None:
        gpus = sum(layout)
        iteration = self.application.iteration(self.batch, gpus) if gpus else None
        takes_s = self.application.seconds_per_iteration(layout, iteration) if iteration else math.inf
        if iteration is None or speed <= 0 or not math.isfinite(takes_s):
            return None
        gains = self.application.gains(iteration.batch(gpus))
        goodputs = [float(gain) / takes_s * speed for gain in gains]
        left_s, before = [0.0], self.boundaries
        for epoch in range(len(before) - 1, -1, -1):
            whole = before[epoch] - (before[epoch - 1] if epoch else 0.0)
            takes = whole / goodputs[epoch]
            left_s.append(left_s[-1] + self._as_counted(takes, epoch))
        return _Speed(goodputs, left_s[::-1])

    def _as_counted(self, seconds: float, epoch: int) -> float:
        """The seconds for the rest of an epoch, rounded if the job uses whole seconds."""
        return round(seconds) if self.whole_seconds and epoch < len(self.boundaries) - 1 else seconds


def _filled(gpus: int) -> Layout:
    """`gpus` GPUs on the fewest possible nodes."""
    return (_NODE_GPUS,) * (gpus // _NODE_GPUS) + ((gpus % _NODE_GPUS,) if gpus % _NODE_GPUS else ())
