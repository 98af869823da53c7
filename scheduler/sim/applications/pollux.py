"""The work of a job of Pollux's evaluation: epochs whose length depends on GPUs, batch size and gradient noise."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from scheduler.sim.applications.measured import Application
from scheduler.sim.work import Layout

_NODE_GPUS = 4  # of the nodes that were measured: predictions fill one after the other


@dataclass(frozen=True, slots=True)
class _Pace:
    """How one job fares on one layout, by epoch: progress a second, and seconds from its start to the end of all."""

    goodputs: list[float]
    left_s: list[float]  # one more than epochs; the last is 0


# No slots: the cached property lives in __dict__, and paces are kept there too. Neither changes what it means.
@dataclass(frozen=True, eq=False)
class PolluxWork:
    """A job tuned to one batch size; progress is iterations of perfect efficiency at the first batch size.

    On n GPUs the batch is cut as `Application.iteration` says. In each epoch the goodput is the gain by iteration
    (efficiency times scale, Pollux §3.1) by the seconds of one; the epoch ends at the least progress that any validated
    batch size had there. With `whole_seconds` the part of an epoch that is left when it ends takes a whole number of
    seconds, rounded half to even, as the authors' simulator has it: 0 for less than half a second. Not so the last
    epoch: there the job, too, is said to end at a whole second, but its GPUs come free when it really does, perhaps
    after the next decision.

    Jobs with the same application, batch size and GPUs may share one instance: it only keeps what it computed.
    """

    application: Application
    batch: int
    gpus: int  # what the job asks for, and what `remaining_s` counts in
    whole_seconds: bool = False
    _paces: dict[tuple[Layout, float], _Pace | None] = field(default_factory=dict, repr=False)

    @cached_property
    def boundaries(self) -> list[float]:
        """The progress at which each epoch ends; the last is all there is to do."""
        return [float(progress) for progress in self.application.progress]

    def epoch(self, done: float) -> int:
        """The number of epochs that have ended."""
        return bisect_right(self.boundaries, done)

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        """See `Work`; infinite on a layout around which nothing was measured."""
        del gpu_type  # all was measured on one type
        epoch = self.epoch(done)
        if epoch == len(self.boundaries):
            return 0.0
        pace = self._pace(layout, speed)
        if pace is None:
            return math.inf
        rest_s = (self.boundaries[epoch] - done) / pace.goodputs[epoch]
        return self._as_counted(rest_s, epoch) + pace.left_s[epoch + 1]

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        """See `Work`."""
        del gpu_type
        pace = self._pace(layout, speed)
        if pace is None:
            return done
        for epoch in range(self.epoch(done), len(self.boundaries)):
            goodput = pace.goodputs[epoch]
            if done + goodput * seconds < self.boundaries[epoch]:
                return done + goodput * max(seconds, 0.0)
            took_s = (self.boundaries[epoch] - done) / goodput
            # Rounded up, the epoch may end later than the stretch of time: the rest of it is as if it were over.
            seconds -= self._as_counted(took_s, epoch)
            done = self.boundaries[epoch]
        return done

    def remaining_s(self, done: float) -> float:
        """See `Work`; by whole epochs: `iterations_left` times the seconds of an iteration on the GPUs asked for."""
        return self.iterations_left(done) * self.seconds_per_iteration(self.gpus)

    def alone_s(self) -> float:
        """See `Work`; on nodes of four GPUs, in seconds and not by whole epochs."""
        return self.seconds_left(0.0, "", _filled(self.gpus), 1.0)

    def remaining_on_one_s(self, done: float) -> float:
        """The same on one GPU; equals `remaining_s` times the asked size's speed in `speeds`."""
        return self.iterations_left(done) * self.seconds_per_iteration(1)

    def iterations_left(self, done: float) -> float:
        """Iterations at the job's batch size from the end of the current epoch to that of the last, at least 1.

        By whole epochs, as Optimus is modelled in Pollux's evaluation (§5.2, baseline "Optimus+Oracle").
        """
        last = self.application.epochs - 1
        epoch = min(self.epoch(done), last)
        end = self.application.iterations_after(self.batch, last)
        return (end - self.application.iterations_after(self.batch, epoch)) or 1.0

    def seconds_per_iteration(self, gpus: int) -> float:
        """The predicted seconds of one iteration on so many GPUs, four on a node; infinite where not measured.

        On one GPU at least one pass accumulates, whatever the batch size.
        """
        iteration = self.application.iteration(self.batch, gpus, accumulates=gpus == 1)
        return self.application.seconds_per_iteration(_filled(gpus), iteration) if iteration else math.inf

    def speeds(self) -> tuple[float, ...]:
        """See `Work`; as far as the batch can be cut and measurements go."""
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

    def _pace(self, layout: Layout, speed: float) -> _Pace | None:
        key = (layout, speed)
        if key not in self._paces:
            self._paces[key] = self._measure(layout, speed)
        return self._paces[key]

    def _measure(self, layout: Layout, speed: float) -> _Pace | None:
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
        return _Pace(goodputs, left_s[::-1])

    def _as_counted(self, seconds: float, epoch: int) -> float:
        """What the rest of an epoch counts for."""
        return round(seconds) if self.whole_seconds and epoch < len(self.boundaries) - 1 else seconds


def _filled(gpus: int) -> Layout:
    """So many GPUs on as few nodes as can be."""
    return (_NODE_GPUS,) * (gpus // _NODE_GPUS) + ((gpus % _NODE_GPUS,) if gpus % _NODE_GPUS else ())
