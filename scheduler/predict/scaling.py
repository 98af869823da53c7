"""Speed-up of a job on more GPUs of one type: by its measured rates, and by Amdahl's law where none is known.

By that law a step takes `serial + parallel / n` on n GPUs. Until two sizes of a job are measured, `SERIAL` of its step
on one GPU is serial. Source: Amdahl, "Validity of the single processor approach to achieving large scale computing
capabilities", AFIPS 1967.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

SERIAL = 0.05  # the part of a step on one GPU that more GPUs do not shorten, until it is measured


def speeds_of(measured: Mapping[int, float], max_gpus: int) -> tuple[float, ...]:
    """The speeds on 1 to `max_gpus` GPUs, relative to one GPU; `measured` are rates by number of GPUs, in any unit.

    1. Fit the law to the measured rates.
    2. A measured size has its measured rate. The others follow the law, as much above or below it as the measured
       sizes are on average.

    Rates that are not positive and finite do not count.
    """
    rates = {gpus: rate for gpus, rate in measured.items() if gpus >= 1 and 0 < rate < math.inf}
    serial = _serial(rates)
    speeds = {gpus: 1 / (serial + (1 - serial) / gpus) for gpus in range(1, max_gpus + 1)}
    if rates:
        known = [math.log(rate * (serial + (1 - serial) / gpus)) for gpus, rate in rates.items()]
        scale = math.exp(math.fsum(known) / len(known))
        speeds = {gpus: rates.get(gpus, scale * speed) for gpus, speed in speeds.items()}
    return tuple(speed / speeds[1] for speed in speeds.values())


def _serial(rates: Mapping[int, float]) -> float:
    """The serial part of a step on one GPU, 0 to 1, by least squares of the relative errors of step times."""
    if len(rates) < 2:
        return SERIAL
    # Minimise the sum of (rate * (a + b / n) - 1)^2 over a and b, with all rates in units of the largest.
    largest = max(rates.values())
    rows = [(rate / largest, rate / largest / gpus) for gpus, rate in rates.items()]
    x, y = math.fsum(p for p, _ in rows), math.fsum(q for _, q in rows)
    xx, yy = math.fsum(p * p for p, _ in rows), math.fsum(q * q for _, q in rows)
    xy = math.fsum(p * q for p, q in rows)
    det = xx * yy - xy * xy
    if det <= 0:
        return SERIAL
    a, b = x * yy - y * xy, y * xx - x * xy
    return min(max(a / (a + b), 0.0), 1.0) if a + b > 0 else SERIAL
