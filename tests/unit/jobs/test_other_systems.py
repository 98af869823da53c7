"""Keys of other systems in a spec: what their users are told to write instead."""

from __future__ import annotations

import pytest

from muster.common.errors import Invalid
from muster.jobs.spec.documents import read_yaml
from muster.jobs.spec.other_systems import MISSING, USE
from muster.jobs.spec.spec import JobSpec, parse_spec


def refusals(spec: dict[str, object]) -> dict[str, str]:
    """The messages by field."""
    with pytest.raises(Invalid) as refused:
        parse_spec({"command": "x", **spec})
    return {one.field: one.message for one in refused.value.errors}


@pytest.mark.parametrize("keys", USE, ids=lambda keys: keys.split()[0])
def test_what_is_to_be_written_instead_is_accepted(keys: str) -> None:
    example = USE[keys][0]
    instead = read_yaml(example.encode())
    assert isinstance(instead, dict)
    parse_spec({"command": "x", **instead})
    for key in keys.split():
        assert refusals({key: 1})[key].startswith(f"write {example} (")


def test_no_key_of_another_system_is_one_of_ours() -> None:
    ours = {field.alias or name for name, field in JobSpec.model_fields.items()}
    assert not ours & {key for keys in (*USE, *MISSING) for key in keys.split()}


@pytest.mark.parametrize("key", ["restart_policy", "restart-policy", "restartPolicy"])
def test_each_way_to_write_a_key_is_known(key: str) -> None:
    assert refusals({key: "Always"})[key].startswith("write retry: ")


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"job_array": "0-9"}, "job_array", "write array: 0-9"),
        ({"ports": [8888]}, "ports", "cannot be reached through the platform yet"),
        ({"secrets": ["KEY"]}, "secrets", "members of the tenant can read it"),
        ({"checkpoint": {"path": "ckpt"}}, "checkpoint.path", "the job itself decides"),
    ],
)
def test_what_does_not_exist_is_said_to_be_missing(spec: dict[str, object], field: str, message: str) -> None:
    assert message in refusals(spec)[field]


def test_code_from_git_has_one_message() -> None:
    found = refusals({"code": {"git": "https://github.com/a/b", "ref": "main"}})
    assert list(found) == ["code"]
    assert "not supported yet; clone it" in found["code"]
