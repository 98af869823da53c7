"""Containers that nobody answers for: tried again, whatever their engine says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.runtime.container import strays as strays_module
from nodeagent.runtime.container.engine import EngineError
from nodeagent.runtime.container.strays import Strays
from tests.agent.waiting import eventually


@pytest.mark.parametrize("error", [EngineError("it is in use"), ValueError("nobody foresaw it")], ids=repr)
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
    # And what comes later finds somebody who tries.
    problems["third"] = [error]
    strays.remove(["third"])
    eventually(lambda: len(gone) == 3, "the third is gone")
    strays.close()
