"""A process whose first thread has left while others run on, which /proc shows as a zombie."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.local import processes
from nodeagent.cli import daemon
from nodeagent.disk.rules import Unit
from nodeagent.disk.walk import deleted
from nodeagent.runtime.process.job import Command, ProcessJob
from nodeagent.runtime.shim import tree
from nodeagent.runtime.shim.job import StartFailed
from nodeagent.system import clock
from tests.agent.conftest import RuntimeUnderTest
from tests.waiting import eventually

MARK = f"MUSTER_TEST_MARK={os.getpid()} {uuid.uuid4()}".encode()
DELETED_BYTES = 1 << 20
# It has a deleted file open and 40 MiB in memory; it says its number when all is there, and its first thread leaves.
HEADLESS = f"""
import ctypes, os, tempfile, threading, time
held = b"x" * (40 << 20)
file = tempfile.TemporaryFile(dir=".", buffering=0)
file.write(b"x" * {DELETED_BYTES})
threading.Thread(target=time.sleep, args=(1000,)).start()
print(os.getpid(), flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def headless(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environb, **dict([MARK.split(b"=")])}
    with subprocess.Popen(
        [sys.executable, "-c", HEADLESS], cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        eventually(lambda: _read(process.pid).headless, "its first thread leaves")
        yield process
        process.kill()


def _read(pid: int) -> tree.Process:
    found = tree.read_process(pid)
    assert found is not None
    return found


def _is_gone(pid: int) -> bool:
    found = tree.read_process(pid)
    return found is None or found.ended


def test_it_is_found_with_what_it_has(headless: subprocess.Popen[bytes], tmp_path: Path) -> None:
    everything = tree.all_processes()
    assert headless.pid in {process.pid for process in tree.descendants(everything, os.getpid())}
    assert tree.marked(MARK, everything.values()) == {headless.pid}
    assert 40 <= everything[headless.pid].rss_mib < 200
    assert deleted([headless.pid], [os.stat(tmp_path).st_dev], Unit.BYTES) == DELETED_BYTES
    assert processes.is_alive(headless.pid)


def test_it_has_ended_once_its_last_thread_has(headless: subprocess.Popen[bytes]) -> None:
    headless.kill()
    eventually(lambda: _read(headless.pid).ended, "its end")  # we have not reaped it yet
    everything = tree.all_processes()
    assert not _read(headless.pid).headless
    assert headless.pid not in {process.pid for process in tree.descendants(everything, os.getpid())}
    assert tree.marked(MARK, everything.values()) == set()
    assert not processes.is_alive(headless.pid)


def test_an_older_agent_is_ended_though_only_threads_are_left_of_it(
    headless: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    record = {"pid": headless.pid, "started": _read(headless.pid).started_ticks, "tag": "one"}
    (tmp_path / daemon.RECORD).write_text(json.dumps(record))
    daemon._end_older(str(tmp_path))
    assert _is_gone(headless.pid)


def _members(under_test: RuntimeUnderTest, allocation_id: int) -> set[int]:
    """The processes of a job; the number that one prints may be that of its PID namespace."""
    mark = f"MUSTER_ALLOCATION_DIR={under_test.folder(allocation_id)}".encode()
    return tree.marked(mark, tree.all_processes().values())


@pytest.mark.parametrize("detach", ["", "setsid "])
@pytest.mark.parametrize("under_test", ["process"], indirect=True)
def test_none_is_left_when_its_job_has_ended(under_test: RuntimeUnderTest, detach: str) -> None:
    command = f"{detach}python3 program >number & until [ -s number ]; do sleep 0.05; done; cat number"
    number = under_test.start(command, files={"program": HEADLESS.encode()})
    assert under_test.exit(number).exit_code == 0
    assert under_test.output(number)
    assert not _members(under_test, number)


@pytest.mark.parametrize("under_test", ["process"], indirect=True)
def test_it_has_its_grace_and_is_killed_after_it(under_test: RuntimeUnderTest) -> None:
    command = "(trap '' TERM; exec python3 program) & sleep 1000"
    number = under_test.start(command, files={"program": HEADLESS.encode()})
    eventually(lambda: any(_read(pid).headless for pid in _members(under_test, number)), "its first thread leaves")
    assert under_test.runtime.usage()[number].processes == 3
    began = clock.boottime()
    under_test.runtime.stop(number, "TERM", 0.3)
    assert under_test.exit(number).signal == signal.SIGTERM
    assert clock.boottime() - began >= 0.3
    assert not _members(under_test, number)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a job as root")
def test_a_shim_of_roots_starts_no_job_without_a_uid(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="no job runs as root"):
        ProcessJob(Command(("/bin/true",), {}, str(tmp_path), uid=None, gids=())).start()
