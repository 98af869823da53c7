"""`manage.py demo`, as a person at a terminal sees it: from nothing to three jobs, and back to nothing."""

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
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from muster.local import processes
from muster.local.services import stop_services
from muster_client.client import Client

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("ada", "grace", "otto")

# They follow one another on one state folder: a parallel run has to give them all to one worker (`--dist loadfile`).
pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True, slots=True)
class Demo:
    """How to start the demonstration on one state folder and port."""

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

    def processes(self) -> list[str]:
        """What runs on this machine and names the state folder or is below something that does."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        lines = {pid: " ".join(processes.command_line(pid)) for pid in pids}
        return [line for pid, line in lines.items() if str(self.home) in line + environment(pid)]


def environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def read_until(process: subprocess.Popen[str], end: str) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if end in line:
            return "".join(lines)
    raise AssertionError(f"it ended before it said {end!r}:\n{''.join(lines)}")


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    folder = Path(tempfile.mkdtemp(prefix="muster-e2e-"))
    folder.chmod(0o711)
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = int(door.getsockname()[1])
    yield Demo(folder / "home", port)
    stop_services(folder / "home")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def first_run(demo: Demo) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The first run, which stays, and what it printed until it said how to end it."""
    with demo.start() as process:
        try:
            yield process, read_until(process, "Ctrl-C stops everything")
        finally:
            if process.poll() is None:
                process.kill()


def test_three_jobs_end_as_they_should(first_run: tuple[subprocess.Popen[str], str]) -> None:
    _, shown = first_run
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    assert [(row[1], row[3], row[5], row[6], row[8]) for row in rows] == [
        ("hello", "1", "0", "succeeded", "✓"),
        ("gang", "4", "0", "succeeded", "✓"),
        ("failing", "1", "1", "failed", "✓"),
    ]


def test_their_output_is_streamed(first_run: tuple[subprocess.Popen[str], str]) -> None:
    _, shown = first_run
    assert "hello │ [100%]" in shown
    assert "gang │ rank 1: largest error of a weight" in shown
    assert "failing │ IndexError: list index out of range" in shown


def test_the_passwords_that_it_prints_sign_in(demo: Demo, first_run: tuple[subprocess.Popen[str], str]) -> None:
    _, shown = first_run
    passwords = {words[0]: words[1] for line in shown.splitlines() if (words := line.split()) and words[0] in NAMES}
    assert set(passwords) == set(NAMES)
    for name, password in passwords.items():
        with httpx.Client(base_url=f"http://127.0.0.1:{demo.port}", trust_env=False) as browser:
            browser.get("/api/v1/login")
            token = browser.cookies["csrftoken"]
            answer = browser.post(
                "/api/v1/login", json={"username": name, "password": password}, headers={"X-CSRFToken": token}
            )
            assert (answer.status_code, answer.json()["username"]) == (200, name)


def test_the_tokens_of_its_file_work_and_tenants_are_apart(
    demo: Demo, first_run: tuple[subprocess.Popen[str], str]
) -> None:
    stored = json.loads((demo.home / "demo.json").read_text())
    seen = {}
    for name, access in stored["users"].items():
        with Client(stored["url"], access["token"]) as client:
            seen[name] = sorted(job["name"] for job in client.jobs()["results"])
    assert seen == {"ada": ["failing", "hello"], "grace": ["gang"], "otto": ["failing", "gang", "hello"]}


def test_a_second_one_on_the_same_state_is_refused(demo: Demo, first_run: tuple[subprocess.Popen[str], str]) -> None:
    process, _ = first_run
    with demo.start("--once") as second:
        shown, _ = second.communicate()
    assert second.returncode == 1
    assert f"already: process {process.pid}" in shown


def test_an_interrupt_ends_everything_also_a_job_that_hides(
    demo: Demo, first_run: tuple[subprocess.Popen[str], str]
) -> None:
    process, _ = first_run
    access = json.loads((demo.home / "demo.json").read_text())["users"]["ada"]
    with Client(f"http://127.0.0.1:{demo.port}", access["token"]) as client:
        job = client.submit({"name": "hidden", "command": "setsid sleep 1000 & echo here; sleep 1000", "gpus": 1})
        assert any(getattr(event, "text", "").startswith("here") for event in client.follow_logs(job["id"]))
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Stopping everything" in shown
    assert demo.processes() == []


def test_the_next_run_goes_on_with_the_same_state(demo: Demo, first_run: tuple[subprocess.Popen[str], str]) -> None:
    before = (demo.home / "demo.json").read_text()
    with demo.start("--once") as process:
        shown, _ = process.communicate()
    assert process.returncode == 0, shown
    assert (demo.home / "demo.json").read_text() == before
    assert demo.processes() == []
