"""Reading job specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster_client.errors import SpecError
from muster_client.local.spec import MAX_SPEC_BYTES, apply_sets, load_spec, parse_value, read_spec

VALUES: dict[str, tuple[str, Any]] = {
    "a number": ("4", 4),
    "a GPU type": ("A100:4", "A100:4"),
    "a fraction": ("1e-3", 0.001),
    "a duration": ("24h", "24h"),
    "no base sixty": ("1:30", "1:30"),
    "no octal": ("010", 10),
    "on is text": ("on", "on"),
    "no is text": ("no", "no"),
    "true": ("true", True),
    "null": ("~", None),
    "empty": ("", None),
    "a date is text": ("2026-12-01T08:00Z", "2026-12-01T08:00Z"),
    "infinity is text": (".inf", ".inf"),
    "a list": ("[1, a]", [1, "a"]),
}


@pytest.mark.parametrize(("text", "expected"), VALUES.values(), ids=VALUES.keys())
def test_it_reads_values_as_yaml_1_2_does(text: str, expected: Any) -> None:
    value = parse_value(text)
    assert value == expected
    assert type(value) is type(expected)


REFUSED = {
    "an alias": ("a: &x 1\nb: *x\n", "anchors and aliases"),
    "a bomb of aliases": ("a: &a [x, x]\nb: &b [*a, *a]\n", "anchors and aliases"),
    "a tag": ("command: !!python/object/apply:os.system ['id']\n", "tags"),
    "a key twice": ("gpus: 1\ngpus: 2\n", "'gpus' is there twice"),
    "a key twice below": ("env:\n  A: 1\n  A: 2\n", "'A' is there twice"),
    "a key that is a list": ("[a]: 1\n", "has to be text"),
    "a list": ("- a\n", "has to be a mapping"),
    "nothing": ("", "has to be a mapping"),
    "two documents": ("a: 1\n---\nb: 2\n", "single document"),
    "broken": ("a: [1\n", "line 2"),
    "too deep": ("a: " + "[" * 100 + "]" * 100, "nested"),
    "a huge number": ("gpus: 1" + "0" * 500, "too large"),
    "a number past all": ("gpus: 1e999", "too large"),
    "a control character": ("a: \x00", "not YAML"),
}


@pytest.mark.parametrize(("text", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_it_refuses(text: str, expected: str) -> None:
    with pytest.raises(SpecError, match=expected):
        load_spec(text)


def test_an_error_names_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("gpus: 1\ngpus: 2\n")
    with pytest.raises(SpecError, match=r"job\.yaml, line 2, column 1"):
        read_spec(path)


def test_it_refuses_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("a: " + "x" * MAX_SPEC_BYTES)
    with pytest.raises(SpecError, match="1 MiB"):
        read_spec(path)


def test_keys_are_kept_as_they_are_written() -> None:
    assert load_spec("retry: {on: [failed]}\nenv: {1: a, true: b}\n") == {
        "retry": {"on": ["failed"]},
        "env": {"1": "a", "true": "b"},
    }


def test_json_is_a_spec_too() -> None:
    assert load_spec('{"command": "x", "env": {"A": "1"}}') == {"command": "x", "env": {"A": "1"}}


def test_set_reaches_into_mappings_and_leaves_the_rest() -> None:
    spec = {"gpus": 1, "env": {"A": "1"}}
    assert apply_sets(spec, ["gpus=2", "env.B=x=y", "checkpoint.grace=120s"]) == {
        "gpus": 2,
        "env": {"A": "1", "B": "x=y"},
        "checkpoint": {"grace": "120s"},
    }
    assert spec == {"gpus": 1, "env": {"A": "1"}}


@pytest.mark.parametrize("item", ["gpus", "=1", "gpus.x=1"])
def test_set_refuses_what_makes_no_sense(item: str) -> None:
    with pytest.raises(SpecError):
        apply_sets({"gpus": 1}, [item])
