"""Removal of containers without an allocation is retried, whatever the engine answers."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.runtime.container import strays as strays_module
from nodeagent.runtime.container.engine import EngineError
from nodeagent.runtime.container.strays import Strays
from tests.waiting import eventually


@pytest.mark.parametrize("error", [EngineError("it is in use"), ValueError("unforeseen")], ids=repr)
def test_what_cannot_be_removed_is_tried_again_and_keeps_no_other(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strays_module, "Backoff", lambda **_: SimpleNamespace(wait_s=lambda: 0.01))
    problems = {"first": [error] * 3}
    gone: list[str] = []

    def remove(name: str) -> None:
        if problems.get(name):
            raise problems[name].pop()
        gone.append(name)

    strays = Strays(cast(Any, SimpleNamespace(remove=remove)))
    strays.remove(["first", "second"])
    eventually(lambda: len(gone) == 2, "both are gone")
    assert gone == ["second", "first"]
    # The thread still works for later containers.
    problems["third"] = [error]
    strays.remove(["third"])
    eventually(lambda: len(gone) == 3, "the third is gone")
    strays.close()


def test_what_is_made_late_is_removed_until_its_engine_has_answered_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strays_module, "Backoff", lambda **_: SimpleNamespace(wait_s=lambda: 0.0))
    # A look takes a minute. The engine answers the first four, is then away for two, and makes the container at the
    # fourteenth.
    times, looks, there, removed_at = count(0, 60), count(1), set[str](), list[int]()
    monkeypatch.setattr(strays_module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    last = 0

    def remove(name: str) -> None:
        nonlocal last
        last = next(looks)
        if last in (5, 6):
            raise EngineError("it is away")
        if last == 14:
            there.add(name)
        if name in there:
            there.discard(name)
            removed_at.append(last)

    strays = Strays(cast(Any, SimpleNamespace(remove=remove)))
    strays.remove_also_late("late")
    eventually(lambda: strays._thread is None, "the last look")
    assert (removed_at, there, strays._left) == ([14], set(), [])
    # One look at once, three more and two in vain, and then ten minutes from the seventh on.
    assert last == 17
