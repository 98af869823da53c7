"""`muster-agent join`: one registration, and a unit whose command goes on as that node."""

from __future__ import annotations

import io
import logging
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.cli import join as joining
from nodeagent.cli.main import main
from nodeagent.cli.serving import words_without_token
from tests.agent.conftest import AgentProcess
from tests.agent.fake_platform import FakePlatform
from tests.waiting import eventually

OPTIONS = ["--gpus=emulated:A100:2", "--cpus=4", "--memory-mib=1000"]


@pytest.fixture(autouse=True)
def _nobodys_paths(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    handlers = list(logging.getLogger().handlers)
    yield
    logging.getLogger().handlers[:] = handlers


def command_of(unit: str) -> list[str]:
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    return shlex.split(line.removeprefix("ExecStart=").replace("$$", "$").replace("%%", "%"))


def join(platform: FakePlatform, state: Path, token: str, *words: str) -> int:
    token_file = state.parent / "join-token"
    token_file.write_text(f"{token}\n")
    return main(["join", platform.url, str(token_file), "--state", str(state), *OPTIONS, *words])


def test_it_registers_and_prints_a_unit_whose_command_is_that_node(
    platform: FakePlatform, agent: AgentProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    assert join(platform, agent.state, platform.join_token, "--read-only-root") == 0
    unit = capsys.readouterr().out
    assert platform.epoch == 1
    assert platform.registered is not None
    assert [gpu.model for gpu in platform.registered.inventory.gpus] == ["A100", "A100"]
    assert "KillMode=process" in unit.splitlines()
    assert platform.join_token not in unit
    command = command_of(unit)
    assert command[:4] == [sys.executable, "-m", "nodeagent", "run"]
    assert {*OPTIONS, "--read-only-root"} <= set(command)
    # Only the credential in the folder can open the door now.
    platform.join_token = "used up"
    agent.program, agent.options, agent.join_token = command[:3], command[8:], ""
    assert command[4:8] == ["--url", platform.url, "--state", str(agent.state)]
    agent.start()
    assert platform.epoch == 2
    eventually(lambda: platform.beats, "a beat")


def test_the_token_can_come_by_standard_input(
    platform: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{platform.join_token}\n"))
    assert main(["join", platform.url, "-", "--state", str(tmp_path / "state"), *OPTIONS]) == 0
    assert platform.epoch == 1


def test_an_empty_standard_input_is_an_error_that_names_the_token(
    platform: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert main(["join", platform.url, "-", "--state", str(tmp_path / "state"), *OPTIONS]) == 1
    assert "standard input has no token" in caplog.text
    assert platform.calls == []


def test_a_token_on_the_command_line_or_in_the_environment_is_not_used(
    platform: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MUSTER_JOIN_TOKEN", platform.join_token)
    with caplog.at_level(logging.INFO):
        assert main(["join", platform.url, platform.join_token, "--state", str(tmp_path / "state"), *OPTIONS]) == 4
        assert main(["run", "--url", platform.url, "--state", str(tmp_path / "state"), *OPTIONS]) == 4
    assert "a join token is needed" in caplog.text
    assert platform.join_token not in caplog.text
    assert platform.epoch == 0


def test_a_second_time_it_only_makes_the_unit(platform: FakePlatform, tmp_path: Path) -> None:
    assert join(platform, tmp_path / "state", platform.join_token) == 0
    assert join(platform, tmp_path / "state", "whatever") == 0
    assert platform.epoch == 1


def test_a_token_that_is_refused_leaves_no_unit(
    platform: FakePlatform, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert join(platform, tmp_path / "state", "wrong") == 4
    assert capsys.readouterr().out == ""


def test_a_platform_that_does_not_answer_is_given_up_after_a_while(
    platform: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joining, "ANSWER_WITHIN_S", 0.2)
    platform.outage()
    assert join(platform, tmp_path / "state", "token") == 1
    assert f"{platform.url} did not answer" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs units")
def test_the_unit_is_installed_where_systemd_looks(
    platform: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "system").mkdir()
    monkeypatch.setattr(joining, "UNIT_FOLDER", str(tmp_path / "system"))
    assert join(platform, tmp_path / "state", platform.join_token, "--systemd") == 0
    assert capsys.readouterr().out == ""
    unit = tmp_path / "system" / joining.UNIT
    assert stat.S_IMODE(unit.stat().st_mode) == 0o644
    assert str(tmp_path / "state") in command_of(unit.read_text())


def test_a_unit_that_cannot_be_installed_uses_up_no_token(
    platform: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joining, "UNIT_FOLDER", str(tmp_path / "absent"))
    assert join(platform, tmp_path / "state", platform.join_token, "--systemd") == 1
    assert "--systemd needs root and the folder" in caplog.text
    assert platform.calls == []


def test_words_are_read_back_as_they_were_and_a_line_break_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["/usr/bin/python3", "a b", 'say "hi"', "100%", "$HOME", "back\\slash", ""]
    assert command_of(joining.unit_text(words)) == words
    with pytest.raises(ValueError, match="cannot stand in a unit"):
        joining.unit_text(["a\nExecStartPre=/bin/false"])
    monkeypatch.setenv("PYTHONPATH", "/opt/muster agent")
    assert 'Environment="PYTHONPATH=/opt/muster agent"' in joining.unit_text(words).splitlines()


@pytest.mark.parametrize(("version", "delegates"), [("systemd 254 (254.1)", True), ("systemd 252 (252.38)", False)])
def test_the_unit_delegates_control_groups_where_systemd_can(
    version: str, delegates: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\necho '{version}'\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    unit = joining.unit_text(["/bin/true"], delegates=joining.systemd_delegates()).splitlines()
    assert ("Delegate=memory pids" in unit, "DelegateSubgroup=agent" in unit) == (delegates, delegates)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / joining.UNIT
    unit.write_text(joining.unit_text([shutil.which("true") or "", "a b", "100%", "$HOME"]))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False, timeout=60
    )
    assert joining.UNIT not in checked.stderr
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("given", [["--join-token-file", "-"], ["--join-token-file=/root/token"], []])
def test_an_agent_that_starts_anew_reads_no_token_again(given: list[str]) -> None:
    words = ["run", "--url", "https://muster.example.org", *given, "--state", "/state", "--hide", "/a"]
    assert words_without_token(words) == [
        "run",
        "--url",
        "https://muster.example.org",
        "--state",
        "/state",
        "--hide",
        "/a",
    ]
