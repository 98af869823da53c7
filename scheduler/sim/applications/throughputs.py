"""Tables of measured training throughputs in the JSON format of Gavel and Shockwave.

The outer key is a GPU type, with the suffix `_unconsolidated` for scattered gangs; the inner key is `('<model>',
<GPUs>)`. Its value maps `null` to the steps per second alone, and the key of another model to those of both when they
share their GPUs.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.sim.applications.measured import ApplicationError

_SCATTERED = "_unconsolidated"

Key = tuple[str, int]  # a model and its number of GPUs


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Steps a second by model and number of GPUs, then by GPU type; types are in upper case, as `V100`."""

    alone: Mapping[Key, Mapping[str, float]]
    scattered: Mapping[Key, Mapping[str, float]]  # on more nodes than necessary
    # of the first and the second model, sharing GPUs
    pairs: Mapping[tuple[Key, Key], Mapping[str, tuple[float, float]]]

    def rates(self, model: str, gpus: int) -> Mapping[str, float]:
        """Steps per second alone by GPU type, without types that cannot run the model; empty if never measured."""
        return self.alone.get((model, gpus), {})

    def scattered_rates(self, model: str, gpus: int) -> Mapping[str, float]:
        """The same on more nodes than necessary; where that was not measured, the rate on the fewest nodes."""
        return {**self.rates(model, gpus), **self.scattered.get((model, gpus), {})}

    def models(self, gpus: int) -> tuple[str, ...]:
        """The models measured on `gpus` GPUs, sorted."""
        return tuple(sorted(model for model, scale in self.alone if scale == gpus))


def read_throughputs(path: Path, *, prefer: tuple[str, ...] = ("simulation_throughputs.json",)) -> Throughputs:
    """The table in a file, or in the first preferred file of a folder.

    Raises:
        ApplicationError: there is no table, or it is malformed.
    """
    if path.is_dir():
        found = [path / name for name in prefer if (path / name).is_file()]
        if not found:
            raise ApplicationError(f"{path}: no throughputs here; looked for {', '.join(prefer)}")
        path = found[0]
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ApplicationError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ApplicationError(f"{path}: not JSON: {error}") from None
    try:
        return _throughputs(table)
    except (AttributeError, KeyError, SyntaxError, TypeError, ValueError) as error:
        raise ApplicationError(f"{path}: not a table of throughputs: {error}") from None


def _throughputs(table: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Throughputs:
    alone: dict[Key, dict[str, float]] = {}
    scattered: dict[Key, dict[str, float]] = {}
    pairs: dict[tuple[Key, Key], dict[str, tuple[float, float]]] = {}
    keys: dict[str, Key] = {}

    def key(text: str) -> Key:
        if text not in keys:
            model, gpus = ast.literal_eval(text)
            if not (isinstance(model, str) and isinstance(gpus, int)):
                raise ValueError(f"{text} is not ('<model>', <GPUs>)")
            keys[text] = (model, gpus)
        return keys[text]

    for worker_type, jobs in table.items():
        into = scattered if worker_type.endswith(_SCATTERED) else alone
        gpu_type = worker_type.removesuffix(_SCATTERED).upper()
        for text, entry in jobs.items():
            job = key(text)
            rate = _rate(entry["null"])
            if rate > 0:
                into.setdefault(job, {})[gpu_type] = rate
            if into is scattered:
                continue
            for other, rates in entry.items():
                if other != "null":
                    first, second = rates
                    pairs.setdefault((job, key(other)), {})[gpu_type] = (_rate(first), _rate(second))
    return Throughputs(alone, scattered, pairs)


def _rate(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{value!r} is not a number of steps a second")
    return float(value)
