"""The part of docs/design/measurements/jobs.md about early stopping: a small net on handwritten digits, by method.

The members of all methods are the same, so each is trained once, to the end. The methods then run over these curves in
simulated time, with the decisions of `scheduler.search` and the processor time that each epoch took.
"""

from __future__ import annotations

import heapq
import math
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np

from scheduler.search.history import best_so_far
from scheduler.search.rungs import Action, Goal, Member, Method, Report, Rungs, judge
from scheduler.search.space import Point, draw, parse_space

BEGIN, END = "<!-- early stopping -->\n", "<!-- /early stopping -->"
PARAMS = {
    "lr": {"log": [1e-4, 1.0]},
    "momentum": {"uniform": [0.0, 0.95]},
    "hidden": {"int": [8, 128]},
    "alpha": {"log": [1e-6, 1e-1]},
    "batch": [16, 32, 64, 128],
}
MEMBERS, PARALLEL, SEEDS = 81, 8, range(5)
EPOCHS, KEEP, FIRST_RUNGS = 81, 3, (1, 3, 9)
FEW = 9  # members of a random search that costs about as much as the other methods do with all


@dataclass(frozen=True, slots=True)
class Curve:
    """The loss on validation images after each epoch of a member, and the processor time of an epoch in seconds."""

    losses: tuple[float, ...]
    epoch_s: float


@dataclass(slots=True)
class Run:
    """The work of a method: epochs, processor time, elapsed time, and each loss with the processor time before."""

    epochs: int = 0
    cpu_s: float = 0.0
    took_s: float = 0.0
    reports: list[tuple[float, float]] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The lowest loss of all members."""
        return best_so_far(self.reports, Goal.MIN)[-1][1]

    def cpu_s_to(self, loss: float) -> float:
        """The processor time after which a member had a loss at most this high."""
        return min(cpu_s for cpu_s, value in self.reports if value <= loss)


def train(point: Point, number: int, epochs: int) -> Curve:
    """Train the member on two thirds of scikit-learn's digits by stochastic gradient descent."""
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415 - takes a second, and only training needs it

    images, labels = _digits()
    net = MLPClassifier(
        hidden_layer_sizes=(point["hidden"],),
        solver="sgd",
        learning_rate_init=point["lr"],
        momentum=point["momentum"],
        alpha=point["alpha"],
        batch_size=point["batch"],
        random_state=number,
    )
    losses: list[float] = []
    begun_s = time.process_time()
    for _ in range(epochs):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                net.partial_fit(images[:1200], labels[:1200], classes=range(10))
                right = net.predict_proba(images[1200:])[np.arange(len(labels) - 1200), labels[1200:]]
            losses.append(float(-np.log(np.clip(right, 1e-15, 1)).mean()))
        except ValueError:  # the weights are no longer finite
            losses += [math.nan] * (epochs - len(losses))
            break
    trained = sum(map(math.isfinite, losses)) or 1
    return Curve(tuple(losses), (time.process_time() - begun_s) / trained)


@cache
def _digits() -> tuple[Any, Any]:
    """1,797 images of 8x8 pixels in random order, and which digits they are."""
    from sklearn.datasets import load_digits  # noqa: PLC0415

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    return digits.data[order] / 16, digits.target[order]


def run(method: Method, curves: Sequence[Curve], rungs: Rungs, parallel: int) -> Run:
    """The method over trained curves, one for each member, with this number of members at once."""
    done = Run()
    reports: dict[int, list[Report]] = {number: [] for number in range(1, len(curves) + 1)}
    waiting, paused, ended = list(reports), set[int](), set[int]()
    events: list[tuple[float, int]] = []
    while waiting or events:
        while waiting and len(events) < parallel:
            number = waiting.pop(0)
            heapq.heappush(events, (done.took_s + curves[number - 1].epoch_s, number))
        done.took_s, number = heapq.heappop(events)
        curve, step = curves[number - 1], len(reports[number]) + 1
        reports[number].append(Report(done.took_s, step, curve.losses[step - 1]))
        done.epochs, done.cpu_s = done.epochs + 1, done.cpu_s + curve.epoch_s
        done.reports.append((done.cpu_s, curve.losses[step - 1]))
        action = Action.GO_ON
        if step == rungs.steps[-1]:
            ended.add(number)
        if method.stops_early and step in rungs.steps:
            action = _decide(method, rungs, reports, number, waiting=waiting, paused=paused, ended=ended)
        if action is Action.GO_ON and number not in ended:
            heapq.heappush(events, (done.took_s + curve.epoch_s, number))
    return done


def _decide(
    method: Method,
    rungs: Rungs,
    reports: Mapping[int, Sequence[Report]],
    number: int,
    *,
    waiting: list[int],
    paused: set[int],
    ended: set[int],
) -> Action:
    """Decide about the member that has arrived at a rung; members that had waited for it go on or stop."""
    members = [Member.from_reports(n, told, rungs, living=n not in ended) for n, told in reports.items()]
    verdicts = judge(method, Goal.MIN, rungs, members).verdicts
    for other in sorted(paused):
        if verdicts[other].action is not Action.PAUSE:
            paused.remove(other)
            if verdicts[other].action is Action.GO_ON:
                waiting.append(other)
            else:
                ended.add(other)
    if verdicts[number].action is Action.PAUSE:
        paused.add(number)
    elif verdicts[number].action is Action.STOP:
        ended.add(number)
    return verdicts[number].action


def curves_of(seed: int, members: int, epochs: int) -> list[Curve]:
    """The trained members of a sweep."""
    points = draw(parse_space(PARAMS), members, seed)
    return [train(point, number, epochs) for number, point in enumerate(points, 1)]


def part() -> str:
    """A row for each method, means over the seeds."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    seeds, count = list(SEEDS), len(SEEDS)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        curves = list(pool.map(curves_of, seeds, [MEMBERS] * count, [EPOCHS] * count))
    return table(curves)


def table(curves: Sequence[Sequence[Curve]]) -> str:
    """The rows by the curves of each seed."""
    rungs = {first: Rungs.of(first, EPOCHS, KEEP) for first in FIRST_RUNGS}
    whole = [run(Method.RANDOM, one, rungs[1], PARALLEL) for one in curves]
    few = [run(Method.RANDOM, one[:FEW], rungs[1], PARALLEL) for one in curves]
    rows = {f"`random`, {MEMBERS} members | –": whole, f"`random`, {FEW} members | –": few}
    for method in (Method.HALVING, Method.ASHA):
        for first in FIRST_RUNGS:
            rows[f"`{method}` | {first}"] = [run(method, one, rungs[first], PARALLEL) for one in curves]
    lines = [
        "| method | first rung | epochs | processor time, s | best loss | until then, s | random search, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, done in rows.items():
        reach_s = [all_of_it.cpu_s_to(one.best) for one, all_of_it in zip(done, whole, strict=True)]
        lines.append(
            f"| {name} | {fmean(one.epochs for one in done):,.0f} | {fmean(one.cpu_s for one in done):.1f} "
            f"| {fmean(one.best for one in done):.4f} | {fmean(one.cpu_s_to(one.best) for one in done):.1f} "
            f"| {fmean(reach_s):.1f} |"
        )
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with this part made anew."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + part() + text[end:]
