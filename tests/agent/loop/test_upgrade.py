"""An upgrade while jobs run: an agent of 0.1.0 adopts what the last one before it left."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from nodeagent.protocol.messages import EndReason
from tests.agent.conftest import ROOT, AgentProcess
from tests.agent.fake_platform import FakePlatform
from tests.waiting import eventually

BEFORE = "32eb78a173b8"
"""The last commit before the agent's modules were sorted into rooms."""


@pytest.fixture
def zipapp_before(tmp_path: Path) -> Path:
    """The agent of that commit as one file, as servers have it."""
    sources = subprocess.run(["git", "archive", BEFORE, "nodeagent"], cwd=ROOT, capture_output=True, check=False)
    if sources.returncode:
        pytest.skip(f"no git history with commit {BEFORE}: {sources.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(sources.stdout)) as archive:
        archive.extractall(tmp_path / "before", filter="data")
    target = tmp_path / "muster-agent.pyz"
    command = [sys.executable, "-m", "nodeagent.build", str(target)]
    subprocess.run(command, cwd=tmp_path / "before", check=True)
    return target


def test_jobs_of_the_agent_before_are_adopted_and_end_as_they_would_have(
    platform: FakePlatform, agent: AgentProcess, zipapp_before: Path
) -> None:
    now, agent.program = agent.program, [sys.executable, str(zipapp_before)]
    agent.start()
    waits = platform.place("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 3")
    stays = platform.place("trap 'echo saved; exit 0' TERM; echo one; while :; do sleep 0.05; done")
    ending, stopped = platform.allocations[waits], platform.allocations[stays]
    eventually(lambda: ending.text == stopped.text == "one\n", "their first lines")
    assert agent.end() == 0

    agent.program = now
    agent.start()
    (agent.allocation_folder(waits) / "work" / "go").touch()
    platform.stop(stays)
    eventually(lambda: ending.end and stopped.end and ending.finish and stopped.finish, "their ends")
    assert ending.end is not None
    assert (ending.end.reason, ending.end.exit_code) == (EndReason.EXIT_NONZERO, 3)
    assert stopped.end is not None
    assert (stopped.end.reason, stopped.end.exit_code) == (EndReason.COMPLETED, 0)
    for allocation, last in ((ending, "two"), (stopped, "saved")):
        lines = allocation.text.splitlines()
        assert (lines[0], lines[-1]) == ("one", last)
        assert allocation.finish is not None
        assert allocation.finish.sha256 == hashlib.sha256(allocation.log).hexdigest()
    assert sum(call.endswith("/claim") for call in platform.calls) == 2
