"""`muster sbatch`: what it sends, prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.unit.client.fake_server import FakeServer, Run, job, problem

SCRIPT = "#!/bin/bash\n#SBATCH --output=a.out\ntrue\n"
REPORT = [{"source": "script", "line": 2, "text": "--output=a.out", "fate": "ignored", "says": "the log is kept"}]


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "train.sbatch").write_text(SCRIPT)


def translated(server: FakeServer, folder: str | None = None) -> None:
    answer = {"spec": {"command": "true", "nodes": 1}, "report": REPORT, "notes": [], "folder": folder}
    server.on("POST /sbatch:translate", httpx.Response(200, json=answer))


def submits(server: FakeServer, **answer: object) -> None:
    told = {"stdout": "Submitted batch job 1042\n", "stderr": "", "exit_code": 0, "job": 1042, "array": None}
    server.on("POST /slurm/sbatch", httpx.Response(200, json={**told, "wait": False, **answer}))


def test_a_script_is_sent_with_all_that_stands_beside_it_and_the_folder_where_nodes_lack_it(
    server: FakeServer, run: Run, tmp_path: Path
) -> None:
    translated(server)
    submits(server, stderr="sbatch: ignored: --nice\n")
    server.on("POST /uploads", httpx.Response(201, json={"sha256": "", "size": 0}))
    result = run("sbatch", "-J", "name", "--time=5", "train.sbatch", "--lr", "0.1", SBATCH_PARTITION="main", OTHER="x")
    assert (result.exit_code, result.stdout) == (0, "Submitted batch job 1042\n")
    assert result.stderr.endswith("sbatch: ignored: --nice\n")
    [asked] = server.sent("POST /slurm/sbatch")
    sent = json.loads(asked.content)
    assert sent["environment"] == {"SBATCH_PARTITION": "main"}
    assert (sent["script"], sent["script_name"]) == (SCRIPT, "train.sbatch")
    assert (sent["arguments"], sent["script_arguments"]) == (["-J", "name", "--time=5"], ["--lr", "0.1"])
    assert (sent["folder"], len(sent["code"])) == (str(Path.cwd()), 64)
    assert asked.headers["Idempotency-Key"]


def test_a_script_in_place_goes_with_the_environment_and_without_the_folder(server: FakeServer, run: Run) -> None:
    translated(server, folder="/shared/run")
    submits(server)
    run("sbatch", "train.sbatch", OTHER="x", MUSTER_TOKEN="secret")
    sent = json.loads(server.sent("POST /slurm/sbatch")[0].content)
    assert (sent["environment"]["OTHER"], sent["code"]) == ("x", "")
    assert not [name for name in sent["environment"] if name.startswith("MUSTER_")]
    assert not server.sent("POST /uploads")


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        ({"state": "succeeded"}, 0),
        ({"state": "failed", "exit_code": 3, "reason": "exit_nonzero"}, 3),
        ({"state": "failed", "exit_code": 0, "reason": "time_limit"}, 1),
        ({"state": "cancelled", "started_at": "2026-11-28T12:00:00Z"}, 1),
        ({"state": "cancelled", "started_at": None}, 0),
    ],
    ids=str,
)
def test_a_wait_ends_with_the_code_of_the_job(
    server: FakeServer, run: Run, ended: dict[str, object], code: int
) -> None:
    translated(server, folder="/shared/run")
    submits(server, wait=True)
    server.on("GET /jobs/1042", httpx.Response(200, json=job(id=1042, **ended)))
    assert run("sbatch", "-W", "train.sbatch").exit_code == code


def test_a_trial_shows_the_report_and_the_spec_and_submits_nothing(server: FakeServer, run: Run) -> None:
    translated(server)
    result = run("sbatch", "--test-only", "train.sbatch")
    assert result.stdout.startswith("# line 2: --output=a.out - ignored: the log is kept\ncommand: ")
    assert not server.sent("POST /slurm/sbatch")


def test_a_refusal_has_the_words_of_sbatch_and_its_exit_code(server: FakeServer, run: Run) -> None:
    errors = [{"field": "script", "message": "line 2: there is no option --gress"}]
    server.on("POST /sbatch:translate", problem(422, "Some fields are wrong", errors=errors))
    submits(server, stdout="", stderr="sbatch: unrecognized option '--gress'\n", exit_code=255, job=None)
    result = run("sbatch", "train.sbatch")
    assert (result.exit_code, result.stdout) == (255, "")
    assert result.stderr.endswith("sbatch: unrecognized option '--gress'\n")
    assert not server.sent("POST /uploads")


def test_a_script_that_is_not_there_is_named(run: Run) -> None:
    result = run("sbatch", "missing.sbatch")
    assert result.exit_code != 0
    assert "missing.sbatch: No such file or directory" in result.stderr
