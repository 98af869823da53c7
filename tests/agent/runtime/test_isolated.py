"""Jobs of an agent that is not root: the namespaces that keep them from its account's files and processes."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cli.main import folder
from nodeagent.runtime.process import probe, runtime
from nodeagent.runtime.process.runtime import ProcessRuntime
from nodeagent.runtime.shim.forker import python_command
from tests.agent.conftest import ROOT

UID = 12345
PYTHON = "/usr/bin/python3" if os.geteuid() == 0 else sys.executable
"""Root's own Python may lie where another user cannot reach it."""
PROGRAM = """
import json, os, sys, time
sys.path.insert(0, {root!r})
from nodeagent.protocol.messages import LaunchSpec
from nodeagent.runtime.port import ShellRequest
from nodeagent.runtime.process.runtime import ProcessRuntime

state, hidden, command, shell = sys.argv[1:]
runtime = ProcessRuntime(state, lambda *_: None, hide=[hidden])
with open(os.path.join(state, "credential"), "w") as file:
    file.write("the credential")
said = {{"single_user": runtime.single_user, "labels": dict(runtime.labels()), "agent": os.getpid()}}
if not runtime.single_user:
    spec = LaunchSpec(
        allocation_id=1, job_id=1, attempt=1, rank=0, fence=1, name="test", owner="alice", grace_s=2.0,
        command=command.replace("AGENT_PID", str(os.getpid())),
    )
    work = runtime.prepare(spec)
    runtime.launch(spec)
    if shell:
        while b"ready" not in runtime.log(1).read(0, 1 << 20)[1]:
            time.sleep(0.02)
        words = ("/bin/sh", "-c", shell.replace("AGENT_PID", str(os.getpid())))
        opened = runtime.shell(1, ShellRequest(id=1, command=words, terminal=False, term="xterm"))
        os.set_blocking(opened.output, True)
        said["shell"] = b"".join(iter(lambda: os.read(opened.output, 4096), b"")).decode()
        runtime.stop(1, "TERM", 1.0)
    until = time.monotonic() + 20
    while runtime.observe(1).exit is None and time.monotonic() < until:
        time.sleep(0.02)
    status = runtime.observe(1).exit
    said.update(
        exit_code=status.exit_code, signal=status.signal, output=runtime.log(1).read(0, 1 << 20)[1].decode(),
        files=sorted(os.listdir(work)),
    )
runtime.close()
print(json.dumps(said))
"""


class Account:
    """Folders of an ordinary account, and the agent's process runtime under it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.hidden = folder / "platform"
        self._program = folder / "program.py"
        self._program.write_text(textwrap.dedent(PROGRAM).format(root=str(ROOT)))
        for made in (self.state, self.hidden):
            made.mkdir()
        self.secret = self.hidden / "secret_key"
        self.secret.write_text("the key of the platform")
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, UID, UID)

    def run(self, command: str, shell: str = "") -> dict[str, Any]:
        """Run a job to its end, and a shell in it; the test is skipped where the kernel allows no namespaces."""
        ids: dict[str, Any] = {"user": UID, "group": UID, "extra_groups": []} if os.geteuid() == 0 else {}
        words = [PYTHON, str(self._program), str(self.state), str(self.hidden), command, shell]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.hidden.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(words, env=environment, cwd="/", capture_output=True, timeout=60, check=False, **ids)
        assert done.returncode == 0, done.stderr.decode()
        said: dict[str, Any] = json.loads(done.stdout)
        if said["single_user"]:
            pytest.skip(f"no user namespaces: {said['labels']['single-user-reason']}")
        return said


@pytest.fixture
def account() -> Iterator[Account]:
    """Beside pytest's own folders, which their owner alone opens."""
    folder = Path(tempfile.mkdtemp(dir="/var/lib" if os.geteuid() == 0 else None))
    yield Account(folder)
    shutil.rmtree(folder)


def test_a_job_reads_neither_the_credential_nor_a_hidden_folder(account: Account) -> None:
    said = account.run(f"cat {account.state}/credential; cat {account.secret}; ls -A {account.hidden}; echo end")
    assert "the credential" not in said["output"]
    assert "the key" not in said["output"]
    assert said["output"].endswith("end\n")
    assert said["exit_code"] == 0


def test_a_job_uncovers_no_folder_by_namespaces_of_its_own(account: Account) -> None:
    uncover = (
        f"umount {account.hidden}; mkdir m; mount --bind {account.hidden.parent} m; cat m/platform/* {account.secret}"
    )
    said = account.run(f"unshare --user --map-root-user --mount sh -c '{uncover}'; echo end")
    assert "the key" not in said["output"]
    assert said["output"].endswith("end\n")


def test_a_job_sees_no_process_outside(account: Account) -> None:
    said = account.run("cd /proc; echo [0-9]* $$; kill -0 AGENT_PID || echo refused")
    pids, refused = said["output"].splitlines()[0].split(), said["output"].splitlines()[-1]
    assert set(pids) == {"1", pids[-1]}
    assert refused == "refused"


def test_a_job_changes_nothing_in_the_accounts_home(account: Account) -> None:
    said = account.run(f"touch {account.hidden.parent}/.profile || echo refused")
    assert said["output"].endswith("refused\n")


@pytest.mark.skipif(not os.path.ismount("/sys/fs/cgroup"), reason="no control groups")
def test_a_job_ends_nothing_by_the_control_groups_of_its_account(account: Account) -> None:
    said = account.run("grep ' /sys/fs/cgroup ' /proc/self/mounts | tail -n 1 | cut -d ' ' -f 4 | cut -d , -f 1")
    assert said["output"] == "ro\n"


def test_a_jobs_temporary_files_are_its_own(account: Account) -> None:
    said = account.run('echo it > /tmp/file; cat "$TMPDIR/file"; ls /dev/shm | wc -l')
    assert said["output"] == "it\n0\n"
    assert not Path("/tmp/file").exists()


def test_its_status_its_log_and_its_files_arrive(account: Account) -> None:
    said = account.run("echo hello; echo it > result; exit 7")
    assert (said["exit_code"], said["output"], said["files"]) == (7, "hello\n", ["result"])


def test_the_signal_that_ends_it_is_told(account: Account) -> None:
    assert account.run("kill -SEGV $$")["signal"] == signal.SIGSEGV


def test_a_shell_is_in_the_namespaces_of_its_job(account: Account) -> None:
    shell = f"cat {account.secret}; cat here /proc/$$/comm; kill -0 AGENT_PID 2>/dev/null || echo refused"
    said = account.run("echo it > here; echo ready; exec sleep 1000", shell=shell)
    assert "the key" not in said["shell"]
    assert said["shell"].splitlines()[-3:] == ["it", "sh", "refused"]
    assert said["signal"] == signal.SIGTERM


def test_a_node_without_user_namespaces_is_single_user_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: UID)
    monkeypatch.setattr(runtime, "namespaces_problem", lambda: "unshare: Operation not permitted")
    made = ProcessRuntime(str(tmp_path / "state"), lambda *_: None)
    made.close()
    assert made.single_user
    assert made.labels()["single-user-reason"] == "unshare: Operation not permitted"


def test_the_probe_says_which_step_the_kernel_forbids(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from nodeagent.runtime.process import namespaces; namespaces._CLONE_NEWUSER = 1; "
    monkeypatch.setattr(probe, "python_command", lambda rest: python_command(code + rest))
    assert probe.namespaces_problem.__wrapped__() == "unshare: Invalid argument"


def test_an_agent_hides_no_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="there is no such folder"):
        folder(str(tmp_path / "none"))
