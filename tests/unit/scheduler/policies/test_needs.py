"""Facts about jobs that policies need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scheduler.engine.policy import POLICIES, InformedPolicy, Need
from scheduler.policies.gavel.policy import OBJECTIVES, Gavel

PAGE = (Path(__file__).parents[4] / "docs" / "policies" / "gavel.md").read_text(encoding="utf-8")


def needs(policy: str, **params: Any) -> set[str]:
    made = POLICIES.make(policy, params)
    return {str(need) for need in made.needs} if isinstance(made, InformedPolicy) else set()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gavels_objectives_need_what_its_page_says(objective: str) -> None:
    (words,) = re.findall(rf"^\| `{objective}` \|.*\| ([^|]*) \|$", PAGE, re.MULTILINE)
    told = {"rates": "rates", "remaining time": "remaining"}
    assert needs("gavel", objective=objective) == {need for word, need in told.items() if word in words}


def test_without_rates_gavel_needs_remaining_times_at_most() -> None:
    assert Gavel(objective="makespan", aware=False).needs == {Need.REMAINING}
    assert not Gavel(aware=False).needs


@pytest.mark.parametrize(
    ("policy", "params", "expected"),
    [
        ("fifo", {}, set()),
        ("sjf", {}, {"remaining"}),
        ("backfill", {}, set()),
        ("backfill", {"optimistic": True}, {"remaining"}),
        ("backfill", {"shortest_first": True}, {"remaining"}),
        ("optimus", {}, {"rates", "remaining"}),
        ("tiresias", {}, set()),
        ("tiresias", {"slowdown": 2}, {"rates"}),
        ("philly", {"long_jobs_wait_for_locality": True}, {"remaining"}),
    ],
)
def test_policies_need_what_they_read(policy: str, params: dict[str, Any], expected: set[str]) -> None:
    assert needs(policy, **params) == expected
