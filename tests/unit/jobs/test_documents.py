"""Documents from strangers: plain data, named where they are not."""

from __future__ import annotations

import pytest

from muster.jobs.spec.documents import Unreadable, read_json, read_yaml


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"env": {"A": "x\\u0000y"}}', "env.A"),
        (b'{"retry": {"on": ["\\ud800"]}}', "retry.on.0"),
        (b'{"gpus": 1e400}', "gpus"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named_by_its_path(body: bytes, field: str) -> None:
    with pytest.raises(Unreadable) as refusal:
        read_json(body)
    assert [error.field for error in refusal.value.errors] == [field]


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"a": 1, "a": 2}', b'{"a": NaN}', b"\xff", b"{", b"1" * 5000],
    ids=["deep", "twice", "NaN", "not UTF-8", "unfinished", "a number of 5,000 digits"],
)
def test_json_that_is_not_plain_is_refused(body: bytes) -> None:
    with pytest.raises(Unreadable):
        read_json(body)


@pytest.mark.parametrize("body", [b"a: [", b"\xff", b'a: "x\\0y"'], ids=["unfinished", "not UTF-8", "NUL"])
def test_yaml_that_is_not_plain_is_refused(body: bytes) -> None:
    with pytest.raises(Unreadable):
        read_yaml(body)
