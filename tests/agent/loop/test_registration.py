"""Registrations of a real agent: its inventory, a new epoch, a restored platform, refused secrets."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

from nodeagent.protocol import messages as protocol
from nodeagent.runtime.process.probe import namespaces_problem
from tests import engines
from tests.agent.conftest import AgentProcess
from tests.agent.fake_platform import FakePlatform
from tests.agent.loop.test_agent import finished, logged
from tests.waiting import eventually


def test_it_tells_what_the_node_has(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.environment["MUSTER_AGENT_IN"] = "container"
    agent.start()
    request = platform.registered
    assert request is not None
    inventory = request.inventory
    assert [gpu.model for gpu in inventory.gpus] == ["A100", "A100", "V100"]
    assert (inventory.cpus, inventory.memory_mib, inventory.runtimes) == (4, 1000, ("process",))
    assert inventory.labels["isolation"] == "advisory"
    assert inventory.single_user == (os.geteuid() != 0 and bool(namespaces_problem()))
    assert inventory.labels["agent-in"] == "container"
    assert inventory.labels["limits"] == "advisory"  # no unit has delegated control groups to the tests
    assert stat.S_IMODE((agent.state / "credential").stat().st_mode) == 0o600


def test_it_registers_again_once_an_engine_answers_and_keeps_its_jobs(
    platform: FakePlatform, agent: AgentProcess, tmp_path: Path
) -> None:
    socket = tmp_path / "docker.sock"
    agent.environment["PATH"] = str(tmp_path)  # no podman
    agent.options += ["--runtime=auto", f"--docker-socket={socket}"]
    agent.start()
    assert platform.registered is not None
    assert platform.registered.inventory.runtimes == ("process",)
    said = f"docker: there is no socket {socket}; podman is not installed"
    assert platform.registered.inventory.labels["containers"] == said
    epoch, number = platform.epoch, platform.place("echo ready; /bin/sleep 1000")
    eventually(lambda: "ready" in platform.allocations[number].text, "the log")
    socket.symlink_to(engines.docker_socket())
    eventually(lambda: platform.epoch > epoch, "the second registration", 20.0)
    assert platform.registered.inventory.runtimes == ("process", "docker")
    assert platform.registered.inventory.labels["containers"] == ""
    assert finished(platform, platform.place("echo in", image=engines.IMAGE)).ends == 1
    assert platform.allocations[number].end is None


def test_a_superseded_agent_exits_and_its_job_goes_on(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("echo ready; sleep 1000")
    logged(platform, number, "ready")
    platform.epoch += 1
    platform.bump()
    assert agent.wait() == protocol.EXIT_SUPERSEDED
    assert not (agent.allocation_folder(number) / "exit").exists()
    agent.start()
    platform.stop(number)
    end = finished(platform, number).end
    assert end is not None
    assert end.signal == signal.SIGTERM


def test_an_agent_of_a_restored_platform_registers_again_and_reports_its_job_first(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.start()
    number = platform.place("echo ready; sleep 1000")
    logged(platform, number, "ready")
    assert agent.process is not None
    pid = agent.process.pid
    with platform.changed:
        platform.restored, platform.epoch, old = True, platform.epoch + 1000, platform.epoch
        before = len(platform.syncs)
    eventually(lambda: platform.epoch > old + 1000 and len(platform.syncs) > before, "it registers again")
    first = platform.syncs[before]
    assert [(report.id, report.job_id is not None) for report in first.allocations] == [(number, True)]
    assert (agent.process.poll(), agent.process.pid) == (None, pid)
    platform.stop(number)
    end = finished(platform, number).end
    assert end is not None
    assert end.signal == signal.SIGTERM
    assert agent.end() == 0


def test_an_agent_with_a_refused_credential_joins_again_with_a_join_token_and_keeps_its_job(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.start()
    number = platform.place("echo ready; sleep 1000")
    logged(platform, number, "ready")
    agent.kill()
    before, platform.credential = platform.credential, ""  # an operator has rotated the credentials
    agent.join_token = ""
    agent.launch()
    assert agent.wait() == protocol.EXIT_UNAUTHORIZED
    agent.join_token = platform.join_token
    agent.start()
    assert platform.credential not in ("", before)
    # The platform knows the new credential a moment before the agent keeps it.
    eventually(lambda: not (agent.state / "credential.next").exists(), "the agent keeps its new credential")
    agent.kill()
    agent.join_token = ""
    agent.start()  # with the credential alone
    platform.stop(number)
    assert finished(platform, number).text == "ready\n"


def test_a_refused_credential_ends_the_agent_and_its_job_goes_on(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("echo ready; sleep 1000")
    logged(platform, number, "ready")
    credential, platform.credential = platform.credential, "another"
    platform.bump()
    assert agent.wait() == protocol.EXIT_UNAUTHORIZED
    assert "refused" in agent.output.read_text()
    assert not (agent.allocation_folder(number) / "exit").exists()
    platform.credential = credential


def test_an_unknown_join_token_is_refused_with_a_clear_message(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.join_token = "wrong"
    agent.launch()
    assert agent.wait() == protocol.EXIT_UNAUTHORIZED
    assert "refused the join token" in agent.output.read_text()


def test_a_lost_answer_to_the_registration_is_asked_again(platform: FakePlatform, agent: AgentProcess) -> None:
    platform.fault("register", "deaf")
    agent.start()
    eventually(lambda: platform.epoch == 2 and platform.beats, "the second registration")
    platform.join_token = ""
    agent.kill()
    agent.start()
    assert platform.epoch == 3
