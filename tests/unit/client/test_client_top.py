"""`muster top`: the cluster as lines that fit, and a screen that leaves the terminal as it was."""

from __future__ import annotations

import json
import os
import pty
import sys
import termios
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from rich.console import Console
from rich.text import Text

from muster_client.errors import ApiError, UnreachableError
from muster_client.local.watching import watch
from muster_client.show.top import View, top_lines
from tests.unit.client.fake_server import FakeServer, Run, job
from tests.unit.client.test_client_render import DARK_GPU, GPU, NODE

NOW = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
FREE: Any = {**GPU, "index": 1, "busy": False, "jobs": [], "utilization": 0.0, "memory_used_mib": 0}
HIDDEN: Any = {**GPU, "index": 2, "jobs": [], "utilization": 12.6}
FAILED: Any = {**FREE, "index": 3, "healthy": False}
RUNNING = job(
    state="active",
    started_at="2026-11-21T00:10:00Z",
    running_since="2026-11-21T00:10:00Z",
    gpu_choices=[{"gpu_type": None, "gpus": 1}],
    gpus_total=1,
)
CHOICES = [{"gpu_type": "A100", "gpus": 4}, {"gpu_type": "V100", "gpus": 8}]
VC: Any = {
    "name": "vision",
    "tenant": "acme",
    "pool": "main",
    "quotas": [{"gpu_type": "A100", "gpus": 8, "used": 1}],
    "waiting": 2,
    "active": 1,
}


def node(name: str = "gpu01", *gpus: Any, **changes: Any) -> Any:
    return {**NODE, "name": name, "gpus": [{**gpu, "node": name} for gpu in gpus], **changes}


def view(*, nodes: Any = None, vcs: Any = (VC,), jobs: Any = (RUNNING,), more_jobs: bool = False) -> View:
    nodes = [node("gpu01", GPU, FREE, HIDDEN)] if nodes is None else nodes
    return View(url="http://muster.test", nodes=nodes, vcs=vcs, jobs=jobs, at=NOW, more_jobs=more_jobs)


def plain(found: View, **options: Any) -> list[str]:
    return [line.plain for line in top_lines(found, **{"width": 200, **options})]


def test_the_whole_is_shown() -> None:
    assert plain(view()) == [
        "http://muster.test  01:00:00 UTC",
        "2 of 3 GPUs in use, utilisation 33 %, memory 40/120 GiB",
        "",
        "NODE   STATE  TYPE  GPUS  UTIL      MEMORY  EACH  CPUS  POOL",
        "gpu01  ready  A100   2/3  33 %  40/120 GiB  ▇·▂   8/64  main",
        "",
        "VC      TENANT  POOL  GPU   USED  WAITING  ACTIVE",
        "vision  acme    main  A100   1/8        2       1",
        "",
        "JOB  NAME   OWNER  VC      GPUS  UTIL     MEMORY    RUNS  NODES",
        "  7  train  ada    vision     1  87 %  20/40 GiB  50 min  gpu01",
    ]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("height", [4, 10, 24])
def test_no_line_is_longer_and_there_are_no_more_than_fit(width: int, height: int) -> None:
    nodes = [node(f"node-with-a-long-name-{place}", *[GPU] * 8) for place in range(20)]
    jobs = [job(id=place, state="active", name="训练" * 40) for place in range(30)]
    lines = top_lines(view(nodes=nodes, jobs=jobs), width=width, height=height, note="q leaves")
    assert max(line.cell_len for line in lines) <= width
    assert len(lines) <= height
    assert lines[-1].plain == "q leaves"


@pytest.mark.parametrize(
    ("width", "head"),
    [
        (50, "NODE   STATE  TYPE  GPUS  UTIL      MEMORY  EACH"),
        (44, "NODE   STATE  GPUS  UTIL      MEMORY  EACH"),
        (40, "NODE   STATE  GPUS  UTIL      MEMORY"),
        (30, "NODE   GPUS  UTIL      MEMORY"),
        (18, "NODE   GPUS  UTIL"),
    ],
)
def test_a_narrow_terminal_keeps_what_matters_most(width: int, head: str) -> None:
    assert plain(view(), width=width)[3] == head


