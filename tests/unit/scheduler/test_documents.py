"""Meaning of YAML to Muster, and texts that it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.documents import DocumentError, load_yaml

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
    "only a comment": ("# nothing\n", None),
    "a date is text": ("2026-12-01T08:00Z", "2026-12-01T08:00Z"),
    "infinity is text": (".inf", ".inf"),
    "text in quotes": ("['1', \"true\", '']", ["1", "true", ""]),
    "text in a block": ("|\n  1\n", "1\n"),
    "a list": ("[1, a, [], {}]", [1, "a", [], {}]),
    "a mapping": ("a:\nb: {c: -1.5}\n", {"a": None, "b": {"c": -1.5}}),
    "keys as written": ("on: [x]\nenv: {1: a, true: b}\n", {"on": ["x"], "env": {"1": "a", "true": "b"}}),
    "JSON": ('{"a": "1", "b": [null, false, 1.0]}', {"a": "1", "b": [None, False, 1.0]}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), VALUES.values(), ids=VALUES.keys())
def test_it_reads_values_as_yaml_1_2_does(text: str, expected: Any) -> None:
    value = load_yaml(text)
    assert value == expected
    assert type(value) is type(expected)


def test_every_scalar_can_be_kept_as_text() -> None:
    assert load_yaml("a: [1, no, ~, true]\nb:\n", only_text=True) == {"a": ["1", "no", "~", "true"], "b": ""}


REFUSED = {
    "an alias": ("a: &x 1\nb: *x\n", "anchors and aliases .* at line 1, column 4"),
    "a bomb of aliases": ("a: &a [x, x]\nb: &b [*a, *a]\n", "anchors and aliases"),
    "an anchor of a key": ("&x a: 1\n", "anchors and aliases"),
    "a tag": ("command: !!python/object/apply:os.system ['id']\n", "tags .* at line 1, column 10"),
    "a key twice": ("gpus: 1\ngpus: 2\n", "'gpus' is there twice at line 2, column 1"),
    "a key twice below": ("env:\n  A: 1\n  A: 2\n", "'A' is there twice at line 3, column 3"),
    "a key in two ways of writing": ("1: a\n'1': b\n", "'1' is there twice"),
    "a key that is a list": ("[a]: 1\n", "a key has to be text"),
    "two documents": ("a: 1\n---\nb: 2\n", "a single document at line 2, column 1"),
    "broken": ("a: [1\n", "not YAML: .* at line 2, column 1"),
    "too deep": ("[" * 100_000, "nested more than 32 deep at line 1, column 33"),
    "a huge number": ("gpus: 1" + "0" * 5000, "too large a number at line 1, column 7"),
    "a number past all": ("gpus: 1e999", "too large a number"),
    "a control character": ("a: \x00", "not YAML: .*control characters"),
    "half a surrogate pair": ("a: \udcff", "not YAML: .*surrogates"),
}


@pytest.mark.parametrize(("text", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_it_refuses(text: str, expected: str) -> None:
    with pytest.raises(DocumentError, match=expected):
        load_yaml(text)
