"""The commands, against a server of a few lines."""

from __future__ import annotations

import json
import os
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.client.fake_server import URL, FakeServer, Run, job, problem, sse, stream

LOG = "GET /jobs/7/logs"


def spec_file(folder: Path, text: str = "command: echo hi\n") -> str:
    (folder / "job.yaml").write_text(text)
    return str(folder / "job.yaml")


def ended(state: str, exit_code: int | None = None, **changes: Any) -> httpx.Response:
    return httpx.Response(200, json=job(state=state, exit_code=exit_code, **changes))


def end_stream(state: str, exit_code: int | None, text: str = "hi\n") -> httpx.Response:
    log = ("log", "1:3", {"attempt": 1, "offset": 0, "rank": 0, "text": text})
    return stream(sse(log, ("end", "1:3", {"state": state, "exit_code": exit_code})))


# Exit statuses


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (problem(400, "Bad request"), 2),
        (problem(422, "Invalid"), 2),
        (problem(401, "Unauthorized"), 3),
        (problem(403, "Forbidden"), 3),
        (problem(404, "Not found"), 4),
        (problem(409, "Conflict"), 1),
        (problem(500, "Oops"), 1),
        (problem(503, "Down"), 69),
        (httpx.ConnectError("refused"), 69),
        (httpx.ReadTimeout("slow"), 69),
    ],
)
def test_each_kind_of_failure_has_its_exit_status(server: FakeServer, run: Run, answer: Any, status: int) -> None:
    server.on("GET /jobs/7", answer)
    result = run("show", "7")
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("error: ")


def test_bad_usage_is_2_and_no_login_is_3(run: Run) -> None:
    assert run("show").exit_code == 2
    assert "JOB is a number, such as 42, or a member of an array, such as 42_7." in run("show", "x").stderr
    assert run("nonsense").exit_code == 2
    assert run("--url", "nonsense", "ls").exit_code == 2
    result = run("ls", token=None)
    assert result.exit_code == 3
    assert f"muster login {URL}" in result.stderr


def test_an_error_is_a_problem_document_with_json(server: FakeServer, run: Run) -> None:
    server.on("GET /jobs/7", problem(422, "Invalid", errors=[{"field": "gpus", "message": "no"}]))
    result = run("show", "7", "--json")
    assert result.stdout == ""
    assert json.loads(result.stderr)["errors"] == [{"field": "gpus", "message": "no"}]


# Submitting


def test_a_followed_job_that_failed_tells_class_line_and_hint(server: FakeServer, run: Run, tmp_path: Path) -> None:
    failure = {
        "class": "import_error",
        "title": "Import error",
        "category": "user",
        "line": "ModuleNotFoundError: No module named 'nope'",
        "hint": "Install it.",
    }
    server.on("POST /jobs", httpx.Response(201, json=job()))
    server.on(LOG, end_stream("failed", 1))
    server.on("GET /jobs/7", ended("failed", 1, failure=failure))
    result = run("submit", "-f", spec_file(tmp_path))
    assert result.exit_code == 1
    told = "Job 7 failed (Import error): ModuleNotFoundError: No module named 'nope'\n  Install it.\n"
    assert told in result.stderr


