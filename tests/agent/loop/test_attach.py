"""An agent that the platform reaches over SSH: `start`, `attach`, and the links between the two."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.cli import daemon as module
from nodeagent.cli.build import build
from nodeagent.protocol.frames import ANSWER, MAGIC, MAX_BODY_BYTES, PING, PONG, REQUEST, Frame, FrameReader
from nodeagent.protocol.messages import CodeRef
from nodeagent.runtime.process.runtime import ProcessRuntime
from nodeagent.transport import linksocket
from nodeagent.transport.linked import Linked
from nodeagent.transport.linksocket import connect
from nodeagent.transport.transport import Unreachable
from tests.agent.conftest import ROOT, stop_everything
from tests.agent.fake_platform import FakePlatform
from tests.agent.loop.test_agent import archive, finished, logged
from tests.faults.disks import filled, small_disk
from tests.waiting import eventually, stretched

OPTIONS = ["--gpus=emulated:A100:2", "--cpus=4", "--memory-mib=1000"]


class Daemon:
    """The platform's program on a server, without SSH in between."""

    def __init__(self, platform: FakePlatform, folder: Path, program: list[str]) -> None:
        self.platform = platform
        self.state = folder / "state"
        self.state.mkdir(mode=0o711)
        self.program = program
        self.secret = "vouched-for-by-the-link-and-long-enough"
        platform.join_token = self.secret
        self._links: list[subprocess.Popen[bytes]] = []

    def start(self, tag: str = "one", options: list[str] = OPTIONS) -> subprocess.CompletedProcess[bytes]:
        words = [*self.program, "start", "--state", str(self.state), "--tag", tag, "--", *options]
        return subprocess.run(words, cwd=ROOT, env=self.environment(), capture_output=True, check=False, timeout=60)

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SSH_CONNECTION": "10.0.0.1 5000 10.0.0.7 22"}

    @property
    def record(self) -> dict[str, object]:
        found = json.loads((self.state / "daemon.json").read_text())
        assert isinstance(found, dict)
        return found

    @property
    def pid(self) -> int:
        return int(str(self.record["pid"]))

    def attach(self) -> subprocess.Popen[bytes]:
        """A link through which calls are answered until it is ended."""
        process = subprocess.Popen(
            [*self.program, "attach", "--state", str(self.state)],
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._links.append(process)
        threading.Thread(target=self._answer, args=(process,), daemon=True).start()
        return process

    def _answer(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        reader, head, sending = FrameReader(), b"", threading.Lock()
        while MAGIC not in head:
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                return
            head += part
        data = head.partition(MAGIC)[2]
        while True:
            for frame in reader.feed(data):
                threading.Thread(target=self._forward, args=(process, frame, sending), daemon=True).start()
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return

    def _forward(self, process: subprocess.Popen[bytes], frame: Frame, sending: threading.Lock) -> None:
        assert frame.kind == REQUEST
        assert "Authorization" not in frame.head["headers"]
        body = frame.body
        if frame.head["path"].endswith(("/hello", "/register")):
            body = json.dumps({**json.loads(body), "credential": self.secret}).encode()
        request = urllib.request.Request(
            self.platform.url + frame.head["path"],
            data=body or None,
            method=frame.head["method"],
            headers={**frame.head["headers"], "Authorization": f"Bearer {self.secret}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as refusal:
            status, content = refusal.code, refusal.read()
        except OSError:
            status, content = 503, b""
        assert process.stdin is not None
        with sending, contextlib.suppress(OSError, ValueError):
            process.stdin.write(Frame(ANSWER, frame.id, {"status": status}, content).encode())
            process.stdin.flush()

    def end(self) -> None:
        for link in self._links:
            link.kill()
            link.wait()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
            eventually(lambda: _is_gone(self.pid), "the agent's end")
        stop_everything(ProcessRuntime(str(self.state), lambda _id, _kind: None))


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def daemon(platform: FakePlatform, tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(platform, tmp_path, [sys.executable, "-m", "nodeagent"])
    yield made
    made.end()


def test_it_starts_registers_through_a_link_and_runs_a_job(platform: FakePlatform, daemon: Daemon) -> None:
    assert daemon.start().returncode == 0
    assert platform.calls == []
    daemon.attach()
    eventually(lambda: platform.epoch == 1, "a registration")
    assert platform.registered is not None
    assert platform.registered.inventory.address == "10.0.0.7"
    allocation = finished(platform, platform.place("echo hello; exit 3"))
    assert allocation.text == "hello\n"
    assert allocation.end is not None
    assert allocation.end.exit_code == 3
    assert stat.S_IMODE((daemon.state / "link.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE((daemon.state / "agent.log").stat().st_mode) == 0o600


def test_a_link_that_ends_disturbs_no_job_and_the_next_goes_on(platform: FakePlatform, daemon: Daemon) -> None:
    daemon.start()
    link = daemon.attach()
    number = platform.place("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.2; done; echo last")
    logged(platform, number, "2\n")
    link.kill()
    link.wait()
    beats = len(platform.beats)
    daemon.attach()
    allocation = finished(platform, number)
    assert allocation.text == "".join(f"{i}\n" for i in range(1, 10)) + "last\n"
    assert allocation.finish is not None
    assert allocation.finish.sha256 == hashlib.sha256(bytes(allocation.log)).hexdigest()
    assert platform.epoch == 1
    eventually(lambda: len(platform.beats) > beats, "beats through the new link")


def test_a_newer_link_takes_the_place_of_one_that_hangs(platform: FakePlatform, daemon: Daemon) -> None:
    daemon.start()
    first = daemon.attach()
    eventually(lambda: platform.epoch == 1, "a registration")
    first.send_signal(signal.SIGSTOP)
    daemon.attach()
    beats = len(platform.beats)
    eventually(lambda: len(platform.beats) > beats + 1, "beats through the new link")
    first.send_signal(signal.SIGCONT)
    assert first.wait(stretched(10)) == 0


def test_another_start_takes_over_with_its_jobs(platform: FakePlatform, daemon: Daemon) -> None:
    daemon.start("one")
    daemon.attach()
    number = platform.place("echo begun; sleep 1000")
    logged(platform, number, "begun")
    before = daemon.pid
    assert daemon.start("two").returncode == 0
    assert (daemon.record["tag"], _is_gone(before)) == ("two", True)
    daemon.attach()
    eventually(lambda: platform.epoch == 2, "a registration")
    eventually(lambda: "running" in platform.allocations[number].observed, "the job is adopted")
    platform.stop(number)
    allocation = finished(platform, number)
    assert allocation.text == "begun\n"


def test_an_agent_is_ready_only_when_links_come_to_it_and_not_to_another(tmp_path: Path) -> None:
    with contextlib.closing(linksocket.listen(str(tmp_path))):
        assert module._listens(str(tmp_path), os.getpid())
        assert not module._listens(str(tmp_path), os.getppid())
    assert not module._listens(str(tmp_path), os.getpid())


def test_another_start_takes_over_on_a_full_disk(platform: FakePlatform, daemon: Daemon) -> None:
    with small_disk(daemon.state, 16, with_content=False):
        assert daemon.start().returncode == 0
        daemon.attach()
        eventually(lambda: platform.epoch == 1, "a registration")
        before = daemon.pid
        with filled(daemon.state):
            done = daemon.start(tag="two")
            assert done.returncode == 0, done.stderr
            assert (daemon.pid != before, daemon.record["tag"]) == (True, "two")
            daemon.attach()
            eventually(lambda: platform.epoch == 2, "a registration")
        daemon.end()


def test_an_agent_that_is_frozen_is_replaced_all_the_same(
    platform: FakePlatform, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.start("one")
    os.kill(daemon.pid, signal.SIGSTOP)
    before = daemon.pid
    monkeypatch.setattr(module, "_END_WITHIN_S", 0.2)
    module._end_older(str(daemon.state))
    assert _is_gone(before)


def test_it_ends_soon_when_asked_to_also_without_a_link(daemon: Daemon) -> None:
    daemon.start()
    os.kill(daemon.pid, signal.SIGTERM)
    eventually(lambda: _is_gone(daemon.pid), "the agent's end")
    assert not (daemon.state / "node.json").exists()


def test_a_start_that_fails_tells_the_agents_last_words(daemon: Daemon) -> None:
    ended = daemon.start(options=["--gpus=nonsense"])
    assert ended.returncode == 1
    assert b"the agent ended with status 1" in ended.stderr
    assert b"cannot start" in ended.stderr


def test_attaching_to_nothing_fails(daemon: Daemon) -> None:
    words = [*daemon.program, "attach", "--state", str(daemon.state)]
    environment = {**daemon.environment(), "PYTHONPROFILEIMPORTTIME": "1"}
    ended = subprocess.run(words, cwd=ROOT, env=environment, input=b"", capture_output=True, check=False)
    assert ended.returncode == 1
    assert b"no agent runs" in ended.stderr
    assert ended.stdout == b""
    # A link is opened as soon as Python is: what an agent needs takes five times as long to load.
    assert {b"nodeagent.cli.attach"} == {
        b"nodeagent.cli.attach",
        b"nodeagent.cli.agent",
        b"nodeagent.protocol.wire",
    } & set(ended.stderr.split())


def test_the_one_file_can_be_started_and_built_again_the_same(platform: FakePlatform, tmp_path: Path) -> None:
    first, second = tmp_path / "agent.pyz", tmp_path / "again.pyz"
    build(str(first))
    build(str(second))
    assert first.read_bytes() == second.read_bytes()
    daemon = Daemon(platform, tmp_path, [sys.executable, "-I", str(first)])
    try:
        assert daemon.start().returncode == 0
        daemon.attach()
        assert finished(platform, platform.place("echo packed")).text == "packed\n"
    finally:
        daemon.end()


def test_code_of_any_size_comes_through_a_link(platform: FakePlatform, daemon: Daemon) -> None:
    code = archive(**{"noise": os.urandom(MAX_BODY_BYTES // 2).hex(), "run.sh": "wc -c < noise"})
    assert len(code) > MAX_BODY_BYTES // 2
    digest = hashlib.sha256(code).hexdigest()
    platform.codes[digest] = code
    daemon.start()
    daemon.attach()
    number = platform.place("sh run.sh", code=CodeRef(digest, len(code)))
    ended = finished(platform, number, within_s=30)
    assert ended.text.strip() == str(MAX_BODY_BYTES), ended.end


class Peer:
    """The other end of a link, by hand."""

    def __init__(self, state: Path) -> None:
        self._socket = connect(str(state))
        self._socket.settimeout(20)
        self._reader = FrameReader()
        self._frames: list[Frame] = []

    def read(self) -> Frame:
        while not self._frames:
            data = self._socket.recv(1 << 16)
            assert data, "the link was closed"
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    def send(self, *frames: Frame) -> None:
        self._socket.sendall(b"".join(frame.encode() for frame in frames))

    def is_closed(self) -> bool:
        return self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def transport(tmp_path: Path) -> Iterator[Linked]:
    made = Linked(str(tmp_path), threading.Event())
    yield made
    made.close()


def ask(transport: Linked, path: str, within_s: float = 10.0) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []

    def call() -> None:
        try:
            found.append(transport.call("GET", path, b"", {}, within_s))
        except Unreachable as error:
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread, found


def test_answers_may_come_in_any_order(transport: Linked, tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    asked = [ask(transport, f"/{name}") for name in "abc"]
    requests = [peer.read() for _ in asked]
    for request in reversed(requests):
        peer.send(Frame(ANSWER, request.id, {"status": 200}, request.head["path"].encode()))
    for (thread, found), name in zip(asked, "abc", strict=True):
        thread.join(10)
        assert found == [(200, f"/{name}".encode())]
    peer.send(Frame(PING, 9), Frame(ANSWER, 4711, {"status": 200}))
    assert peer.read() == Frame(PONG, 9)
    peer.close()


def test_what_was_asked_through_a_lost_link_fails_at_once(transport: Linked, tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    thread, found = ask(transport, "/a", within_s=1000)
    peer.read()
    peer.close()
    thread.join(10)
    assert isinstance(found[0], Unreachable)


def test_without_a_link_a_call_waits_no_longer_than_it_may(transport: Linked) -> None:
    with pytest.raises(Unreachable, match="no link"):
        transport.call("GET", "/a", b"", {}, 0.05)


def test_a_call_that_waits_goes_through_the_link_that_comes(transport: Linked, tmp_path: Path) -> None:
    thread, found = ask(transport, "/a")
    peer = Peer(tmp_path)
    peer.send(Frame(ANSWER, peer.read().id, {"status": 204}))
    thread.join(10)
    assert found == [(204, b"")]
    peer.close()


def test_garbage_ends_the_link_and_not_the_agent(transport: Linked, tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    peer._socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert peer.is_closed()
    peer.close()
    thread, found = ask(transport, "/a")
    other = Peer(tmp_path)
    other.send(Frame(ANSWER, other.read().id, {"status": "no number"}))
    thread.join(10)
    assert found == [(502, b"")]
    other.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_no_other_user_can_be_the_platform() -> None:
    with tempfile.TemporaryDirectory() as name:  # whose parents anybody may enter
        state = Path(name)
        transport = Linked(name, threading.Event())
        (state / "link.sock").chmod(0o777)
        state.chmod(0o755)
        child = os.fork()
        if child == 0:
            os.setuid(65_534)
            try:
                os._exit(0 if Peer(state).is_closed() else 1)
            except OSError:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        transport.close()


def test_a_large_file_comes_in_parts(transport: Linked, tmp_path: Path) -> None:
    content = os.urandom(2 * MAX_BODY_BYTES + 5)
    target = io.BytesIO()
    found: list[object] = []
    peer = Peer(tmp_path)
    thread = threading.Thread(
        target=lambda: found.append(transport.fetch("/code", {}, target, len(content) + 1, 10)), daemon=True
    )
    thread.start()
    ranges = []
    for _ in range(3):
        request = peer.read()
        ranges.append(request.head["headers"]["Range"])
        first, last = ranges[-1].removeprefix("bytes=").split("-")
        part = content[int(first) : int(last) + 1]
        peer.send(Frame(ANSWER, request.id, {"status": 206}, part))
    thread.join(10)
    assert found == [(200, b"")]
    assert target.getvalue() == content
    assert ranges[0] == f"bytes=0-{MAX_BODY_BYTES - 1}"
    peer.close()


def test_a_long_path_is_no_trouble(tmp_path: Path) -> None:
    state = tmp_path / ("x" * 100) / ("y" * 100)
    state.mkdir(parents=True)
    transport = Linked(str(state), threading.Event())
    connect(str(state)).close()
    transport.close()
