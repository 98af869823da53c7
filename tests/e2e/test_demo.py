"""`manage.py demo`, as a person at a terminal sees it: from nothing to three jobs, and back to nothing.

Meanwhile a server over SSH is added, with worker, `links` and web as processes of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import psycopg2
import pytest

from muster.local import processes
from muster.local.places import agents_folder, find_places, service_password
from muster.local.postgres import DATABASE, OWNER
from tests.console import PAGES, commands, replaced
from tests.e2e.demo import ROOT, Demo, new_demo, read_until
from tests.faults.cluster import until
from tests.sshd import SshServer, require_sshd
from tests.waiting import stretched

NAMES = ("ada", "grace", "otto")
# The commands of documents that are not run here, by how they begin, and why.
NOT_RUN = {
    "make demo": "these tests start it, by the command that make runs",
    "make test": "this is part of it",
    "nvidia-smi": "takes an NVIDIA GPU",
    "apt-get": "changes the packages of this machine",
    "nvidia-ctk": "is of NVIDIA's container toolkit",
    "curl -fsSLO": "tests/faults/test_install.py runs it on a machine of its own",
    "install -m 755": "tests/faults/test_install.py runs it on a machine of its own",
    "systemctl": "takes systemd",
    "muster-agent join https://muster.example.org /dev/null": "takes the unit that systemd runs",
}
SUBMITTED = re.compile(r"Submitted (?:job|sweep) (\d+)")
# Commands that end with another status than 0, by how they begin.
ENDS_WITH = {"printf 'gpus: 4": 1}

# They follow one another on one state folder: a parallel run has to give them all to one worker (`--dist loadfile`).
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    """Its state folder, which all tests here share."""
    with new_demo() as demo:
        yield demo


@pytest.fixture(scope="module")
def first_run(demo: Demo) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The first run, which stays, and what it printed until it said how to end it."""
    with demo.start() as process:
        try:
            yield process, read_until(process, "Ctrl-C stops everything")
        finally:
            # Not killed: what it started would stay.
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)


@pytest.fixture(scope="module")
def sshd() -> Iterator[SshServer]:
    """A GPU server that has nothing but sshd and Python."""
    require_sshd()
    folder = Path(tempfile.mkdtemp(prefix="muster-"))
    folder.chmod(0o711)
    made = SshServer(folder)
    made.start()
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def agents_there() -> list[int]:
    """The agents that run on the server, once it was added."""
    return []


