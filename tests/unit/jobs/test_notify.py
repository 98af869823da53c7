"""The key `notify` of a spec."""

from __future__ import annotations

from typing import Any

import pytest

from muster.common.errors import Invalid
from muster.jobs.spec.spec import parse_spec

READ = {
    "kinds go over every channel": (
        ["failed", "ended"],
        {"mail": ["ended", "failed"], "webhook": ["ended", "failed"]},
    ),
    "a channel alone is told of the end": (["mail"], {"mail": ["ended"], "webhook": []}),
    "kinds and channels": (["webhook", "started"], {"mail": [], "webhook": ["started"]}),
    "nothing": ([], {"mail": [], "webhook": []}),
    "a mapping": ({"mail": ["failed"]}, {"mail": ["failed"], "webhook": []}),
    "an empty mapping": ({}, {"mail": [], "webhook": []}),
    "a word twice": (["failed", "failed", "mail"], {"mail": ["failed"], "webhook": []}),
}


@pytest.mark.parametrize(("given", "stored"), READ.values(), ids=READ)
def test_it_is_stored_by_channel(given: Any, stored: Any) -> None:
    spec = parse_spec({"command": "true", "notify": given})
    assert spec.stored()["notify"] == stored
    # What is stored can be submitted again, as a clone is.
    assert parse_spec(spec.stored()).stored()["notify"] == stored


def test_without_it_the_settings_of_the_owner_count() -> None:
    assert "notify" not in parse_spec({"command": "true"}).stored()


BAD = {
    "an unknown kind": (["faild"], "did you mean 'failed'?"),
    "an unknown channel": ({"pager": ["failed"]}, "'pager' is unknown; known: mail, webhook"),
    "an unknown kind of a channel": ({"mail": ["mail"]}, "mail: 'mail' is unknown"),
    "a word": ("failed", "write a list"),
    "a number": (3, "write a list"),
    "a number in a list": ([3], "'3' is unknown"),
    "a list in a list": ([["failed"]], "is unknown"),
    "no list for a channel": ({"mail": "failed"}, "mail: write a list"),
    "a number for a channel": ({3: ["failed"]}, "'3' is unknown"),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_refused_and_the_field_named(given: Any, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_spec({"command": "true", "notify": given})
    (error,) = refused.value.errors
    assert error.field == "notify"
    assert message in error.message
