"""Faults of a spec, in words that say what to write."""

from __future__ import annotations

from typing import Any

import pytest

from muster.common.errors import Invalid
from muster.jobs.spec.spec import parse_spec

_TYPE_AND_SIZE = "write a GPU type and how many of it on each node, such as A100:4"
_NODE = "write a name such as gpu01"


@pytest.mark.parametrize(
    ("key", "value", "field", "message"),
    [
        ("tags", [1], "tags", "write a mapping, such as {project: seg}"),
        ("code", {"upload": "zz"}, "code.upload", "write the SHA-256 of an upload, 64 hex digits"),
        ("gpus", "many", "gpus", "'many' is not a number of GPUs per node: write 4, or A100:4"),
        ("gpus", [4], "gpus", "write 4, or A100:4"),
        ("gpus", {"any_of": []}, "gpus.any_of", "write 1 or more entries"),
        ("gpus", {"any_of": "A100:4"}, "gpus.any_of", "write a list, such as [a, b]"),
        ("gpus", {}, "gpus.any_of", "it is required"),
        ("gpus", {"any_of": [f"T{number}:1" for number in range(9)]}, "gpus.any_of", "write at most 8 entries"),
        ("gpus", {"any_of": ["A100:4", "A100:8"]}, "gpus.any_of", "A100 is there twice: name each GPU type once"),
        ("gpus", {"any_of": ["A100:4", 8]}, "gpus.any_of.1", _TYPE_AND_SIZE),
        ("gpus", {"any_of": [{"A100": 4}]}, "gpus.any_of.0", _TYPE_AND_SIZE),
        ("gpus", {"any_of": ["A100:0"]}, "gpus.any_of.0", _TYPE_AND_SIZE),
        ("gpus", {"any_of": ["A100:2000"]}, "gpus.any_of.0", "2000 GPUs on one node: at most 1024"),
        ("gpus", {"any_off": ["A100:4"], "any_of": ["A100:4"]}, "gpus.any_off", "unknown key; did you mean 'any_of'?"),
        ("gpus", {"vram": "40GB", "any_of": ["A100:4"]}, "gpus.vram", "unknown key; known keys: any_of, count"),
        ("gpus", {"vram": "40", "count": 1}, "gpus.vram", "'40' is not a size: write 512MiB or 128GiB"),
        ("gpus", {"vram": "40GiB", "count": 0}, "gpus.count", "write 1 or more"),
        ("nodes_in", "gpu01", "nodes_in", "write a list, such as [a, b]"),
        ("nodes_in", [7], "nodes_in.0", "write text, in quotes if it looks like a number"),
        ("exclude_nodes", ["gpu01", "GPU 7"], "exclude_nodes.1", "'GPU 7' cannot be the name of a node: " + _NODE),
        ("nodes", "two", "nodes", "write a whole number, such as 4"),
        ("nodes", 0, "nodes", "write 1 or more"),
        ("preemptible", "yes", "preemptible", "write true or false"),
        ("outputs", "x", "outputs", "write a list, such as [a, b]"),
        ("memory", 5, "memory", "5 has no unit: write a size with its unit, e.g. 512MiB, 64GiB"),
        ("time", 90, "time", "90 has no unit: write a duration with its unit, e.g. 90s, 30m, 24h"),
        ("on_disconnect", "x", "on_disconnect", "write stop or keep"),
        ("name", "x" * 201, "name", "write at most 200 characters"),
    ],
)
def test_a_wrong_value_is_told_by_what_to_write(key: str, value: Any, field: str, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_spec({"command": "x", key: value})
    assert [(one.field, one.message) for one in refused.value.errors] == [(field, message)]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"nodes_in": ["gpu01"], "nodes": 2},
            "it names 1 node; this job needs 2. Name more nodes, or none to allow all",
        ),
        (
            {"nodes_in": ["gpu01", "gpu02"], "exclude_nodes": ["gpu02", "gpu01"]},
            "it names 2 nodes, 2 of them in exclude_nodes; this job needs 1. Name more nodes, or none to allow all",
        ),
    ],
)
def test_nodes_in_must_leave_as_many_nodes_as_the_job_needs(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_spec({"command": "x", **keys})
    assert [(one.field, one.message) for one in refused.value.errors] == [("nodes_in", message)]
