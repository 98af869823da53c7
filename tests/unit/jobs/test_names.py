"""Names in a spec that lead to a parent folder."""

from __future__ import annotations

from typing import Any

import pytest

from muster.common.errors import Invalid
from muster.jobs.spec.spec import parse_spec


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "../../etc/passwd"}, "name"),
        ({"name": "a\\..\\b"}, "name"),
        ({"name": ".."}, "name"),
        ({"tags": {"run/../../x": "1"}}, "tags"),
        ({"outputs": ["a\\..\\b"]}, "outputs.0"),
        ({"workdir": "a/../b"}, "workdir"),
    ],
)
def test_a_name_with_a_parent_folder_is_refused_by_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_spec({"command": "true", **fields})
    assert [error.field for error in refusal.value.errors] == [field]


@pytest.mark.parametrize("name", ["lr..2", "team/run-3", "v1...", "..cache"])
def test_dots_inside_a_name_are_allowed(name: str) -> None:
    assert parse_spec({"command": "true", "name": name}).name == name
