"""A server over SSH, added to a demonstration that runs: worker, `links` and web as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.local import processes
from tests.e2e.demo import ROOT, Demo, new_demo, running
from tests.faults.cluster import until
from tests.sshd import SshServer, require_sshd

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def sshd(open_folder: Path) -> Iterator[SshServer]:
    require_sshd()
    made = SshServer(open_folder)
    made.start()
    yield made
    made.close()


@pytest.fixture
def demo() -> Iterator[Demo]:
    """A demonstration of this test's own."""
    with new_demo() as demo:
        yield demo


def manage(demo: Demo, *words: str) -> None:
    ours = {"DATABASE_URL", "REDIS_URL", "MUSTER_TESTING", "MUSTER_URL", "PYTEST_CURRENT_TEST"}
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env |= {"MUSTER_HOME": str(demo.home), "PORT": str(demo.port)}
    done = subprocess.run(
        [sys.executable, "manage.py", *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def through_the_link(demo: Demo) -> tuple[bytes, int | None]:
    """What a shell in a job on the server writes, and its exit code."""
    others = "from muster.fleet.models import Node; Node.objects.exclude(name='gpu03').update(admin='cordoned')"
    manage(demo, "shell", "-c", others)
    client = demo.client("ada")
    job = client.submit({"command": "while true; do sleep 0.2; done", "gpus": 0})
    until(
        lambda: client.attempts(job["id"])[-1:] and client.attempts(job["id"])[-1]["state"] == "running", "it runs", 60
    )
    command = ("sh", "-c", "read words; echo got $words; exit 7")
    shell = client.open_shell(job["id"], command=command, terminal=False)
    assert shell["node"] == "gpu03"
    with client.shell_calls(shell) as calls:
        calls.send(first=0, start=0, data=b"through the link\n", over=True)
        written, end = b"", None
        while end is None:
            data, end = calls.output(len(written))
            written += data
    client.cancel(job["id"])
    return written, end.exit_code


def test_a_server_is_added_by_one_command_and_runs_jobs(demo: Demo, sshd: SshServer) -> None:
    with running(demo):
        manage(
            demo,
            *("add_server", "gpu03", "--pool", "main", "--host", "127.0.0.1", "--port", str(sshd.port)),
            *("--user", "root", "--key-file", str(sshd.folder / "client"), "--host-key", sshd.host_key),
            *("--folder", sshd.agent_folder, "--options", "--gpus=emulated:H100:2 --job-user=nobody"),
        )
        client = demo.client("otto")

        def node() -> dict[str, object]:
            return next(node for node in client.nodes() if node["name"] == "gpu03")  # type: ignore[return-value]

        try:
            until(lambda: node()["health"] == "ready", "the node is ready", 60)
        except AssertionError as error:
            logs = "".join((demo.home / "log" / f"{name}.log").read_text()[-3000:] for name in ("links", "default"))
            raise AssertionError(f"{error}\n{node()}\n{logs}") from error
        link = node()["link"]
        assert isinstance(link, dict)
        assert (link["state"], link["reason"]) == ("up", "")
        secret = (sshd.folder / "client").read_text().split("\n")[2]
        logged = "".join(path.read_text(errors="replace") for path in (demo.home / "log").iterdir())
        assert secret not in logged
        # The process that keeps the links is started again when it dies, and the agent has not noticed.
        (keeper,) = [line for line in demo.processes() if line.endswith("manage links")]
        agents = sshd.agents()
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
            if " ".join(processes.command_line(pid)) == keeper:
                os.kill(pid, 9)
        until(lambda: node()["link"]["state"] != "up" or sshd.connections(), "the link is gone or back", 60)  # type: ignore[index]
        until(lambda: node()["link"]["state"] == "up" and sshd.connections(), "the link is back", 60)  # type: ignore[index]
        assert sshd.agents() == agents
        assert through_the_link(demo) == (b"got through the link\n", 7)
    # The platform has ended, and the agent has not.
    assert sshd.agents() == agents
