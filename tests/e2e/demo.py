"""The demonstration as a program that tests start, read and end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.local import processes
from muster.local.services import start_services, stop_services
from muster_client.client import Client
from tests.faults.shell import Shell

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Demo:
    """A start of the demonstration on one state folder and port."""

    home: Path
    port: int

    def start(self, *options: str) -> subprocess.Popen[str]:
        """The command, in a session of its own as in a terminal of its own."""
        ours = {"DATABASE_URL", "REDIS_URL", "MUSTER_TESTING", "MUSTER_URL", "PYTEST_CURRENT_TEST"}
        env = {name: value for name, value in os.environ.items() if name not in ours}
        return subprocess.Popen(
            [sys.executable, "manage.py", "demo", "--port", str(self.port), *options],
            cwd=ROOT,
            env={**env, "MUSTER_HOME": str(self.home), "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    @property
    def url(self) -> str:
        """The address of the web process."""
        return f"http://127.0.0.1:{self.port}"

    def password(self, name: str) -> str:
        """The password of a demo user."""
        return str(json.loads((self.home / "demo.json").read_text())["users"][name]["password"])

    def client(self, name: str) -> Client:
        """The SDK as one of its users."""
        return Client(self.url, self.token(name))

    def token(self, name: str) -> str:
        """The API token of one of its users."""
        return str(json.loads((self.home / "demo.json").read_text())["users"][name]["token"])

    def processes(self) -> list[str]:
        """Processes of this machine that name the state folder, and all processes below them."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        lines = {pid: " ".join(processes.command_line(pid)) for pid in pids}
        return [line for pid, line in lines.items() if str(self.home) in line + _environment(pid)]


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def read_until(process: subprocess.Popen[str], end: str) -> str:
    """The output of the process up to the line that holds `end`."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if end in line:
            return "".join(lines)
    raise AssertionError(f"it ended before it said {end!r}:\n{''.join(lines)}")


@contextmanager
def new_demo() -> Iterator[Demo]:
    """A demonstration that was never started; its state is gone after the block."""
    folder = Path(tempfile.mkdtemp(prefix="muster-e2e-"))
    folder.chmod(0o711)  # the servers' account and the users of jobs have to pass through
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = int(door.getsockname()[1])
    try:
        yield Demo(folder / "home", port)
    finally:
        stop_services(folder / "home")
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(demo: Demo) -> Iterator[str]:
    """Yield the demonstration's output until it stays; end it after the block."""
    with demo.start() as process:
        try:
            yield read_until(process, "Ctrl-C stops everything")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


@contextmanager
def shell_of(demo: Demo) -> Iterator[Shell]:
    """A process of the platform for code of tests, beside a demonstration that runs."""
    with start_services(demo.home, environ={}) as services:
        shell = Shell({**os.environ, **services.environment(), "MUSTER_HOME": str(demo.home)})
        try:
            yield shell
        finally:
            shell.close()
