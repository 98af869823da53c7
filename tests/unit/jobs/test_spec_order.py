"""The order of a spec's keys, wherever one is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

from muster.jobs.spec.spec_order import KEYS, in_order

SPEC_TEXT = Path(__file__).parents[3] / "frontend/src/pages/submit/specText.ts"


def test_name_command_and_gpus_come_first_and_what_postgres_sorted_is_put_right() -> None:
    stored = {
        "vc": "vision",
        "env": {"B": "1", "AAA": "2"},
        "gpus": 1,
        "name": "ddp",
        "retry": {"on": ["failed"], "max": 3},
        "command": "true",
        "checkpoint": {"grace": "30s", "signal": "TERM"},
        "a key of before": 1,
    }
    assert json.dumps(in_order(stored)) == json.dumps(
        {
            "name": "ddp",
            "command": "true",
            "gpus": 1,
            "env": {"AAA": "2", "B": "1"},
            "vc": "vision",
            "retry": {"max": 3, "on": ["failed"]},
            "checkpoint": {"signal": "TERM", "grace": "30s"},
            "a key of before": 1,
        }
    )


def test_the_pages_write_keys_in_the_same_order() -> None:
    listed = re.search(r"const ORDER = \[(.*?)\]", SPEC_TEXT.read_text(), re.DOTALL)
    assert listed is not None
    assert tuple(re.findall(r'"(\w+)"', listed[1])) == KEYS
