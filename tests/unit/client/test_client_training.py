"""Training in `muster show`."""

from __future__ import annotations

from typing import Any

from muster_client.show.trainingsheet import training_lines

NOTHING: dict[str, Any] = {"newest": [], "advice": [], "checkpoint": None, "rules": []}


def lines(**told: Any) -> list[str]:
    training: Any = {**NOTHING, **told}
    return [line.plain for line in training_lines(training)]


def test_where_nothing_is_known_nothing_is_said() -> None:
    assert lines() == []


def test_the_newest_figures_are_said_in_a_line() -> None:
    figures = [
        {"name": "acc", "step": 10.0, "value": 0.123456789, "at": ""},
        {"name": "loss", "step": 12.0, "value": None, "at": ""},
        {"name": "total", "step": 12.0, "value": 100.0, "at": ""},
    ]
    assert lines(newest=figures) == ["Figures: acc 0.12346, loss not finite (step 12)"]
    many = [{"name": f"f{number}", "step": None, "value": 1.0, "at": ""} for number in range(14)]
    assert lines(newest=many)[0].endswith("f11 1 and 2 more")


def test_advice_and_rules_are_said_and_control_characters_are_not() -> None:
    advice = {"kind": "nan", "text": "step 3\x1b[2J", "step": 3.0, "attempt": 1, "at": ""}
    rule = {"rule": "hang", "line": "it\x07 hangs", "actions": [], "attempt": 1, "rank": 0, "node": "n", "at": ""}
    said = lines(advice=[advice], rules=[rule])
    assert said[0].startswith("Advice: the loss is not a number (NaN): step 3")
    assert said[1].startswith("Rule: hang matched: it")
    assert "\x1b" not in "".join(said)


def test_the_interval_comes_with_what_it_follows_from() -> None:
    interval = {
        "daly_s": 4800.0,
        "young_s": 4900.0,
        "cost_s": 60.0,
        "measured": "reported",
        "measurements": 3,
        "mtbf_s": 201_600.0,
        "failures": 3,
        "node_hours": 15_000.0,
        "lost_share": 0.02,
    }
    assert lines(checkpoint=interval) == [
        "Checkpoints: save one every 80 min (by Daly; by Young 81.7 min): one takes 60 s, and its nodes fail every"
        " 2.33 d on average (3 failures in 15000 node-hours of its pool)"
    ]
    assert "it took 60 s to go when it was asked to" in lines(checkpoint={**interval, "measured": "stops"})[0]
