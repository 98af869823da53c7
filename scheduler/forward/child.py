"""A forward run in a process of its own, whose parent does not load the simulator for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.engine.cycle import CycleConfig
from scheduler.forward.answer import to_json
from scheduler.model import Snapshot


def answer_of(items: Iterator[tuple[Snapshot, CycleConfig]], *, seed: int, budget_s: float) -> dict[str, Any]:
    """The stored form of the answer for the first item."""
    from scheduler.forward.run import run_forward  # noqa: PLC0415 - the simulator is loaded in the child alone

    snapshot, config = next(items)
    return to_json(run_forward(snapshot, config, seed=seed, budget_s=budget_s))
