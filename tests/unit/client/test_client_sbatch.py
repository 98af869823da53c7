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


def translated(server: FakeServer, **spec: object) -> None:
    answer = {"spec": {"command": "true", "nodes": 1, **spec}, "report": REPORT, "notes": []}
    server.on("POST /sbatch:translate", httpx.Response(200, json=answer))


def test_a_script_is_sent_with_all_that_stands_beside_it_and_its_spec_is_submitted(
    server: FakeServer, run: Run
) -> None:
    translated(server)
    server.on("POST /uploads", httpx.Response(201, json={"sha256": "", "size": 0}))
    server.on("POST /jobs", httpx.Response(201, json=job(id=1042)))
    result = run("sbatch", "-J", "name", "--time=5", "train.sbatch", "--lr", "0.1", SBATCH_PARTITION="main")
    assert (result.exit_code, result.stdout) == (0, "Submitted batch job 1042\n")
    assert "Ignored: --output=a.out" in result.stderr
    [asked] = server.sent("POST /sbatch:translate")
    sent = json.loads(asked.content)
    assert sent["environment"] == {"SBATCH_PARTITION": "main"}
    assert (sent["script"], sent["name"]) == (SCRIPT, "train.sbatch")
    assert (sent["options"], sent["arguments"]) == (["-J", "name", "--time=5"], ["--lr", "0.1"])
    [stored] = server.sent("POST /jobs")
    assert set(json.loads(stored.content)["code"]) == {"upload"}


def test_a_trial_shows_the_report_and_the_spec_and_submits_nothing(server: FakeServer, run: Run) -> None:
    translated(server)
    result = run("sbatch", "--test-only", "train.sbatch")
    assert result.stdout.startswith("# line 2: --output=a.out - ignored: the log is kept\ncommand: ")
    assert not server.sent("POST /jobs")


def test_a_refusal_is_shown_with_its_line(server: FakeServer, run: Run) -> None:
    errors = [{"field": "script", "message": "line 2: there is no option --gress"}]
    server.on("POST /sbatch:translate", problem(422, "Some fields are wrong", errors=errors))
    result = run("sbatch", "train.sbatch")
    assert result.exit_code != 0
    assert "line 2: there is no option --gress" in result.stderr


def test_a_script_that_is_not_there_is_named(run: Run) -> None:
    result = run("sbatch", "missing.sbatch")
    assert result.exit_code != 0
    assert "missing.sbatch: No such file or directory" in result.stderr
