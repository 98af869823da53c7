"""`muster srun` outside a job: its job, its output, its terminal and its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from muster_client.commands.slurm.srun import _ENTER, _typed
from tests.unit.client.fake_server import FakeServer, Run, job, problem, sse, stream

LOG = "GET /jobs/7/logs"
SUBMITTED = {"stdout": "", "stderr": "", "exit_code": 0, "job": 7, "array": None, "wait": False}


@pytest.fixture(autouse=True)
def translated(server: FakeServer) -> None:
    found = {"spec": {"command": "true"}, "report": [], "notes": [], "folder": None}
    server.on("POST /sbatch:translate", httpx.Response(200, json=found))
    server.on("POST /uploads", httpx.Response(201, json={"sha256": "", "size": 0}))
    server.on("POST /slurm/sbatch", httpx.Response(200, json=SUBMITTED))
    server.on("POST /jobs/7:cancel", httpx.Response(202, json=job()))


def in_state(state: str, **fields: Any) -> httpx.Response:
    return httpx.Response(200, json=job(state=state, **fields))


@pytest.mark.parametrize(
    ("words", "of_the_job", "of_its_tasks", "command"),
    [
        (["-N2", "-n", "4", "-l", "hostname", "-f"], ["-N2", "-n", "4"], ["-l"], ["hostname", "-f"]),
        (["-ln4", "--label", "true"], ["-n4"], ["-l", "--label"], ["true"]),
        (["--gpus", "1", "-K0", "-o", "a.out", "true"], ["--gpus", "1"], ["-K0", "-o", "a.out"], ["true"]),
        (["--output=a.out", "--exclusive", "true"], ["--exclusive"], ["--output=a.out"], ["true"]),
        (["-W", "5", "--time=5", "--", "-x"], ["--time=5"], ["-W", "5"], ["-x"]),
        (["-n"], ["-n"], [], []),
    ],
)
def test_words_go_to_the_job_to_its_tasks_or_to_the_command(
    words: list[str], of_the_job: list[str], of_its_tasks: list[str], command: list[str]
) -> None:
    typed = _typed(words)
    assert (list(typed.job), list(typed.tasks), list(typed.command)) == (of_the_job, of_its_tasks, command)
    assert not typed.terminal


def test_it_runs_srun_in_a_job_of_those_sizes_and_ends_as_that_does(server: FakeServer, run: Run) -> None:
    log = ("log", "1:3", {"attempt": 1, "offset": 0, "rank": 0, "text": "hi\n"})
    server.on(LOG, stream(sse(log, ("end", "1:3", {"state": "failed", "exit_code": 3}))))
    server.on("GET /jobs/7", in_state("failed", exit_code=3))
    result = run("srun", "-N2", "-n", "4", "-l", "echo", "a b")
    assert (result.exit_code, result.stdout) == (3, "hi\n")
    assert "srun: job 7 queued and waiting for resources" in result.stderr
    asked = json.loads(server.sent("POST /slurm/sbatch")[0].content)
    sizes = ["--no-requeue", "--output=/dev/null", "-N2", "-n", "4"]
    assert (asked["script_name"], asked["arguments"]) == ("echo", sizes)
    assert asked["script"] == "#!/bin/sh\nexec srun -l echo 'a b'\n"
    assert not server.sent("POST /jobs/7:cancel")


def test_ctrl_c_cancels_the_job(server: FakeServer, run: Run) -> None:
    def interrupted(request: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    server.on(LOG, interrupted)
    server.on("GET /jobs/7", in_state("active"))
    assert run("srun", "true").exit_code == 130
    assert server.sent("POST /jobs/7:cancel")


def test_a_terminal_is_opened_once_the_job_runs_and_the_job_ends_with_it(server: FakeServer, run: Run) -> None:
    server.on("GET /jobs/7", in_state("queued"), in_state("active"))
    opened = {"id": 31, "job": 7, "attempt": 1, "rank": 0, "node": "n1", "token": "msh_own"}
    busy = problem(409, "Conflict")
    server.on("POST /jobs/7/shells", busy, httpx.Response(201, json=opened))
    end = {"data": "", "closed": True, "reason": "exited", "exit_code": 5}
    server.on("GET /shells/31/output", httpx.Response(200, json=end))
    server.on("POST /shells/31/input", httpx.Response(200, json={"size": 0, "acked": 0, "closed": False}))
    server.on("POST /shells/31:close", httpx.Response(200, json={"closed": True}))
    assert run("srun", "--pty", "-n1", "bash").exit_code == 5
    asked = json.loads(server.sent("POST /jobs/7/shells")[-1].content)
    assert asked["command"][-1] == "bash"
    assert server.sent("POST /jobs/7:cancel")


def test_a_terminal_finds_what_a_script_finds(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    saved = {"PATH": os.environ["PATH"], "PWD": str(folder), "SLURM_JOB_ID": "7", "TERM": "dumb", "TWO": "a\nb=c"}
    (tmp_path / ".muster-terminal").write_bytes("".join(f"{name}={value}\0" for name, value in saved.items()).encode())
    shown = subprocess.run(
        [
            sys.executable,
            "-IS",
            "-c",
            _ENTER,
            str(tmp_path),
            sys.executable,
            "-c",
            "import json, os; print(json.dumps([os.getcwd(), dict(os.environ)]))",
        ],
        env={"TERM": "xterm", "MARK": "1", "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    where, found = json.loads(shown.stdout)
    assert where == str(folder)
    assert found.items() >= {**saved, "TERM": "xterm", "MARK": "1"}.items()


def test_a_refusal_is_that_of_srun(server: FakeServer, run: Run) -> None:
    said = "sbatch: error: Batch job submission failed: Requested node configuration is not available\n"
    refused = {**SUBMITTED, "stderr": said, "exit_code": 1, "job": None}
    server.on("POST /slurm/sbatch", httpx.Response(200, json=refused))
    result = run("srun", "-N99", "true")
    assert result.exit_code == 1
    assert "srun: error: Batch job submission failed: Requested node" in result.stderr


def test_without_a_command_it_asks_for_one(run: Run) -> None:
    result = run("srun", "-n", "4")
    assert result.exit_code == 2
    assert "srun needs a command" in result.stderr
