"""What is wrong with a spec, in words that say what to write."""

from __future__ import annotations

from typing import Any

import pytest

from muster.common.errors import Invalid
from muster.jobs.spec import parse_spec


@pytest.mark.parametrize(
    ("key", "value", "field", "message"),
    [
        ("tags", [1], "tags", "write a mapping, such as {project: seg}"),
        ("code", {"upload": "zz"}, "code.upload", "write the SHA-256 of an upload, 64 hex digits"),
        ("gpus", "many", "gpus", "'many' is no number of GPUs per node: write 4, or A100:4"),
        ("nodes", "two", "nodes", "write a whole number, such as 4"),
        ("nodes", 0, "nodes", "write 1 or more"),
        ("preemptible", "yes", "preemptible", "write true or false"),
        ("outputs", "x", "outputs", "write a list, such as [a, b]"),
        ("memory", 5, "memory", "write a text; quote one that looks like a number"),
        ("on_disconnect", "x", "on_disconnect", "write stop or keep"),
        ("name", "x" * 201, "name", "write at most 200 characters"),
    ],
)
def test_a_wrong_value_is_told_by_what_to_write(key: str, value: Any, field: str, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_spec({"command": "x", key: value})
    assert [(one.field, one.message) for one in refused.value.errors] == [(field, message)]
