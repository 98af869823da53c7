"""The GPUs and nodes that a spec asks for: how they are read, and how they are stored."""

from __future__ import annotations

from typing import Any

import pytest

from muster.fleet.models import Pool
from muster.jobs.spec.gpus import GpuChoice
from muster.jobs.spec.requests import request_of_spec
from muster.jobs.spec.shares import Shares
from muster.jobs.spec.spec import json_schema, parse_spec


@pytest.mark.parametrize(
    ("gpus", "choices", "stored"),
    [
        (4, [GpuChoice("", 4)], 4),
        ("4", [GpuChoice("", 4)], 4),
        ("A100:04", [GpuChoice("A100", 4)], "A100:4"),
        ({"any_of": ["V100:8"]}, [GpuChoice("V100", 8)], {"any_of": ["V100:8"]}),
        (
            {"any_of": ["V100:08", "A100:4"]},
            [GpuChoice("V100", 8), GpuChoice("A100", 4)],
            {"any_of": ["V100:8", "A100:4"]},
        ),
    ],
)
def test_gpus_are_choices_in_order_of_preference(gpus: Any, choices: list[GpuChoice], stored: Any) -> None:
    spec = parse_spec({"command": "x", "gpus": gpus})
    assert list(spec.choices) == choices
    assert spec.stored()["gpus"] == stored
    assert parse_spec(spec.stored()).choices == spec.choices


def test_a_job_without_gpus_has_one_choice_of_none() -> None:
    spec = parse_spec({"command": "x"})
    assert spec.choices == (GpuChoice("", 0),)
    assert not spec.has_gpus


def test_a_name_that_is_there_twice_counts_once() -> None:
    spec = parse_spec({"command": "x", "nodes_in": ["gpu02", "gpu01", "gpu02"], "exclude_nodes": ["gpu07", "gpu07"]})
    assert spec.nodes_in == ["gpu02", "gpu01"]
    assert spec.stored()["exclude_nodes"] == ["gpu07"]


def test_a_spec_stored_before_these_keys_allows_all_nodes() -> None:
    stored = parse_spec({"command": "x", "gpus": "A100:4"}).stored()
    del stored["nodes_in"], stored["exclude_nodes"]
    spec = parse_spec(stored)
    assert (spec.nodes_in, spec.exclude_nodes, spec.choices) == ([], [], (GpuChoice("A100", 4),))


def test_the_schema_describes_each_form_of_gpus() -> None:
    schema = json_schema()
    forms = schema["properties"]["gpus"]["oneOf"]
    assert {"$ref": "#/$defs/AnyOf"} in forms
    assert {"anyOf": [{"type": "integer"}, {"type": "string"}]} in forms
    assert schema["$defs"]["AnyOf"]["properties"]["any_of"]["items"] == {"type": "string"}


def test_a_job_without_gpus_accepts_any_type_whatever_it_names() -> None:
    request = request_of_spec(parse_spec({"command": "true", "gpus": "A100:0"}), Shares(Pool()))
    assert (request.needs_gpus, request.first.gpu_type) == (False, None)
