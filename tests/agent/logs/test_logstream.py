"""The way of a log to the platform: byte-exact or with its holes stated, whatever happens to the messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeagent.runtime.shim.spool import SpoolReader, SpoolWriter
from nodeagent.ship.logstream import BACKLOG_CHUNK_BYTES, GATHER_S, PACE_BYTES_PER_S, LogStream
from nodeagent.transport.client import Client
from nodeagent.transport.transport import Dialled
from tests.agent.fake_platform import Allocation, FakePlatform
from tests.profiles import examples

LINE = b"a line of text with its number %06d\n"
HUGE_CAP = 1 << 40


class Log:
    """A spool, the stream that ships it, and the allocation at the platform."""

    def __init__(self, platform: FakePlatform, folder: Path, spool_bytes: int = 1 << 20, cap: int = HUGE_CAP) -> None:
        self.platform = platform
        self.folder = str(folder)
        self.cap = cap
        self.writer = SpoolWriter(self.folder, spool_bytes)
        self.number = platform.place("never run")
        self.allocation: Allocation = platform.allocations[self.number]
        platform.credential = "secret"
        self.client = Client(Dialled(platform.url), "secret")
        self.holes: list[tuple[int, int]] = []
        self.stream = self.new_stream(resumed=False)

    def new_stream(self, resumed: bool = True) -> LogStream:
        return LogStream(
            self.number,
            7,
            source=SpoolReader(self.folder),
            client=self.client,
            cap_bytes=self.cap,
            found_hole=lambda _id, first, last: self.holes.append((first, last)),
            known_holes=tuple(self.holes),
            resumed=resumed,
        )

    def restart(self) -> None:
        self.stream.close()
        self.stream = self.new_stream()

    def ship(self, most: int = 10_000) -> None:
        """Ship until there is nothing to do; waits are skipped."""
        for _ in range(most):
            if self.stream.step() is None:
                return
        raise AssertionError("the stream never rests")

    def finish(self) -> None:
        self.stream.finalise(self.writer.size)
        self.ship()
        assert self.stream.done
        assert self.stream.complete
        assert self.allocation.finish is not None
        assert self.allocation.finish.size == self.writer.size


@pytest.fixture
def log(platform: FakePlatform, tmp_path: Path) -> Iterator[Log]:
    made = Log(platform, tmp_path)
    yield made
    made.stream.close()


def lines(count: int, first: int = 0) -> bytes:
    return b"".join(LINE % number for number in range(first, first + count))


def test_an_empty_log_is_finished(log: Log) -> None:
    log.finish()
    assert log.allocation.log == b""


def test_everything_arrives_in_chunks_that_end_at_lines(log: Log, platform: FakePlatform) -> None:
    log.writer.append(lines(5000))
    log.ship()
    log.finish()
    assert bytes(log.allocation.log) == lines(5000)
    assert sum("PATCH" in call for call in platform.calls) == -(-len(lines(5000)) // 65536)


def test_an_unfinished_line_is_shipped_too(log: Log) -> None:
    log.writer.append(b"12% done\r")
    log.ship()
    assert bytes(log.allocation.log) == b"12% done\r"


def test_a_backlog_is_shipped_in_larger_chunks(platform: FakePlatform, tmp_path: Path) -> None:
    log = Log(platform, tmp_path, spool_bytes=16 << 20)
    log.writer.append(lines(200_000))
    log.finish()
    assert bytes(log.allocation.log) == lines(200_000)
    assert sum("PATCH" in call for call in platform.calls) < 40


@pytest.mark.parametrize("fault", ["cut", "deaf", 500, 503, 429])
def test_a_failed_chunk_is_sent_again_as_it_was(log: Log, platform: FakePlatform, fault: int | str) -> None:
    platform.fault("PATCH", fault, times=3)
    log.writer.append(lines(100))
    for _ in range(4):
        log.stream.step()
        log.writer.append(lines(100))
    log.finish()
    assert bytes(log.allocation.log) == lines(100) * 5


@pytest.mark.parametrize("status", [404, 409])
def test_a_log_that_nobody_wants_is_given_up(log: Log, platform: FakePlatform, status: int) -> None:
    platform.fault("PATCH", status)
    log.writer.append(lines(1))
    assert log.stream.step() is None
    assert log.stream.done
    assert not log.stream.complete


def test_a_chunk_that_is_too_large_is_halved(log: Log, platform: FakePlatform) -> None:
    platform.fault("PATCH", 413, times=3)
    log.writer.append(lines(5000))
    log.finish()
    assert bytes(log.allocation.log) == lines(5000)


def test_bytes_that_the_platform_lost_are_sent_again(log: Log) -> None:
    log.writer.append(lines(100))
    log.ship()
    del log.allocation.log[1000:]
    log.writer.append(lines(100))
    log.finish()
    assert bytes(log.allocation.log) == lines(100) * 2


def test_the_rest_of_a_log_comes_with_its_end(log: Log, platform: FakePlatform) -> None:
    log.writer.append(lines(10))
    log.ship()
    log.writer.append(lines(10, first=10))
    platform.calls.clear()
    log.finish()
    assert bytes(log.allocation.log) == lines(20)
    assert [call.rsplit("/")[-1] for call in platform.calls] == ["batch", "log:finish"]


@pytest.mark.parametrize("fault", ["cut", "deaf", 500, 425])
def test_an_end_of_a_log_that_failed_is_sent_again_as_it_was(
    log: Log, platform: FakePlatform, fault: int | str
) -> None:
    platform.fault("log:finish", fault, times=2)
    log.writer.append(lines(10))
    log.stream.finalise(log.writer.size)
    assert log.stream.step()
    assert not log.stream.done
    log.finish()
    assert bytes(log.allocation.log) == lines(10)


def test_a_rest_that_the_platform_cannot_place_is_sent_from_where_it_is(log: Log, platform: FakePlatform) -> None:
    log.writer.append(lines(100))
    log.ship()
    del log.allocation.log[1000:]
    log.writer.append(lines(1, first=100))
    log.stream.finalise(log.writer.size)
    assert log.stream.step() == 0.0
    assert log.allocation.finish is None
    log.finish()
    assert bytes(log.allocation.log) == lines(101)


def test_what_was_given_up_is_stated_as_a_hole(platform: FakePlatform, tmp_path: Path) -> None:
    log = Log(platform, tmp_path, spool_bytes=8000)
    log.writer.append(lines(10))
    log.ship()
    log.writer.append(lines(1000, first=10))
    log.finish()
    assert len(log.allocation.holes) == 1
    first, last = log.allocation.holes[0]
    whole = lines(1010)
    assert log.allocation.kept() == whole[:first] + whole[last + 1 :]
    assert log.holes == log.allocation.holes
    assert log.allocation.finish is not None
    assert log.allocation.finish.sha256


def test_after_a_restart_it_goes_on_where_the_platform_is(log: Log) -> None:
    log.writer.append(lines(100))
    log.ship()
    log.writer.append(lines(100))
    log.restart()
    log.ship()
    log.restart()
    log.finish()
    assert bytes(log.allocation.log) == lines(100) * 2
    assert log.allocation.finish is not None
    assert log.allocation.finish.sha256


def test_after_a_restart_a_hash_that_cannot_be_known_is_left_out(platform: FakePlatform, tmp_path: Path) -> None:
    log = Log(platform, tmp_path, spool_bytes=8000)
    for number in range(40):
        log.writer.append(lines(20))
        log.ship()
        assert len(log.allocation.log) == (number + 1) * len(lines(20))
    log.restart()
    log.finish()
    assert bytes(log.allocation.log) == lines(20) * 40
    assert log.allocation.finish is not None
    assert (log.allocation.finish.sha256, log.allocation.finish.holes) == ("", ())


def test_what_a_job_prints_goes_at_once_and_then_together(log: Log, platform: FakePlatform) -> None:
    log.writer.append(lines(1))
    assert log.stream.step() == GATHER_S
    assert bytes(log.allocation.log) == lines(1)
    log.writer.append(lines(500))
    assert log.stream.step() == GATHER_S
    # A full chunk is followed by the next.
    log.writer.append(lines(5000))
    assert log.stream.step() == 0.0
    log.ship()
    assert bytes(log.allocation.log) == lines(1) + lines(500) + lines(5000)
    # The log of a job that is over is not gathered any longer.
    log.writer.append(lines(1))
    log.stream.finalise(log.writer.size)
    assert log.stream.step() is None
    assert log.stream.complete


def test_beyond_the_cap_it_goes_slowly(platform: FakePlatform, tmp_path: Path) -> None:
    log = Log(platform, tmp_path, cap=8000)
    log.writer.append(lines(400))
    assert log.stream.step() == 0.0
    assert log.stream.step() == (len(lines(400)) - 8000) / PACE_BYTES_PER_S
    log.ship()
    assert bytes(log.allocation.log) == lines(400)


def test_a_flood_beyond_the_cap_is_shipped_from_its_newest_bytes(platform: FakePlatform, tmp_path: Path) -> None:
    log = Log(platform, tmp_path, cap=800_000, spool_bytes=8 << 20)
    log.writer.append(lines(30_000))
    for _ in range(40):
        log.stream.step()
    assert bytes(log.allocation.log[:800_000]) == lines(30_000)[:800_000]
    log.writer.append(lines(100_000, first=30_000))
    log.ship()
    log.finish()
    whole = lines(130_000)
    assert len(log.allocation.log) == len(whole)
    assert len(log.allocation.kept()) < 2_500_000
    assert whole.endswith(bytes(log.allocation.log[-BACKLOG_CHUNK_BYTES:]))


def test_bytes_that_are_lost_at_the_very_end_are_stated_when_it_is_finished(log: Log) -> None:
    log.writer.append(lines(10))
    log.writer.size += 100  # the disk was full until the end
    log.finish()
    size = len(lines(10))
    assert log.allocation.finish is not None
    assert log.allocation.finish.holes == ((size, size + 99),)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3000)),
        st.tuples(st.just("ship"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["cut", "deaf", "503", "restart"]), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_in_every_history_the_log_is_exact_outside_its_holes(
    platform: FakePlatform, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    log = Log(platform, tmp_path_factory.mktemp("log"), spool_bytes=8000)
    platform.faults.clear()
    written = b""
    for step, amount in steps:
        if step == "write":
            data = (lines(amount // 30 + 1, first=len(written)) + b"tail")[:amount]
            log.writer.append(data)
            written += data
        elif step == "ship":
            for _ in range(amount):
                log.stream.step()
        elif step == "restart":
            log.restart()
        else:
            platform.fault("PATCH", int(step) if step.isdigit() else step)
    platform.faults.clear()
    log.finish()
    expected = bytearray(written)
    for first, last in reversed(log.allocation.holes):
        del expected[first : last + 1]
    assert log.allocation.kept() == bytes(expected)
    assert platform.violations == []
    log.stream.close()
