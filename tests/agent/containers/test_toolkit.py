"""The version of the NVIDIA Container Toolkit, as its programs say it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeagent.watch import toolkit
from tests.agent.conftest import AgentProcess
from tests.agent.fake_platform import FakePlatform


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolkit, "_PLACES", str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("name", "said", "version"),
    [
        ("nvidia-ctk", "NVIDIA Container Toolkit CLI version 1.17.8\ncommit: f202b80a", "1.17.8"),
        ("nvidia-ctk", "NVIDIA Container Toolkit CLI version 1.18.0-rc.1", "1.18.0-rc.1"),
        ("nvidia-container-toolkit", "NVIDIA Container Runtime Hook version 1.13.5", "1.13.5"),
        ("nvidia-container-runtime-hook", "version: 1.9.0", "1.9.0"),
    ],
)
def test_the_version_is_what_a_program_of_the_toolkit_says(programs: Path, name: str, said: str, version: str) -> None:
    install(programs, name, f"echo '{said}'")
    assert toolkit.version() == version


def test_where_there_is_no_toolkit_there_is_no_version(programs: Path) -> None:
    assert toolkit.version() == ""


@pytest.mark.parametrize("script", ["exit 1", "echo something else", "printf '\\377\\376'"])
def test_a_toolkit_that_does_not_tell_is_not_taken_for_none(programs: Path, script: str) -> None:
    install(programs, "nvidia-ctk", script)
    assert toolkit.version() == toolkit.UNKNOWN


def test_one_that_hangs_or_cannot_run_is_given_up(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "_ANSWER_WITHIN_S", 0.1)
    install(programs, "nvidia-ctk", "while :; do :; done")
    assert toolkit.version() == toolkit.UNKNOWN
    (programs / "nvidia-ctk").write_text("#!/nowhere\n")
    assert toolkit.version() == toolkit.UNKNOWN


def test_the_agent_tells_it_when_it_registers(platform: FakePlatform, agent: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    install(tmp_path / "programs", "nvidia-ctk", "echo NVIDIA Container Toolkit CLI version 1.17.7")
    agent.environment["PATH"] = f"{tmp_path / 'programs'}:{os.environ['PATH']}"
    agent.start()
    assert platform.registered is not None
    assert platform.registered.inventory.toolkit_version == "1.17.7"