def test_a_low_terminal_says_how_much_is_left_out() -> None:
    nodes = [node(f"gpu{place:02}", GPU) for place in range(9)]
    lines = plain(view(nodes=nodes), height=14)
    assert [line.split()[0] for line in lines[3:7]] == ["NODE", "gpu00", "gpu01", "gpu02"]
    assert lines[7] == "… 6 more nodes"
    assert (len(lines), lines[-1].split()[0]) == (14, "7")


def test_nodes_with_something_wrong_come_first() -> None:
    nodes = [
        node("a", GPU),
        node("b", GPU, FAILED),
        node("c", GPU, health="down", last_seen_at="2026-11-21T00:57:00Z", reason="no answer"),
        node("d", GPU, admin="draining"),
    ]
    lines = plain(view(nodes=nodes, vcs=[], jobs=[]))
    assert [line.split()[:2] for line in lines[4:8]] == [
        ["b", "ready"],
        ["c", "down"],
        ["a", "ready"],
        ["d", "draining"],
    ]
    assert lines[1].endswith("1 failed, 1 of 4 nodes not ready")
    assert "▇x" in lines[4]
    assert lines[5].endswith("seen 3 min ago: no answer")


@pytest.mark.parametrize(
    ("gpus", "changes", "gpus_shown", "note"),
    [
        ([GPU], {"stage": "screening", "gpu_choices": [{"gpu_type": None, "gpus": 8}]}, "1/8", "in screening"),
        ([GPU], {"stage": "screening", "gpu_choices": CHOICES}, "1/4–8", "in screening"),
        ([GPU] * 8, {"gpu_choices": CHOICES}, "8", ""),
        ([GPU], {"started_at": None}, "1", "starts"),
        ([GPU], {"idle": {"since": "2026-11-20T23:00:00Z", "stop_at": None}}, "1", "idle for 2 h"),
        ([GPU], {"kept": {"until": "2026-11-21T02:00:00Z", "reason": "x", "exit_code": 1}}, "1", "failed, kept"),
        ([{**GPU, "jobs": [*GPU["jobs"], {**GPU["jobs"][0], "id": 8}]}], {}, "1", "shares GPUs"),
        ([GPU], {"desired": "stop"}, "1", "is being stopped"),
        ([GPU], {}, "1", ""),
    ],
)
def test_what_there_is_to_know_of_a_job(gpus: list[Any], changes: dict[str, Any], gpus_shown: str, note: str) -> None:
    shown = view(nodes=[node("gpu01", *gpus)], vcs=[], jobs=[{**RUNNING, **changes}])
    line = plain(shown)[-1]
    assert line.split()[4] == gpus_shown
    assert note in line
    assert ("NOTE" in plain(shown)[-2]) == bool(note)


def test_what_was_not_measured_is_not_called_idle() -> None:
    lines = plain(view(nodes=[node("gpu01", {**DARK_GPU, "jobs": GPU["jobs"]})], vcs=[]))
    assert lines[4].split()[3:8] == ["1/1", "-", "-/40", "GiB", "?"]
    assert lines[-1].split()[5:8] == ["-", "-/40", "GiB"]


def test_names_of_others_do_not_steer_the_terminal() -> None:
    bad = "a\x1b]0;title\x07b\nc"
    shown = view(nodes=[node("gpu01", GPU, reason=bad)], jobs=[{**RUNNING, "name": bad, "owner": bad}])
    text = "".join(plain(shown))
    assert [one for one in text if ord(one) < 32 or 127 <= ord(one) < 160] == []


def test_an_empty_cluster_is_shown_as_such() -> None:
    assert plain(view(nodes=[], vcs=[], jobs=[]))[2:] == ["", "No nodes.", "", "No job runs."]


