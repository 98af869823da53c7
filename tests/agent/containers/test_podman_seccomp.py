"""The filter of system calls that is made of Podman's own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.runtime.container.engine import EngineError
from nodeagent.runtime.podman import runtime as podman_runtime
from nodeagent.runtime.podman.seccomp import CLOSED, without_ways_up
from nodeagent.runtime.port import RuntimeUnavailable
from tests.agent.conftest import KeptForker, runtime_under_test
from tests.faults.disks import filled, small_disk

ALLOWED_TO_ALL = {"names": ["read", "clone", "clone3", "unshare", "mount"], "action": "SCMP_ACT_ALLOW", "args": []}
CONDITIONAL = {"names": ["setns", "stime"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "excludes": {"caps": ["X"]}}
OLD = {"name": "keyctl", "action": "SCMP_ACT_ALLOW"}


def made_of(*rules: dict[str, Any]) -> list[dict[str, Any]]:
    made = without_ways_up({"defaultAction": "SCMP_ACT_ERRNO", "archMap": [1], "syscalls": [*rules]})
    assert (made["defaultAction"], made["archMap"]) == ("SCMP_ACT_ERRNO", [1])
    return [dict(rule) for rule in made["syscalls"]]


def test_what_is_closed_is_allowed_by_no_rule() -> None:
    rules = made_of(ALLOWED_TO_ALL, CONDITIONAL, OLD)
    allowed = [rule for rule in rules if rule["action"] == "SCMP_ACT_ALLOW"]
    names = {name for rule in allowed for name in rule["names"]}
    assert names == {"read", "clone"}
    assert all(rule["args"] for rule in allowed if "clone" in rule["names"])
    refused = {name for rule in rules if rule.get("errnoRet") == 1 and "args" not in rule for name in rule["names"]}
    assert refused >= CLOSED | {"stime"}


def test_what_else_the_engine_says_stays() -> None:
    assert {**CONDITIONAL, "names": ["stime"]} in made_of(ALLOWED_TO_ALL, CONDITIONAL)


def test_only_a_clone_without_namespaces_is_allowed() -> None:
    (allowed,) = (
        rule
        for rule in made_of(ALLOWED_TO_ALL)
        if rule["names"] == ["clone"] and rule["action"] == "SCMP_ACT_ALLOW" and "excludes" in rule
    )
    (argument,) = allowed["args"]
    assert argument == {"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}


@pytest.mark.parametrize("profile", [{}, {"syscalls": []}, {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": 7}])
def test_what_is_no_profile_is_refused(profile: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="it has no rules"):
        without_ways_up(profile)


@pytest.mark.parametrize("content", [None, "nonsense", "[]", json.dumps({"syscalls": []})])
def test_an_agent_does_not_start_where_the_engine_has_no_filter(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forkers: Callable[[str], KeptForker]
) -> None:
    profile = tmp_path / "profile.json"
    if content is not None:
        profile.write_text(content)
    monkeypatch.setattr(podman_runtime.PodmanEngine, "seccomp_profile", lambda _: str(profile))
    with pytest.raises(RuntimeUnavailable, match=f"containers need its seccomp profile, and '{profile}' cannot be"):
        runtime_under_test("podman", tmp_path / "state", forkers)


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"host": {}}', '{"host": {"security": 7}}'])
def test_an_engine_that_tells_of_no_filter_is_said_to_be_unfit(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podman_runtime.PodmanEngine, "_ask", lambda *_: said)
    with pytest.raises(EngineError, match="podman info does not tell of its seccomp profile"):
        podman_runtime.PodmanEngine({}).seccomp_profile()


def fill(path: Path) -> None:
    """Have a file take what is left of its disk."""
    disk = os.statvfs(path.parent)
    path.write_bytes(bytes(disk.f_bavail * disk.f_frsize))


def test_the_filter_is_written_where_what_jobs_left_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forkers: Callable[[str], KeptForker]
) -> None:
    profile, state = tmp_path / "profile.json", tmp_path / "state"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [ALLOWED_TO_ALL]}))
    monkeypatch.setattr(podman_runtime.PodmanEngine, "seccomp_profile", lambda _: str(profile))
    state.mkdir()
    with small_disk(state, 4, with_content=False):
        with filled(state), pytest.raises(RuntimeUnavailable, match="No space left"):
            runtime_under_test("podman", state, forkers)
        left = state / "allocations" / "7.gone"
        left.mkdir()
        fill(left / "large")
        runtime_under_test("podman", state, forkers).runtime.close()
        # Nothing is written where it is there already.
        fill(state / "large")
        runtime_under_test("podman", state, forkers).runtime.close()
