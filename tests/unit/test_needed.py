"""Tests that lack something of the machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.needed import PARTS, REQUIRE, needs, skip_without

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("required", "outcome"),
    [
        ("", pytest.skip.Exception),
        ("podman,sshd", pytest.skip.Exception),
        ("docker", pytest.fail.Exception),
        (" podman, docker,", pytest.fail.Exception),
        ("dokcer", pytest.UsageError),
    ],
)
def test_what_lacks_is_skipped_unless_it_has_to_be_there(
    required: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REQUIRE, required)
    with pytest.raises(outcome):
        skip_without("docker", "no engine starts")


def test_a_mark_skips_what_is_not_found_and_fails_what_has_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REQUIRE, raising=False)
    assert needs("chromium", "none", found=False).args == (True,)
    assert needs("chromium", "none", found=True).args == (False,)
    monkeypatch.setenv(REQUIRE, "chromium")
    assert needs("chromium", "none", found=True).args == (False,)
    with pytest.raises(pytest.fail.Exception, match="MUSTER_REQUIRE names chromium: none"):
        needs("chromium", "none", found=False)


def test_nothing_asks_for_a_part_that_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REQUIRE, raising=False)
    with pytest.raises(pytest.UsageError, match="no such part: emacs"):
        skip_without("emacs", "none")


def test_ci_requires_every_part() -> None:
    named = re.search(rf"^ *export {REQUIRE}=(\S+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert named is not None
    assert set(named[1].split(",")) == PARTS