def test_three_jobs_end_as_they_should(first_run: tuple[subprocess.Popen[str], str]) -> None:
    _, shown = first_run
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    told = [(row[1], row[3], row[5], row[6], row[8]) for row in rows]
    if "made of this machine's own programs" in shown:
        told.remove(("container", "1", "0", "succeeded", "✓"))
    assert told == [
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
        with httpx.Client(base_url=demo.url, trust_env=False) as browser:
            browser.get("/api/v1/login")
            token = browser.cookies["csrftoken"]
            answer = browser.post(
                "/api/v1/login", json={"username": name, "password": password}, headers={"X-CSRFToken": token}
            )
            assert (answer.status_code, answer.json()["username"]) == (200, name)


def test_the_tokens_of_its_file_work_and_tenants_are_apart(
    demo: Demo, first_run: tuple[subprocess.Popen[str], str]
) -> None:
    assert json.loads((demo.home / "demo.json").read_text())["url"] == demo.url
    seen = {}
    for name in NAMES:
        with demo.client(name) as client:
            seen[name] = sorted(job["name"] for job in client.jobs()["results"])
    for names in seen.values():
        names[:] = [name for name in names if name != "container"]  # where an engine answers
    assert seen == {"ada": ["failing", "hello"], "grace": ["gang"], "otto": ["failing", "gang", "hello"]}


def test_a_second_one_on_the_same_state_is_refused(demo: Demo, first_run: tuple[subprocess.Popen[str], str]) -> None:
    process, _ = first_run
    with demo.start("--once") as second:
        shown, _ = second.communicate()
    assert second.returncode == 1
    assert f"already: process {process.pid}" in shown


def test_every_command_of_the_documents_does_what_it_says(
    demo: Demo, first_run: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    here = {
        "http://127.0.0.1:8000": demo.url,
        ".muster/": f"{demo.home}/",
        "docker compose exec web python": ".venv/bin/python",
        # What tells a job its GPUs where they are emulated.
        "-- nvidia-smi -L": "-- printenv CUDA_VISIBLE_DEVICES",
    }
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "200", "MUSTER_HOME": str(demo.home)}
    entered = ""
    for page in PAGES:
        numbers: dict[str, str] = {}  # of jobs and sweeps, as the page and as this platform count them
        for command in commands(page):
            if command.text.startswith(tuple(NOT_RUN)):
                continue
            assert not command.as_root, f"{page}: run {command.text!r} as root here, or say in NOT_RUN why not"
            asked = with_numbers(command.text, numbers)
            text = replaced(asked, here)
            done = subprocess.run(
                ["bash", "-c", f"{entered}{text}"],
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            said = f"{page}: {text}\n{done.stdout}{done.stderr}"
            expected = next((status for words, status in ENDS_WITH.items() if text.startswith(words)), 0)
            assert done.returncode == expected, said
            for shown in command.shown:
                if number := SUBMITTED.match(shown):
                    made = SUBMITTED.search(done.stdout + done.stderr)
                    assert made, said
                    numbers[number[1]] = made[1]
            if text == asked:
                shown = [with_numbers(line, numbers) for line in command.shown]
                assert replace(command, shown=shown).missing(done.stdout + done.stderr) == [], said
            if text.startswith(". "):
                entered += f"{text}; "


def with_numbers(text: str, numbers: dict[str, str]) -> str:
    """The text with the jobs' numbers of a page replaced by those that the platform gave."""
    return re.sub(r"\b\d+\b", lambda number: numbers.get(number[0], number[0]), text)


def manage(demo: Demo, *words: str) -> None:
    ours = {"DATABASE_URL", "REDIS_URL", "MUSTER_TESTING", "MUSTER_URL", "PYTEST_CURRENT_TEST"}
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env |= {"MUSTER_HOME": str(demo.home), "PORT": str(demo.port)}
    done = subprocess.run(
        [sys.executable, "manage.py", *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def let_others_take_jobs(demo: Demo, admin: str) -> None:
    """Put all nodes but the server in service or out of it."""
    places = find_places(demo.home)
    address = {"user": OWNER, "password": service_password(places), "dbname": DATABASE, "host": str(places.sockets)}
    with contextlib.closing(psycopg2.connect(**address)) as link:
        link.autocommit = True
        with link.cursor() as cursor:
            cursor.execute("UPDATE fleet_node SET admin = %s WHERE name <> 'gpu03'", [admin])


def through_the_link(demo: Demo) -> tuple[bytes, int | None]:
    """The output of a shell in a job on the server, and its exit code."""
    let_others_take_jobs(demo, "cordoned")
    client = demo.client("ada")
    job = client.submit({"command": "while true; do sleep 0.2; done", "gpus": 0})
    until(
        lambda: client.attempts(job["id"])[-1:] and client.attempts(job["id"])[-1]["state"] == "running",
        "it runs",
        60,
        0.2,
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
    let_others_take_jobs(demo, "active")
    return written, end.exit_code


def test_a_server_over_ssh_is_added_by_one_command_and_runs_jobs(
    demo: Demo, first_run: tuple[subprocess.Popen[str], str], sshd: SshServer, agents_there: list[int]
) -> None:
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
    agents_there.extend(agents)


def test_an_interrupt_ends_everything_also_a_job_that_hides(
    demo: Demo, first_run: tuple[subprocess.Popen[str], str]
) -> None:
    process, _ = first_run
    with demo.client("ada") as client:
        job = client.submit({"name": "hidden", "command": "setsid sleep 1000 & echo here; sleep 1000", "gpus": 1})
        assert any(getattr(event, "text", "").startswith("here") for event in client.follow_logs(job["id"]))
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Stopping everything" in shown
    assert demo.processes() == []


def test_the_agent_of_a_server_outlives_the_platform(sshd: SshServer, agents_there: list[int]) -> None:
    assert len(agents_there) == 1
    assert sshd.agents() == agents_there


def test_the_next_run_goes_on_with_the_same_state_also_after_one_that_was_killed(
    demo: Demo, first_run: tuple[subprocess.Popen[str], str]
) -> None:
    def attempts() -> list[tuple[int, str]]:
        with demo.client("ada") as client:
            return [(attempt["number"], attempt["state"]) for attempt in client.attempts(job)]

    before = (demo.home / "demo.json").read_text()
    with demo.start() as second:
        try:
            read_until(second, "Ctrl-C stops everything")
            assert (demo.home / "demo.json").read_text() == before
            with demo.client("ada") as client:
                job = client.submit({"name": "survivor", "command": f"sleep 1{demo.port}", "gpus": 1})["id"]
            until(lambda: attempts() == [(1, "running")], "the job runs", 30)
            children = [int(pid) for pid in json.loads((demo.home / "children.json").read_text())]
            web = next(pid for pid in children if "uvicorn" in processes.command_line(pid))
            os.kill(web, signal.SIGSTOP)  # it keeps the port, as one that hangs would
        finally:
            second.kill()
    assert all(processes.wait_gone(pid, timeout_s=stretched(10)) for pid in children if pid != web)
    assert processes.is_alive(web)
    with demo.start("--once") as third:
        read_until(third, "otto is the operator")
        assert not processes.is_alive(web)
        assert attempts() == [(1, "running")]
        shown, _ = third.communicate()
    assert third.returncode == 0, shown
    assert (demo.home / "demo.json").read_text() == before
    assert demo.processes() == []
    left = [processes.command_line(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    assert ["sleep", f"1{demo.port}"] not in left
    assert processes.users_of(agents_folder(demo.home), "nodeagent") == []
