"""Losses and steps from log lines in the formats of common frameworks.

Losses: `loss: 0.123`, `loss=1.2e-3`, `loss 0.5`, `'loss': 0.5` as in a printed dictionary, and `train_loss 0.5`. Steps:
`step 100/1000`, `iter 7`, `Epoch 3/10`, and the count of a progress bar, `| 45/100 [`. RE2 reads all of them in time
proportional to the text. A line without a loss is skipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import re2

from scheduler.diagnosis.patterns import options_of

MAX_LOSSES = 200
"""The number of losses taken from one piece of a log, spread evenly."""
_MAX_LINE_BYTES = 1000

_NUMBER = r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?|nan|NaN|NAN|[+-]?inf|[+-]?Inf|[+-]?INF)"
_SEPARATOR = r"['\"]?[ \t]{0,4}[:=]?[ \t]{0,4}(?:tensor\()?"


def _pattern(text: str) -> Any:
    return re2.compile(text.encode(), options_of(case_sensitive=True))


# `val_loss` and `loss_scale` are other figures; so is the loss of a part, such as `cls_loss`.
_LOSS = _pattern(
    r"(?:^|[^A-Za-z0-9_./-])(?i:(?:train(?:ing)?[_ /.-])?(?:total[_ ])?loss)"
    + _SEPARATOR
    + _NUMBER
    + r"(?:[^0-9A-Za-z_.]|\.?$|\.[^0-9])"
)
_STEP = _pattern(
    r"(?:^|[^A-Za-z0-9])(?i:global[_ ]step|steps?|iter(?:ation)?s?|it|batch)" + _SEPARATOR + r"#?\[? *"
    r"([0-9]{1,12})(?: *(?:/|of) *([0-9]{1,12}))?"
)
_EPOCH = _pattern(
    rf"(?:^|[^A-Za-z0-9])(?i:epochs?){_SEPARATOR}#?\[? *"
    r"([0-9]{1,6}(?:\.[0-9]{1,12})?)(?: *(?:/|of) *([0-9]{1,6}))?"
)
_BAR = _pattern(r"\| *([0-9]{1,12})/([0-9]{1,12}) \[")
_PREFILTER = _pattern(r"(?i:loss)")


@dataclass(frozen=True, slots=True)
class LossLine:
    """A loss, with the step or epoch on its line and the planned number of them."""

    loss: float
    step: float | None = None
    steps: float | None = None
    epoch: float | None = None
    epochs: float | None = None


def losses_in(data: bytes) -> list[LossLine]:
    """The losses of whole lines, in order; a carriage return ends a line too."""
    if _PREFILTER.search(data) is None:
        return []
    lines = [line for line in data.replace(b"\r", b"\n").split(b"\n") if b"oss" in line or b"OSS" in line]
    return [one for line in _evenly(lines) if (one := loss_in(line)) is not None]


def loss_in(line: bytes) -> LossLine | None:
    """The loss on the line, None if there is none."""
    line = line[:_MAX_LINE_BYTES]
    hit = _LOSS.search(line)
    if hit is None:
        return None
    loss = _float(hit.group(1))
    epoch, epochs = _pair(_EPOCH.search(line))
    step, steps = _pair(_BAR.search(line) or _STEP.search(line))
    return LossLine(loss, step, steps, epoch, epochs)


@dataclass(slots=True)
class StepCounter:
    """Counts steps over a whole job: a count that restarts with each epoch continues where the last epoch ended."""

    base: float = 0.0
    last: float | None = None

    def of(self, line: LossLine) -> tuple[float | None, float | None]:
        """The step of a line within the whole job, and the job's last step, as far as known."""
        if line.step is None:
            # A log that also counts steps has no use for an epoch as position.
            return (line.epoch, line.epochs) if self.last is None else (None, None)
        if self.last is not None and line.step < self.last:
            self.base += self.last
        self.last = line.step
        if line.epochs and line.steps:
            return self.base + line.step, line.epochs * line.steps
        return self.base + line.step, line.steps if self.base == 0 else None


def _evenly(lines: list[bytes]) -> list[bytes]:
    if len(lines) <= MAX_LOSSES:
        return lines
    return [lines[(place + 1) * len(lines) // MAX_LOSSES - 1] for place in range(MAX_LOSSES)]


def _pair(hit: Any) -> tuple[float | None, float | None]:
    if hit is None:
        return None, None
    here, end = float(hit.group(1)), hit.group(2)
    last = float(end) if end is not None else None
    return here, last if last and here <= last else None


def _float(text: bytes) -> float:
    value = float(text)
    return math.copysign(math.inf, value) if abs(value) > 1e300 else value
