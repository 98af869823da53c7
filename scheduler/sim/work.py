"""The work of a job, and how long it takes on given GPUs.

Progress is in the work's own unit (seconds on the reference GPU, steps, samples); the simulator only asks how long the
rest takes, and how far a span of time gets. Nothing here keeps state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.model import KnownRate, Rate

# The layout of a gang: the number of GPUs on each of its nodes, in the order of its ranks.
Layout = tuple[int, ...]


class Work:
    """The work of one job. `speed` is a factor below 1 for slowdowns: interference, distance."""

    __slots__ = ()

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        """The seconds for the rest on these GPUs; infinite if it cannot run there."""
        raise NotImplementedError

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        """The progress after this many seconds on these GPUs, at most the total."""
        raise NotImplementedError

    def remaining_s(self, done: float) -> float:
        """A perfect prediction of the rest, in seconds on the GPUs that the job asks for, of the reference type."""
        raise NotImplementedError

    def alone_s(self) -> float:
        """The seconds for all of it in an empty cluster on the GPUs that the job asks for, without restarts."""
        return self.remaining_s(0.0)

    def speeds(self) -> tuple[float, ...]:
        """The speeds on 1, 2, 3 … GPUs of the reference type relative to one; empty if the size is fixed."""
        return ()


@dataclass(frozen=True, slots=True)
class FixedWork(Work):
    """A run time on the reference GPUs and relative speeds on other types; progress is reference seconds."""

    duration_s: float
    rates: Mapping[str, float] | None = None  # speed by GPU type relative to the reference; None: the same on all

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        rate = self._rate(gpu_type) * speed
        return (self.duration_s - done) / rate if rate > 0 else float("inf")

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        return min(self.duration_s, done + seconds * self._rate(gpu_type) * speed)

    def remaining_s(self, done: float) -> float:
        return self.duration_s - done

    def _rate(self, gpu_type: str) -> float:
        return 1.0 if self.rates is None else self.rates.get(gpu_type, 0.0)


@dataclass(frozen=True, slots=True)
class ScalingWork(Work):
    """A run time on `gpus` GPUs of any type and the speeds on 1, 2, 3 … GPUs; progress is seconds on `gpus` GPUs."""

    duration_s: float
    gpus: int
    by_gpus: tuple[float, ...]

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        del gpu_type
        return (self.duration_s - done) / (self._rate(layout) * speed)

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        del gpu_type
        return min(self.duration_s, done + seconds * self._rate(layout) * speed)

    def remaining_s(self, done: float) -> float:
        return self.duration_s - done

    def speeds(self) -> tuple[float, ...]:
        return tuple(speed / self.by_gpus[0] for speed in self.by_gpus)

    def _rate(self, layout: Layout) -> float:
        return self.by_gpus[sum(layout) - 1] / self.by_gpus[self.gpus - 1]


@dataclass(frozen=True, slots=True)
class StepsWork(Work):
    """A number of training steps, and the steps per second by GPU type; progress is steps.

    The rates are those of the whole gang at the size it asks for (its scale factor), as in Gavel's tables (OSDI 2020,
    §3.1). A type without a rate cannot run the job.
    """

    steps: float
    gpus: int
    rates: Mapping[str, float]  # steps/s, on the fewest possible nodes
    scattered: Mapping[str, float] | None = None  # steps/s on more nodes; None: the same
    node_gpus: int = 4  # GPUs of a node where the rates were measured, which sets the fewest possible nodes
    reference: str | None = None  # the type that `remaining_s` counts on; None: the fastest

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        rate = self._rate(gpu_type, layout) * speed
        return (self.steps - done) / rate if rate > 0 else float("inf")

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        return min(self.steps, done + seconds * self._rate(gpu_type, layout) * speed)

    def remaining_s(self, done: float) -> float:
        rate = max(self.rates.values(), default=0.0) if self.reference is None else self.rates.get(self.reference, 0.0)
        return (self.steps - done) / rate if rate > 0 else float("inf")

    def _rate(self, gpu_type: str, layout: Layout) -> float:
        if sum(layout) != self.gpus:
            return 0.0  # never measured at this size
        if self.scattered is not None and len(layout) > -(-self.gpus // self.node_gpus):
            return self.scattered.get(gpu_type, 0.0)
        return self.rates.get(gpu_type, 0.0)


@dataclass(frozen=True, slots=True)
class ChangingWork(Work):
    """Pieces of work one after the other, each with rates of its own; progress is the sum of their steps."""

    pieces: tuple[StepsWork, ...]

    def rates_at(self, done: float) -> Mapping[str, float]:
        """The rates of the piece that runs after this progress."""
        return next((piece.rates for piece, _ in self._rest(done)), self.pieces[-1].rates)

    def seconds_left(self, done: float, gpu_type: str, layout: Layout, speed: float) -> float:
        return sum(piece.seconds_left(begun, gpu_type, layout, speed) for piece, begun in self._rest(done))

    def advance(self, done: float, gpu_type: str, layout: Layout, speed: float, seconds: float) -> float:
        for piece, begun in self._rest(done):
            left_s = piece.seconds_left(begun, gpu_type, layout, speed)
            if left_s > seconds:
                return done + piece.advance(begun, gpu_type, layout, speed, seconds) - begun
            done, seconds = done + piece.steps - begun, seconds - left_s
        return done

    def remaining_s(self, done: float) -> float:
        return sum(piece.remaining_s(begun) for piece, begun in self._rest(done))

    def _rest(self, done: float) -> Iterable[tuple[StepsWork, float]]:
        """The pieces that have not ended, each with its own progress."""
        for piece in self.pieces:
            if done < piece.steps:
                yield piece, max(0.0, done)
            done -= piece.steps


def known_rates(work: Work, gpus: int, gpu_types: Iterable[str]) -> tuple[KnownRate, ...]:
    """The rates on `gpus` GPUs of each type that a trace tells, 0 where the job cannot run; none if types are alike."""
    rates = work.rates if isinstance(work, FixedWork | StepsWork) else None
    if isinstance(work, ChangingWork):
        rates = work.rates_at(0.0)
    if rates is None:
        return ()
    piece = work.pieces[0] if isinstance(work, ChangingWork) else work
    scattered = (piece.scattered if isinstance(piece, StepsWork) else None) or {}
    return tuple(
        KnownRate(kind, gpus, Rate(mean, None, "trace"), mean / scattered[kind] if scattered.get(kind) else None)
        for kind, mean in ((kind, rates.get(kind, 0.0)) for kind in gpu_types)
    )
