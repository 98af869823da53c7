"""The key `batch` of a spec."""

from __future__ import annotations

from typing import Any

import pytest

from muster.common.errors import Invalid
from muster.jobs.spec.spec import parse_spec

ELASTIC = {"gpus": 1, "checkpoint": {}, "elastic": {"min": 1, "max": 4, "over": "gang"}}


def test_a_batch_script_is_stored_with_its_defaults() -> None:
    given = {"command": "true", "nodes": 2, "batch": {"output": "%x-%j.out", "tasks": 3, "tasks_per_node": [2, 1]}}
    stored = parse_spec(given).stored()["batch"]
    assert stored == given["batch"] | {
        "open_mode": "truncate",
        "step_gpus": True,
        "export": "ALL",
        "signal_before_s": 60,
        "signal_script": False,
    }
    assert "batch" not in parse_spec({"command": "true"}).stored()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"batch": {"folder": "run"}}, "batch.folder"),
        ({"batch": {"output": "a\nb"}}, "batch.output"),
        ({"batch": {"open_mode": "a"}}, "batch.open_mode"),
        ({"batch": {"tasks": 0}}, "batch.tasks"),
        ({"batch": {"signal": "usr1"}}, "batch.signal"),
        ({"batch": {"outptu": "a"}}, "batch.outptu"),
        ({"nodes": 2, "batch": {"tasks_per_node": [1]}}, "batch.tasks_per_node"),
        ({"batch": {"tasks_per_node": [0]}}, "batch.tasks_per_node.0"),
        ({"batch": {}, **ELASTIC}, "batch"),
        ({"batch": {}, "slurm_env": True}, "slurm_env"),
        ({"batch": True}, "batch"),
    ],
    ids=str,
)
def test_keys_that_do_not_fit_are_refused_and_the_field_named(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_spec({"command": "true", **spec})
    assert [error.field for error in refused.value.errors] == [field]