def test_submit_sends_the_spec_and_tells_the_job(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on("POST /jobs", httpx.Response(201, json=job()))
    result = run("submit", spec_file(tmp_path), "--set", "gpus=2", "--set", "env.A=b", "--idempotency-key", "k1")
    assert result.exit_code == 0
    assert result.stdout == "Submitted job 7 (train), queued in vision.\n"
    request = server.requests[0]
    assert json.loads(request.content) == {"command": "echo hi", "gpus": 2, "env": {"A": "b"}}
    assert request.headers["Idempotency-Key"] == "k1"


def test_submit_reads_standard_input_and_answers_in_json(server: FakeServer, run: Run) -> None:
    server.on("POST /jobs", httpx.Response(201, json=job()))
    result = run("submit", "-", "--json", stdin="command: echo hi\n")
    assert json.loads(result.stdout) == job()
    assert result.stderr == ""


def test_submit_tells_what_to_know_of_a_job_beside_its_answer(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on("POST /jobs", httpx.Response(201, json=job(notes=["It asks for no GPU"])))
    result = run("submit", spec_file(tmp_path, "command: x\n"))
    assert result.stderr == "note: It asks for no GPU.\n"
    assert "note" not in result.stdout


def test_an_invalid_spec_ends_with_2_and_its_fields(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on(
        "POST /jobs", problem(422, "The job spec is not valid", errors=[{"field": "gpus", "message": "too many"}])
    )
    result = run("submit", spec_file(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.splitlines() == ["error: The job spec is not valid (422)", "  gpus: too many"]
    assert run("submit", "missing.yaml").exit_code == 2
    assert run("submit", spec_file(tmp_path, "a: *x\n")).exit_code == 2


def test_a_submission_without_an_answer_tells_its_key(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on("POST /jobs", httpx.ReadError("reset"))
    result = run("submit", spec_file(tmp_path))
    assert result.exit_code == 69
    keys = {request.headers["Idempotency-Key"] for request in server.sent("POST /jobs")}
    assert len(server.requests) > 1
    assert len(keys) == 1
    assert f"--idempotency-key {keys.pop()}" in result.stderr


def test_the_code_folder_of_the_spec_is_sent_once(server: FakeServer, run: Run, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print()")
    path = spec_file(tmp_path / "code", "command: python train.py\ncode: .\n")
    server.on("POST /jobs", httpx.Response(201, json=job()))
    server.on("POST /uploads", lambda request: httpx.Response(201, json={"sha256": "", "size": 0}))
    assert run("submit", path).exit_code == 0
    upload = server.sent("POST /uploads")[0]
    digest = upload.headers["X-Content-SHA256"]
    with tarfile.open(fileobj=BytesIO(upload.content), mode="r:gz") as tar:
        assert tar.getnames() == ["job.yaml", "train.py"]
    assert json.loads(server.sent("POST /jobs")[0].content)["code"] == {"upload": digest}
    server.on(f"HEAD /uploads/{digest}", httpx.Response(200))
    assert run("submit", path).exit_code == 0
    assert len(server.sent("POST /uploads")) == 1
    assert json.loads(server.sent("POST /jobs")[1].content)["code"] == {"upload": digest}


def test_code_that_finds_no_room_is_said_and_nothing_is_submitted(server: FakeServer, run: Run, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    path = spec_file(tmp_path / "code", "command: python train.py\ncode: .\n")
    detail = "the store of uploaded code has no room; nothing was stored, and it can be sent again later"
    server.on("POST /uploads", problem(507, "The platform has no room for this", detail=detail))
    result = run("submit", path)
    assert result.exit_code == 1
    assert detail in result.stderr
    assert len(server.sent("POST /uploads")) == 1
    assert server.sent("POST /jobs") == []


def test_a_link_out_of_the_code_folder_stops_the_submission(server: FakeServer, run: Run, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "leak").symlink_to("/etc/passwd")
    result = run("submit", spec_file(tmp_path / "code", "command: x\ncode: .\n"))
    assert result.exit_code == 2
    assert "leak is a link to /etc/passwd, outside the code folder" in result.stderr
    assert server.requests == []


def test_code_that_is_an_object_is_the_servers_business(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on("POST /jobs", httpx.Response(201, json=job()))
    assert run("submit", spec_file(tmp_path, "command: x\ncode: {git: 'https://x/y', ref: abc}\n")).exit_code == 0
    assert json.loads(server.requests[0].content)["code"] == {"git": "https://x/y", "ref": "abc"}
    result = run("submit", spec_file(tmp_path, "command: x\ncode: https://x/y\n"))
    assert result.exit_code == 2
    assert "clone it and write its folder" in result.stderr


@pytest.mark.parametrize(
    ("state", "exit_code", "status"),
    [
        ("succeeded", 0, 0),
        ("failed", 3, 3),
        ("failed", None, 1),
        ("failed", 0, 1),
        ("failed", -9, 1),
        ("cancelled", None, 130),
        ("cancelled", 143, 130),
    ],
)
def test_submit_follow_ends_as_the_job_ends(
    *, server: FakeServer, run: Run, tmp_path: Path, state: str, exit_code: int | None, status: int
) -> None:
    server.on("POST /jobs", httpx.Response(201, json=job()))
    server.on(LOG, end_stream(state, exit_code))
    server.on("GET /jobs/7", ended(state, exit_code))
    result = run("submit", spec_file(tmp_path), "--follow")
    assert result.exit_code == status
    assert result.stdout == "hi\n"
    assert f"Job 7 {state}" in result.stderr


def test_following_goes_on_over_a_retry(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on("POST /jobs", httpx.Response(201, json=job()))
    server.on(LOG, end_stream("failed", 1, "one\n"), end_stream("succeeded", 0, "two\n"))
    server.on("GET /jobs/7", ended("queued"), ended("succeeded", 0))
    result = run("submit", spec_file(tmp_path), "-f")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")
    assert server.sent(LOG)[1].headers["Last-Event-ID"] == "1:3"


def test_following_in_json_is_a_stream_of_lines(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on("POST /jobs", httpx.Response(201, json=job()))
    server.on(LOG, end_stream("failed", 4))
    server.on("GET /jobs/7", ended("failed", 4))
    result = run("submit", spec_file(tmp_path), "-f", "--json")
    assert result.exit_code == 4
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["event"] for line in lines] == ["submitted", "log", "end", "finished"]
    assert lines[1]["text"] == "hi\n"
    assert lines[3]["job"]["exit_code"] == 4


def test_ctrl_c_leaves_the_job_alone_and_says_so(server: FakeServer, run: Run, tmp_path: Path) -> None:
    def interrupted(request: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    server.on("POST /jobs", httpx.Response(201, json=job()))
    server.on(LOG, interrupted)
    server.on("GET /jobs/7", interrupted)
    for args in (["submit", spec_file(tmp_path), "-f"], ["logs", "-f", "7"], ["wait", "7"]):
        result = run(*args)
        assert result.exit_code == 130
        assert "job 7 goes on" in result.stderr
    assert server.sent("POST /jobs/7:cancel") == []


def test_run_makes_a_spec_of_its_flags(server: FakeServer, run: Run) -> None:
    server.on("POST /jobs", httpx.Response(201, json=job()))
    flags = ["--gpus", "A100:4", "--nodes", "2", "--name", "n", "--vc", "v", "--time", "30m", "--image", "torch:2"]
    flags += ["--cpus", "8", "--memory", "64GiB", "--output", "ckpt/**", "--output", "*.csv"]
    flags += ["--mount", "data:/data", "--mount", "scratch:/scratch:rw", "--screening", "always"]
    assert run("run", *flags, "--", "python", "train.py", "--name", "a b").exit_code == 0
    assert json.loads(server.requests[0].content) == {
        "command": "python train.py --name 'a b'",
        "gpus": "A100:4",
        "nodes": 2,
        "cpus": 8,
        "memory": "64GiB",
        "outputs": ["ckpt/**", "*.csv"],
        "name": "n",
        "vc": "v",
        "time": "30m",
        "image": "torch:2",
        "mounts": ["data:/data", "scratch:/scratch:rw"],
        "screening": "always",
    }
    assert run("run", "--gpus", "0", "echo $HOME | wc").exit_code == 0
    assert json.loads(server.requests[1].content) == {"command": "echo $HOME | wc", "gpus": 0}
    nodes = ["--nodes-in", "gpu01,gpu02", "--exclude-nodes", "gpu07"]
    assert run("run", "--gpus", "A100:4, V100:8", *nodes, "true").exit_code == 0
    assert json.loads(server.requests[2].content) == {
        "command": "true",
        "gpus": {"any_of": ["A100:4", "V100:8"]},
        "nodes_in": ["gpu01", "gpu02"],
        "exclude_nodes": ["gpu07"],
    }
    assert run("run", "--gpus", "2", "--elastic", "1-8", "true").exit_code == 0
    assert json.loads(server.requests[3].content) == {
        "command": "true",
        "gpus": 2,
        "elastic": {"min": 1, "max": 8},
        "checkpoint": {},
    }
    assert run("run", "--gpus", "2", "--elastic", "1-32:gang", "true").exit_code == 0
    assert json.loads(server.requests[4].content)["elastic"] == {"min": 1, "max": 32, "over": "gang"}
    assert (
        run("run", "--after", "1042", "--after", "7:any,9:failed?8:ok", "--begin", "2h", "--hold", "true").exit_code
        == 0
    )
    assert json.loads(server.requests[5].content) == {
        "command": "true",
        "after": ["1042", "7:any", "9:failed?8:ok"],
        "begin": "2h",
        "hold": True,
    }
    assert run("run").exit_code == 2
    for option, value in (("--screening", "perhaps"), ("--elastic", "8"), ("--elastic", "1-x")):
        refused = run("run", option, value, "true")
        assert (refused.exit_code, option in refused.stderr) == (2, True)
    assert len(server.requests) == 6


def test_what_is_refused_of_a_run_is_named_by_its_option(server: FakeServer, run: Run) -> None:
    errors = [
        {"field": "mounts.1", "message": "there is no volume scratch"},
        {"field": "mounts", "message": "no node of pool main mounts volumes"},
        {"field": "gpus", "message": "no"},
        {"field": "gpus.any_of.1", "message": "no node of this pool has V100"},
        {"field": "nodes_in.0", "message": "there is no node gpu99"},
        {"field": "exclude_nodes", "message": "it leaves none"},
        {"field": "after.1", "message": "there is no job 7"},
        {"field": "begin", "message": "it is more than a year from now"},
        {"field": "retry.on", "message": "not an option"},
    ]
    detail = "mounts.1: there is no volume scratch"
    server.on("POST /jobs", problem(422, "Some fields are wrong", detail=detail, errors=errors))
    flags = ("run", "--mount", "data:/data", "--mount", "scratch:/s")
    result = run(*flags, "true")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "mounts" not in said.replace("mounts volumes", "")
    for expected in (
        "--mount scratch:/s: there is",
        "--mount: no node",
        "--gpus: no",
        "--gpus: no node of this pool has V100",
        "--nodes-in: there is no node gpu99",
        "--exclude-nodes: it leaves none",
        "--after: there is no job 7",
        "--begin: it is more than a year",
        "retry.on: not an option",
    ):
        assert expected in said
    assert json.loads(run(*flags[:1], "--json", *flags[1:], "true").stderr)["errors"] == errors


def test_dry_run_tells_what_would_happen_and_sends_no_code(server: FakeServer, run: Run, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    hold = {"reason": "quota", "detail": "6 of 8 A100", "helps": ["Ask for 2."]}
    answer = {
        "valid": True,
        "spec": {"nodes": 2, "memory": "64GiB", "outputs": [], "nodes_in": ["gpu01", "gpu02"], "exclude_nodes": []},
        "feasible": True,
        "fits_quota": True,
        "starts_now": False,
        "hold": hold,
        "position": 3,
        "gpu_choices": [{"gpu_type": "A100", "gpus": 4}, {"gpu_type": "V100", "gpus": 8}],
        "sizes": [
            {"gpus": 4, "cpus": 32, "memory_mib": 65_536, "cpus_from": "share of 4 GPUs on A100 nodes"},
            {"gpus": 8, "cpus": 16, "memory_mib": 65_536, "cpus_from": "share of 8 GPUs on V100 nodes"},
        ],
        "notes": ["It names no outputs"],
        "gpus_total": 8,
        "screening": {
            "tried": True,
            "why": "on 1 GPU of pool small",
            "starts_now": False,
            "hold": hold | {"detail": "2 screening runs"},
        },
        "runtime": {"runtime": "process", "why": "it names no image", "nodes": 2, "of": 2},
        "wait": None,
        "wait_unknown": "no job of this pool has started yet",
    }
    server.on("POST /jobs:dry-run", httpx.Response(200, json=answer))
    path = spec_file(tmp_path / "code", "command: x\ncode: .\n")
    result = run("dry-run", path)
    assert result.exit_code == 0
    assert "quota: 6 of 8 A100" in result.stdout
    words = " ".join(result.stdout.split())
    assert (
        "GPUs 8–16 GPUs per node 4 A100 or 8 V100, in this order CPUs per node 32 (share of 4 GPUs on A100 nodes) or "
        "16 (share of 8 GPUs on V100 nodes) Memory per node 64 GiB Outputs none named: the working folder is removed "
        "when the job ends Nodes in gpu01, gpu02"
    ) in words
    assert "Note It names no outputs." in words
    assert "yes: on 1 GPU of pool small" in result.stdout
    assert "would wait: 2 screening runs" in result.stdout
    assert server.sent("POST /uploads") == []
    assert json.loads(server.sent("POST /jobs:dry-run")[0].content) == {"command": "x"}
    assert json.loads(run("dry-run", path, "--json").stdout) == answer


def test_a_long_wait_for_the_server_is_told(server: FakeServer, run: Run, tmp_path: Path) -> None:
    busy = httpx.Response(429, headers={"Retry-After": "7"})
    server.on("POST /jobs", httpx.ConnectError("refused"), busy, httpx.Response(201, json=job()))
    result = run("submit", spec_file(tmp_path))
    assert result.exit_code == 0
    assert result.stderr == f"{URL} is busy; trying again in 7 s.\n"


# Jobs that are there


def test_ls_passes_its_filters_on(server: FakeServer, run: Run) -> None:
    server.on("GET /jobs", httpx.Response(200, json={"results": [job()], "next": None}))
    names = ["--vc", "v", "--owner", "o", "--tenant", "t", "--search", "s"]
    result = run("ls", "--state", "queued", "--state", "active", "--tag", "a=b", "--tag", "c=d", "--mine", *names)
    assert "train" in result.stdout
    assert sorted(server.requests[0].url.params.multi_items()) == [
        ("limit", "50"),
        ("members", "false"),
        ("mine", "true"),
        ("owner", "o"),
        ("search", "s"),
        ("state", "active"),
        ("state", "queued"),
        ("tag", "a:b"),
        ("tag", "c:d"),
        ("tenant", "t"),
        ("vc", "v"),
    ]
    assert json.loads(run("ls", "--json").stdout) == {"results": [job()], "next": None}


PROGRESS = {
    **dict.fromkeys(("waiting", "running", "paused", "succeeded", "failed", "stopped", "cancelled"), 0),
    "started_at": None,
    "changed_at": "2026-11-21T00:00:00Z",
    "ended_at": None,
}


@pytest.mark.parametrize(
    ("counts", "state", "told"),
    [
        ({"waiting": 27}, "waiting", "0 of 27 ended, 27 waiting"),
        ({"waiting": 14, "running": 8, "succeeded": 2, "failed": 1, "stopped": 2}, "running",
         "5 of 27 ended, 8 running, 14 waiting, 1 failed"),
        ({"waiting": 23, "paused": 4}, "waiting", "0 of 27 ended, 4 paused, 23 waiting"),
    ],
)  # fmt: skip
def test_ls_has_one_line_for_a_group_with_its_progress(
    counts: dict[str, int], state: str, told: str, server: FakeServer, run: Run
) -> None:
    group = {
        "id": 12,
        "kind": "sweep",
        "name": "lr-search",
        "state": "active",
        "member": 1,
        "index": None,
        "members": 27,
    }
    row = job(id=90, name="lr-search", group=group | {"progress": PROGRESS | counts})
    server.on("GET /jobs", httpx.Response(200, json={"results": [row, job()], "next": None}))
    _, line, other = run("ls", COLUMNS="300").stdout.splitlines()
    assert line.split()[:4] == ["sweep", "12", "lr-search", state]
    assert "27 × 2" in line
    assert line.rstrip().endswith(told)
    assert other.split()[0] == "7"


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [(["--members"], {"members": "true"}), (["--group", "12"], {"group": "12", "members": "true"})],
)
def test_ls_lists_members_if_it_is_asked_to(
    arguments: list[str], asked: dict[str, str], server: FakeServer, run: Run
) -> None:
    group = {
        "id": 12,
        "kind": "sweep",
        "name": "lr-search",
        "state": "active",
        "member": 3,
        "index": None,
        "members": 27,
    }
    server.on("GET /jobs", httpx.Response(200, json={"results": [job(group=group | {"progress": None})], "next": None}))
    assert run("ls", *arguments).stdout.splitlines()[1].split()[:3] == ["7", "train", "queued"]
    assert dict(server.requests[0].url.params) == {"limit": "50", **asked}


def test_output_into_a_pipe_has_no_colour_and_no_cut(server: FakeServer, run: Run) -> None:
    wide = [job(name=f"{'x' * 39}{i}", vc="v" * 40, owner="o" * 40) for i in range(3)]
    server.on("GET /jobs", httpx.Response(200, json={"results": wide, "next": None}))
    lines = run("ls", COLUMNS="20").stdout.splitlines()
    assert len(lines) == 4
    assert "\x1b" not in "".join(lines)
    assert f"{'x' * 39}2" in lines[3]
    assert "o" * 40 in lines[3]


def test_show_adds_the_attempts(server: FakeServer, run: Run) -> None:
    allocation = {
        "id": 1,
        "node": "gpu01",
        "rank": 0,
        "gpus": ["a"],
        "observed": "exited",
        "exit_code": 3,
        "log_size": 0,
        "log_complete": True,
    }
    attempt = {
        "number": 1,
        "state": "failed",
        "stage": "full",
        "allocations": [allocation],
        "placed_at": None,
        "started_at": None,
        "ended_at": None,
        "exit_code": 3,
        "reason": "exit_nonzero",
        "reason_detail": None,
    }
    server.on("GET /jobs/7", ended("failed", 3, attempts=1))
    server.on("GET /jobs/7/attempts", httpx.Response(200, json={"results": [attempt], "next": None}))
    result = run("show", "7")
    assert "gpu01" in result.stdout
    assert "exit_nonzero" in result.stdout
    assert json.loads(run("show", "7", "--json").stdout)["exit_code"] == 3


def test_cancel_goes_on_after_a_job_that_is_not_there(server: FakeServer, run: Run) -> None:
    server.on("POST /jobs/7:cancel", httpx.Response(202, json=job(state="active", desired="stop")))
    server.on("POST /jobs/9:cancel", httpx.Response(202, json=job(id=9, state="cancelled", desired="stop")))
    result = run("cancel", "7", "8", "9", "9")
    assert result.exit_code == 4
    assert result.stdout == "Job 7 is being stopped.\nJob 9 cancelled.\n"
    assert "Job 8: " in result.stderr
    document = json.loads(run("cancel", "7", "8", "--json").stdout)
    assert [item["id"] for item in document["results"]] == [7]
    assert document["errors"][0]["problem"]["status"] == 404


def test_requeue_and_clone_tell_the_job(server: FakeServer, run: Run) -> None:
    server.on("POST /jobs/7:requeue", httpx.Response(202, json=job()))
    server.on("POST /jobs/7:clone", httpx.Response(201, json=job(id=8)))
    assert run("requeue", "7").stdout == "Job 7 goes back into the queue.\n"
    assert run("clone", "7").stdout == "Submitted job 8 (train).\n"
    server.on("POST /jobs/7:requeue", problem(409, "The job has finished", detail="Use :clone."))
    result = run("requeue", "7")
    assert (result.exit_code, "Use :clone." in result.stderr) == (1, True)


def test_wait_ends_with_the_first_that_did_not_succeed(server: FakeServer, run: Run) -> None:
    server.on("GET /jobs/7", ended("active"), ended("succeeded", 0))
    server.on("GET /jobs/8", ended("failed", 5, id=8))
    assert run("wait", "7", "8").exit_code == 5
    document = json.loads(run("wait", "7", "--json").stdout)
    assert [item["state"] for item in document["results"]] == ["succeeded"]


def test_wait_gives_up_at_its_timeout(server: FakeServer, run: Run) -> None:
    server.on("GET /jobs/7", ended("active"))
    result = run("wait", "7", "--timeout", "3")
    assert result.exit_code == 1
    assert "has not finished after 3 s" in result.stderr


# Logs


def test_lists_of_the_cluster_are_one_document(server: FakeServer, run: Run) -> None:
    for command, name in (("nodes", "nodes"), ("gpus", "gpus"), ("vc", "vcs"), ("volumes", "volumes")):
        server.on(f"GET /{name}", httpx.Response(200, json={"results": [], "next": None}))
        assert json.loads(run(command, "--json").stdout) == {"results": []}
        assert run(command).stdout.startswith("No ")


def test_volumes_say_whose_they_are_and_what_jobs_may_do(server: FakeServer, run: Run) -> None:
    rows = [{"name": "data", "tenant": "vision", "vc": None, "mode": "ro"}]
    server.on("GET /volumes", httpx.Response(200, json={"results": rows, "next": None}))
    assert all(word in run("volumes").stdout for word in ("data", "vision", "all", "ro"))


def test_no_command_leaves_temporary_files(
    server: FakeServer, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "code").mkdir()
    server.on("POST /uploads", problem(500, "Oops"))
    assert run("submit", spec_file(tmp_path / "code", "command: x\ncode: .\n")).exit_code == 1
    assert os.listdir(tmp_path / "tmp") == []