def test_more_jobs_than_were_asked_for_are_told_of() -> None:
    assert plain(view(more_jobs=True))[-1] == "… and more jobs"


def answers(server: FakeServer) -> None:
    for path, rows in (("nodes", [node("gpu01", GPU)]), ("vcs", [VC]), ("jobs", [RUNNING])):
        server.on(f"GET /{path}", httpx.Response(200, json={"results": rows, "next": None}))


def test_into_a_pipe_it_is_printed_once(server: FakeServer, run: Run) -> None:
    answers(server)
    result = run("top", "--mine", "--vc", "vision")
    assert (result.exit_code, result.stdout.splitlines()[-1].split()[:2]) == (0, ["7", "train"])
    assert dict(server.sent("GET /jobs")[0].url.params) == {
        "state": "active",
        "vc": "vision",
        "mine": "true",
        "limit": "200",
    }
    assert len(server.requests) == 3


def test_programs_get_what_the_server_said(server: FakeServer, run: Run) -> None:
    answers(server)
    found = json.loads(run("top", "--json").stdout)
    assert [(name, len(found[name])) for name in ("nodes", "vcs", "jobs")] == [("nodes", 1), ("vcs", 1), ("jobs", 1)]


@pytest.mark.parametrize("interval", ["0", "0.5", "x"])
def test_an_interval_that_makes_no_sense_is_refused(run: Run, interval: str) -> None:
    assert run("top", "--interval", interval).exit_code == 2


class Terminal:
    """A terminal of this process, and who sits at it."""

    def __init__(self) -> None:
        self.user, self.end = pty.openpty()
        self.stdin = os.fdopen(os.dup(self.end), "r")
        self.stdout = os.fdopen(os.dup(self.end), "w")
        self.console = Console(file=self.stdout, force_terminal=True)
        self.shown = b""

    def mode(self) -> list[Any]:
        return termios.tcgetattr(self.end)

    def see(self, text: bytes) -> None:
        while text not in self.shown:
            self.shown += os.read(self.user, 65536)

    def close(self) -> None:
        for one in (self.stdin, self.stdout):
            one.close()
        os.close(self.user)
        os.close(self.end)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdin", terminal.stdin)
    monkeypatch.setattr("muster_client.local.watching.terminal_size", lambda: (10, 60))
    yield terminal
    terminal.close()


def draw(shown: str, width: int, height: int, note: str) -> list[Text]:
    return [Text(shown), Text(note)]


def test_it_is_drawn_again_until_q_and_the_terminal_is_as_before(terminal: Terminal) -> None:
    texts = iter(["first", "second", UnreachableError("It is away."), "third"])
    before = terminal.mode()

    def fetch() -> str:
        found = next(texts, "third")
        if isinstance(found, Exception):
            raise found
        return found

    def user() -> None:
        terminal.see(b"first")
        terminal.see(b"second")
        terminal.see(b"It is away. What is shown is old")
        terminal.see(b"third")
        os.write(terminal.user, b"xq")
        terminal.see(b"\x1b[?1049l\x1b[?25h")

    sitting = threading.Thread(target=user, daemon=True)
    sitting.start()
    watch(terminal.console, fetch=fetch, draw=draw, interval_s=0)
    terminal.stdout.flush()
    sitting.join(30)
    assert not sitting.is_alive()
    assert terminal.mode() == before
    assert terminal.shown.count(b"\x1b[?1049h") == 1


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("away"),
        ApiError({"type": "", "title": "no", "status": 401, "detail": "", "errors": []}),
    ],
)
def test_what_the_first_answer_refuses_ends_it(terminal: Terminal, error: Exception) -> None:
    before = terminal.mode()

    def fetch() -> str:
        raise error

    with pytest.raises(type(error)):
        watch(terminal.console, fetch=fetch, draw=draw, interval_s=5)
    assert terminal.mode() == before
