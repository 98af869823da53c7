"""Retention of a failed command, the same in every runtime, tried with real processes."""

from __future__ import annotations

import os
import signal

import pytest

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.port import EventKind, ExitStatus, Kept, Phase, ShellRefused
from nodeagent.system import clock
from tests.agent.conftest import RuntimeUnderTest, is_alive
from tests.agent.runtime.test_deadline_conformance import LEASE_S
from tests.agent.runtime.test_shell_conformance import open_shell
from tests.waiting import eventually

LONG_S = 600.0
WITHIN_S = 30.0
# How long something is kept whose own end is waited for: it must be seen before.
KEPT_S = 3.0


def kept(under_test: RuntimeUnderTest, number: int) -> Kept:
    """The report of the allocation, once it is kept."""
    found = eventually(lambda: under_test.runtime.observe(number).kept, "the failure", WITHIN_S)
    assert under_test.runtime.observe(number).phase is Phase.RUNNING
    return found


def heard(under_test: RuntimeUnderTest) -> list[EventKind]:
    kinds = []
    while not under_test.events.empty():
        kinds.append(under_test.events.get()[1])
    return kinds


def test_what_fails_is_kept_for_its_time_and_ends_as_it_failed(under_test: RuntimeUnderTest) -> None:
    began = clock.boottime()
    failed = under_test.start("echo out; exit 3", keep_failed_s=KEPT_S)
    note = kept(under_test, failed)
    assert clock.boottime() < note.until <= clock.boottime() + KEPT_S
    assert (note.reason, note.exit_code, note.signal) == (EndReason.EXIT_NONZERO, 3, None)
    assert note.detail == "exit status 3"
    # One after the other: of those that are begun together the first may be over before the last is looked at.
    killed = under_test.start("kill -SEGV $$", keep_failed_s=KEPT_S)
    assert kept(under_test, killed).signal == signal.SIGSEGV
    missing = under_test.start("no-such-program", keep_failed_s=KEPT_S)
    assert kept(under_test, missing).detail == "command not found: no-such-program"
    status = under_test.exit(failed)
    assert (status.reason, status.exit_code, status.detail) == (EndReason.EXIT_NONZERO, 3, "exit status 3")
    assert clock.boottime() - began >= KEPT_S
    assert under_test.exit(killed).signal == signal.SIGSEGV
    assert under_test.exit(missing).reason is EndReason.COMMAND_NOT_FOUND
    assert under_test.output(failed) == b"out\n"
    assert EventKind.KEPT in heard(under_test)


def test_what_succeeds_and_what_does_not_ask_for_it_is_not_kept(under_test: RuntimeUnderTest) -> None:
    succeeded = under_test.start("true", keep_failed_s=LONG_S)
    failed = under_test.start("exit 3")
    assert under_test.exit(succeeded).reason is EndReason.COMPLETED
    assert under_test.exit(failed).exit_code == 3
    assert EventKind.KEPT not in heard(under_test)


def test_what_is_stopped_is_not_kept(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo ready; sleep 1000", keep_failed_s=LONG_S)
    under_test.printed(number, b"ready")
    under_test.runtime.stop(number, "TERM", 5.0)
    assert under_test.exit(number).signal == signal.SIGTERM


def test_a_shell_finds_the_files_the_user_and_the_gpus_of_what_failed(under_test: RuntimeUnderTest) -> None:
    command = "echo found > file; id -u; exit 4"
    number = under_test.start(command, keep_failed_s=LONG_S, gpu_uuids=("GPU-a",))
    kept(under_test, number)
    for _ in range(2):  # it stays when a shell has ended
        talk = open_shell(under_test, number, "sh", "-c", 'cat file; echo "$CUDA_VISIBLE_DEVICES"; id -u')
        talk.shell.end_input()
        assert talk.end().exit_code == 0
        assert talk.seen == b"found\nGPU-a\n" + under_test.output(number)
    assert under_test.runtime.observe(number).kept is not None


def test_a_stop_ends_it_at_once_with_its_shells_and_it_ends_as_it_failed(
    under_test: RuntimeUnderTest, seconds: str
) -> None:
    number = under_test.start(f"sleep {seconds} & exit 4", keep_failed_s=LONG_S)
    kept(under_test, number)
    assert is_alive(seconds)  # what the command left behind is kept, too
    talk = open_shell(under_test, number, "sh", "-c", "trap '' HUP TERM; echo open; while true; do sleep 0.1; done")
    talk.hear(b"open")
    under_test.runtime.stop(number, "TERM", LONG_S)
    status = under_test.exit(number)
    assert (status.reason, status.exit_code, status.signal) == (EndReason.EXIT_NONZERO, 4, None)
    assert talk.end().detail
    assert not is_alive(seconds)
    with pytest.raises(ShellRefused):
        open_shell(under_test, number)


def test_the_time_limit_ends_it(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("exit 4", keep_failed_s=LONG_S, time_limit_s=LONG_S, grace_s=0.1)
    kept(under_test, number)
    under_test.runtime.limit(number, 0.2)
    status = under_test.exit(number)
    assert (status.reason, status.exit_code) == (EndReason.EXIT_NONZERO, 4)


def test_a_lease_that_runs_out_ends_it(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("exit 4", keep_failed_s=LONG_S, stop_after_s=LEASE_S)
    under_test.renewing(lambda: under_test.runtime.observe(number).kept, "the failure", LEASE_S)
    assert under_test.exit(number).exit_code == 4


def test_a_new_agent_adopts_it(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo found > file; exit 4", keep_failed_s=LONG_S)
    before = kept(under_test, number)
    under_test.restart()
    assert under_test.runtime.adopt(number) is None
    assert kept(under_test, number) == before
    talk = open_shell(under_test, number, "cat", "file")
    talk.shell.end_input()
    talk.end()
    assert talk.seen == b"found\n"
    under_test.runtime.stop(number, "TERM", 1.0)
    assert under_test.exit(number).exit_code == 4


def test_when_its_watcher_is_killed_nothing_of_it_is_left(under_test: RuntimeUnderTest, seconds: str) -> None:
    number = under_test.start(f"sleep {seconds} & exit 4", keep_failed_s=LONG_S)
    kept(under_test, number)
    os.kill(under_test.shim(number), signal.SIGKILL)
    eventually(lambda: under_test.runtime.observe(number).phase is Phase.GONE)
    under_test.runtime.settle(number, ExitStatus(EndReason.UNKNOWN))
    assert not is_alive(seconds)
