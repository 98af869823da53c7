"""Slurm's commands of `muster`: what they send and print."""

from __future__ import annotations

import json

import httpx

from tests.unit.client.fake_server import FakeServer, Run


def test_what_was_typed_is_sent_and_what_is_answered_is_printed(server: FakeServer, run: Run) -> None:
    told = {"stdout": "7 R\n", "stderr": "squeue: error: Invalid user: eve\n", "exit_code": 3}
    server.on("POST /slurm/squeue", httpx.Response(200, json=told))
    result = run("squeue", "-hu", "ada,eve", "-o", "%i %t", SQUEUE_SORT="i", SECRET="x")
    assert (result.stdout, result.stderr, result.exit_code) == tuple(told.values())
    [asked] = server.sent("POST /slurm/squeue")
    sent = json.loads(asked.content)
    assert sent["arguments"] == ["-hu", "ada,eve", "-o", "%i %t"]
    assert sent["environment"] == {"SQUEUE_SORT": "i", "TZ": "+0000"}


def test_json_of_squeue_is_slurms_own(server: FakeServer, run: Run) -> None:
    server.on("POST /slurm/squeue", httpx.Response(200, json={"stdout": "{}\n", "stderr": "", "exit_code": 0}))
    assert run("squeue", "--json", "--me").stdout == "{}\n"
    [asked] = server.sent("POST /slurm/squeue")
    assert json.loads(asked.content)["arguments"] == ["--json", "--me"]


def test_json_of_a_command_that_has_none_is_its_whole_answer(server: FakeServer, run: Run) -> None:
    told = {"stdout": "", "stderr": "", "exit_code": 0}
    server.on("POST /slurm/scancel", httpx.Response(200, json=told))
    assert json.loads(run("scancel", "--json", "7").stdout) == told
