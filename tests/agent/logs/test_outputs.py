"""The way of a job's files to the platform: exact or not at all, whatever happens to agent and messages."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.runtime.port import Phase, WorkFolder
from nodeagent.ship.outputs import CHUNK_BYTES, OutputStream
from nodeagent.transport.client import Client
from nodeagent.transport.transport import Dialled
from tests.agent.conftest import AgentProcess, RuntimeUnderTest
from tests.agent.fake_platform import Allocation, FakePlatform
from tests.waiting import eventually

LIMITS = {"outputs_max_bytes": 1 << 30, "outputs_max_files": 1000}


class Leaving:
    """A folder with files, and the stream that ships them."""

    def __init__(self, platform: FakePlatform, work: Path, *outputs: str) -> None:
        number = platform.place("never run", outputs=outputs or ("**",), **LIMITS)
        platform.credential = "secret"
        self.allocation: Allocation = platform.allocations[number]
        self.folder = WorkFolder(str(work), (), os.geteuid())
        self.client = Client(Dialled(platform.url), "secret")
        self.stream = self.new_stream()

    def new_stream(self) -> OutputStream:
        return OutputStream(self.allocation.spec, folder=lambda: self.folder, client=self.client)

    def restart(self) -> None:
        """Start a new run of the agent, which knows nothing of the old one."""
        self.stream.close()
        self.stream = self.new_stream()

    def ship(self) -> None:
        """Ship everything; waits are skipped."""
        for _ in range(10_000):
            if self.stream.step() is None and self.stream.done:
                self.stream.close()
                return
        raise AssertionError("the stream never ends")

    @property
    def bodies(self) -> dict[str, bytes]:
        return {path: bytes(output.body) for path, output in self.allocation.outputs.items()}

    @property
    def left_out(self) -> dict[str, str]:
        assert self.allocation.outputs_finish is not None
        return {item.path: item.reason for item in self.allocation.outputs_finish.left_out}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def content() -> bytes:
    return os.urandom(3 * CHUNK_BYTES + 5)


def test_files_arrive_as_they_are(platform: FakePlatform, work: Path, content: bytes) -> None:
    (work / "large").write_bytes(content)
    (work / "exact").write_bytes(content[:CHUNK_BYTES])
    (work / "empty").write_bytes(b"")
    leaving = Leaving(platform, work)
    leaving.ship()
    assert leaving.bodies == {"empty": b"", "exact": content[:CHUNK_BYTES], "large": content}
    assert leaving.left_out == {}


def test_many_files_are_named_in_batches(platform: FakePlatform, work: Path) -> None:
    for number in range(450):
        (work / str(number)).write_text(str(number))
    leaving = Leaving(platform, work)
    leaving.ship()
    assert leaving.bodies == {str(number): str(number).encode() for number in range(450)}
    assert sum(call.endswith("/outputs") for call in platform.calls) == 3


@pytest.mark.parametrize("what", [503, "cut", "deaf"])
def test_lost_calls_and_answers_change_nothing(
    platform: FakePlatform, work: Path, content: bytes, what: int | str
) -> None:
    (work / "large").write_bytes(content)
    (work / "small").write_bytes(b"small")
    leaving = Leaving(platform, work)
    for _ in range(6):
        platform.fault("outputs", what)
        leaving.stream.step()
    leaving.ship()
    assert leaving.bodies == {"large": content, "small": b"small"}
    assert leaving.left_out == {}


def test_a_restart_in_the_middle_goes_on_where_the_platform_is(
    platform: FakePlatform, work: Path, content: bytes
) -> None:
    (work / "a").write_bytes(b"a")
    (work / "large").write_bytes(content)
    leaving = Leaving(platform, work)
    eventually(lambda: leaving.stream.step() == 0.0 and len(leaving.bodies.get("large", b"")) > CHUNK_BYTES, "a part")
    sent = len(leaving.bodies["large"])
    platform.calls.clear()
    leaving.restart()
    leaving.ship()
    assert leaving.bodies == {"a": b"a", "large": content}
    chunks = [call for call in platform.calls if call.startswith("PATCH")]
    assert len(chunks) == -(-(len(content) - sent) // CHUNK_BYTES)


def test_a_platform_that_has_less_than_before_is_told_again(platform: FakePlatform, work: Path, content: bytes) -> None:
    (work / "large").write_bytes(content)
    leaving = Leaving(platform, work)
    eventually(lambda: leaving.stream.step() == 0.0 and len(leaving.bodies.get("large", b"")) > CHUNK_BYTES, "a part")
    del leaving.allocation.outputs["large"].body[100:]
    leaving.ship()
    assert leaving.bodies == {"large": content}


@pytest.mark.parametrize(("what", "reason"), [("grows", "changed"), ("shrinks", "changed"), ("goes", "vanished")])
def test_a_file_that_changes_meanwhile_is_left_out_and_the_others_arrive(
    platform: FakePlatform, work: Path, content: bytes, what: str, reason: str
) -> None:
    (work / "large").write_bytes(content)
    (work / "other").write_bytes(b"other")
    leaving = Leaving(platform, work)
    steps = 2 if what == "goes" else 4
    for _ in range(steps):
        leaving.stream.step()
    if what == "goes":
        (work / "large").unlink()
    else:
        with (work / "large").open("r+b") as file:
            file.truncate(len(content) + (7 if what == "grows" else -CHUNK_BYTES - 9))
    leaving.ship()
    assert leaving.left_out == {"large": reason}
    assert leaving.allocation.outputs["large"].sha256 == ""
    assert leaving.bodies["other"] == b"other"


def test_a_platform_that_wants_none_ends_it(platform: FakePlatform, work: Path) -> None:
    (work / "a").write_bytes(b"a")
    leaving = Leaving(platform, work)
    platform.fault("/outputs", 409)
    leaving.ship()
    assert (leaving.bodies, leaving.allocation.outputs_finish) == ({}, None)


def collected(platform: FakePlatform, number: int, within_s: float = 30.0) -> Allocation:
    """The allocation, once its files are there."""
    allocation = platform.allocations[number]
    eventually(lambda: allocation.outputs_finish is not None, f"the files of {number}", within_s)
    return allocation


COMMAND = """
mkdir -p ckpt run; head -c 2000000 /dev/urandom > ckpt/last.pt; echo 1,2 > loss.csv; echo no > notes
ln -s /etc/passwd ckpt/link; exit 3
"""


def test_an_agent_ships_the_files_and_then_removes_the_folder(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place(COMMAND, outputs=("ckpt/**", "*.csv"), **LIMITS)
    allocation = collected(platform, number)
    assert sorted(allocation.outputs) == ["ckpt/last.pt", "loss.csv"]
    assert bytes(allocation.outputs["loss.csv"].body) == b"1,2\n"
    assert allocation.outputs_finish is not None
    assert [(item.path, item.reason) for item in allocation.outputs_finish.left_out] == [("ckpt/link", "not_a_file")]
    assert (allocation.end and allocation.end.exit_code) == 3
    eventually(lambda: not agent.allocation_folder(number).exists(), "the folder is removed", 30.0)


def test_an_agent_that_is_killed_ships_the_rest_when_it_is_back(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    platform.fault(r"PATCH .*/outputs/\d+", 503, times=1000)
    number = platform.place(COMMAND, outputs=("**",), **LIMITS)
    eventually(lambda: any("/outputs/" in call for call in platform.calls), "a first try", 30.0)
    agent.kill()
    platform.faults.clear()
    agent.start()
    allocation = collected(platform, number)
    assert sorted(path for path, output in allocation.outputs.items() if output.sha256) == [
        "ckpt/last.pt",
        "loss.csv",
        "notes",
    ]
    eventually(lambda: not agent.allocation_folder(number).exists(), "the folder is removed", 30.0)


def test_a_job_that_was_never_started_leaves_nothing_and_says_so(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("true", image="an/image", outputs=("**",), **LIMITS)
    allocation = collected(platform, number)
    assert (allocation.outputs, allocation.outputs_finish and allocation.outputs_finish.left_out) == ({}, ())


def test_a_runtime_tells_where_the_files_are_and_whose(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo x > here; mkdir sub; touch sub/below", workdir="run")
    under_test.exit(number)
    spec = under_test.runtime.spec(number)
    assert spec is not None
    folder = under_test.runtime.work(spec)
    assert folder is not None
    file = Path(folder.path, *folder.below, "here")
    assert folder.below == ("run",)
    assert (stat.S_ISREG(file.stat().st_mode), file.stat().st_uid) == (True, folder.uid)
    assert under_test.runtime.observe(number).phase is Phase.EXITED


@pytest.fixture(autouse=True)
def _no_open_files(work: Path) -> Iterator[None]:
    """Whatever happened, the stream let go of what it had opened."""
    yield
    links = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(name)]
    assert [link for link in links if link.startswith(str(work))] == []


def _is_open(name: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{name}")
