"""A shell in a running job and its traces, the same in every runtime, tried with real processes."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.port import ExitStatus, Phase, Shell, ShellEnding, ShellRefused, ShellRequest
from nodeagent.runtime.shim.leash import LeashedShell
from tests.agent.conftest import RuntimeUnderTest, is_alive
from tests.agent.runtime.test_runtime_conformance import AS_ROOT
from tests.waiting import eventually

WITHIN_S = 30.0
WAITS = "echo ready; while true; do sleep 0.2; done"
KILL_LINE = "\x15"


class Talk:
    """A conversation with a shell."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.seen = b""

    def say(self, text: str) -> None:
        os.write(self.shell.input, text.encode())

    def hear(self, word: bytes) -> bytes:
        """All output, once it has the word."""
        until = time.monotonic() + WITHIN_S
        while word not in self.seen:
            assert time.monotonic() < until, f"{word!r} is not in {self.seen!r}"
            assert self._take(), f"it ended without {word!r}: {self.seen!r}"
        return self.seen

    def leave(self, key: str) -> ShellEnding:
        """Press the key again and again on an empty line; return the shell's end.

        What comes while a terminal's mode changes is lost, or left in the line as another character.
        """
        until = time.monotonic() + WITHIN_S
        while self.shell.ending() is None:
            assert time.monotonic() < until, f"{key!r} does not end it: {self.seen!r}"
            with contextlib.suppress(OSError):  # it ends just now
                self.say(KILL_LINE + key)
            self._take()
        return self.end()

    def end(self) -> ShellEnding:
        """The shell's end, with all of its output read."""
        until = time.monotonic() + WITHIN_S
        while self._take():
            assert time.monotonic() < until, f"it does not end: {self.seen!r}"
        ending = eventually(self.shell.ending, "the end of the shell", WITHIN_S)
        self.shell.close()
        return ending

    def _take(self) -> bool:
        """Take what comes; False at the end."""
        ready, _, _ = select.select([self.shell.output, self.shell.control], [], [], 0.5)
        ended = self.shell.ending() is not None  # asked before the read: what it wrote before its end is there then
        if self.shell.output in ready or ended:
            try:
                data = os.read(self.shell.output, 65536)
            except BlockingIOError:
                return not ended
            except OSError:
                return False
            self.seen += data
            return bool(data)
        return True


@pytest.fixture
def job(under_test: RuntimeUnderTest) -> int:
    """A job that runs until it is stopped."""
    number = under_test.start(WAITS)
    under_test.printed(number, b"ready")
    return number


def open_shell(under_test: RuntimeUnderTest, number: int, *command: str, terminal: bool = False) -> Talk:
    request = ShellRequest(random.randrange(1, 10**9), command, terminal, "xterm", rows=33, cols=101)
    return Talk(under_test.runtime.shell(number, request))


def is_gone(word: str) -> bool:
    return not is_alive(word)


def test_a_command_without_a_terminal_reads_to_the_end_and_tells_its_status(
    under_test: RuntimeUnderTest, job: int
) -> None:
    talk = open_shell(under_test, job, "sh", "-c", "cat; echo oops >&2; exit 3")
    talk.say("one\ntwo")
    talk.shell.end_input()
    ending = talk.end()
    assert (ending.exit_code, ending.signal, ending.detail) == (3, None, "")
    assert talk.seen == b"one\ntwooops\n"


def test_bytes_pass_a_pipe_unchanged(under_test: RuntimeUnderTest, job: int) -> None:
    content = bytes(range(256)) * 40
    talk = open_shell(under_test, job, "cat")
    os.write(talk.shell.input, content)
    talk.shell.end_input()
    assert talk.end().exit_code == 0
    assert talk.seen == content


def test_a_command_that_does_not_exist_is_named_and_ends_with_127(under_test: RuntimeUnderTest, job: int) -> None:
    talk = open_shell(under_test, job, "no-such-program")
    talk.shell.end_input()
    assert talk.end().exit_code == 127
    assert b"no-such-program" in talk.seen


def test_a_shell_on_a_terminal_has_its_size_and_gets_the_next_one(under_test: RuntimeUnderTest, job: int) -> None:
    talk = open_shell(under_test, job, terminal=True)
    talk.say("stty size; tty; echo term=$TERM; echo first-$((1+1))\n")
    seen = talk.hear(b"first-2")
    assert b"33 101" in seen
    assert b"term=xterm" in seen
    assert b"/dev/" in seen
    talk.shell.resize(44, 77)
    rounds = iter(range(10_000))

    def told() -> bool:
        """The size as one more question finds it: it comes a moment later where an engine passes it on."""
        number = next(rounds)
        talk.say(f"stty size; echo round-{number}-$((3+3))\n")
        return b"44 77" in talk.hear(b"round-%d-6" % number)

    eventually(told, "44 77", WITHIN_S)
    talk.say("exit 7\n")
    assert talk.end().exit_code == 7


def test_ctrl_c_ends_what_runs_and_ctrl_d_the_shell(under_test: RuntimeUnderTest, job: int, seconds: str) -> None:
    talk = open_shell(under_test, job, "sh", terminal=True)
    talk.say(f"sleep {seconds}\n")
    eventually(lambda: is_alive(seconds), "the sleeper", WITHIN_S)
    talk.say("\x03")
    eventually(lambda: is_gone(seconds), "the end of the sleeper", WITHIN_S)
    talk.say("echo again-$((2+3))\n")
    talk.hear(b"again-5")
    assert talk.leave("\x04").detail == ""


def test_a_shell_is_where_the_job_is_and_finds_what_the_job_finds(under_test: RuntimeUnderTest) -> None:
    number = under_test.start(f"touch made; {WAITS}", env={"FOO": "bar"}, gpu_uuids=("GPU-a",))
    under_test.printed(number, b"ready")
    talk = open_shell(under_test, number, "sh", "-c", "pwd; ls; echo $FOO $CUDA_VISIBLE_DEVICES; echo $MUSTER_WORKDIR")
    talk.shell.end_input()
    assert talk.end().exit_code == 0
    work = under_test.work(number).encode()
    assert talk.seen == work + b"\nmade\nbar GPU-a\n" + work + b"\n"


RIGHTS = "id -u; id -g; id -G; grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status"


@AS_ROOT
def test_a_shell_has_the_rights_of_its_job_and_none_more(under_test: RuntimeUnderTest) -> None:
    number = under_test.start(f"{RIGHTS}; {WAITS}", uid=4321, gids=(7770, 7780))
    of_job = under_test.printed(number, b"ready").partition(b"ready")[0]
    talk = open_shell(under_test, number, "sh", "-c", RIGHTS)
    talk.shell.end_input()
    talk.end()
    assert talk.seen == of_job
    assert of_job.startswith(b"4321\n7770\n7770 7780\n")
    if under_test.in_containers:
        assert open_shell(under_test, number, "unshare", "-U", "true").end().exit_code == 1
    terminal = open_shell(under_test, number, "sh", "-c", "id -u; echo written > $(tty) && echo mine", terminal=True)
    assert b"mine" in terminal.hear(b"mine")
    assert terminal.end().exit_code == 0


def test_what_a_shell_leaves_behind_goes_with_it(under_test: RuntimeUnderTest, job: int, seconds: str) -> None:
    talk = open_shell(under_test, job, "sh", "-c", f"setsid sleep {seconds} >/dev/null 2>&1 & exit 5")
    talk.shell.end_input()
    assert talk.end().exit_code == 5
    assert is_gone(seconds)
    assert under_test.runtime.observe(job).phase is Phase.RUNNING


def test_hanging_up_ends_every_process_of_the_shell_and_none_of_the_job(
    under_test: RuntimeUnderTest, job: int, seconds: str
) -> None:
    talk = open_shell(under_test, job, "sh", "-c", f"trap '' HUP; setsid sleep {seconds} & sleep {seconds}")
    eventually(lambda: is_alive(seconds), "the sleeper", WITHIN_S)
    talk.shell.close()
    eventually(lambda: is_gone(seconds), "the end of the sleepers", WITHIN_S)
    assert under_test.runtime.observe(job).phase is Phase.RUNNING


def test_a_shell_ends_when_the_jobs_command_does(under_test: RuntimeUnderTest, seconds: str) -> None:
    number = under_test.start("echo ready; while [ ! -e go ]; do sleep 0.05; done; exit 0")
    under_test.printed(number, b"ready")
    talk = open_shell(under_test, number, "sh", "-c", f"trap '' HUP TERM; touch go; sleep {seconds}")
    ending = talk.end()
    assert "ended" in ending.detail
    assert under_test.exit(number).reason is EndReason.COMPLETED
    assert is_gone(seconds)


def test_a_stop_ends_a_shell_at_once_and_leaves_the_job_its_grace(under_test: RuntimeUnderTest, seconds: str) -> None:
    command = "trap 'sleep 0.2; echo saved; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
    number = under_test.start(command)
    under_test.printed(number, b"ready")
    talk = open_shell(under_test, number, "sh", "-c", f"trap '' HUP TERM; sleep {seconds}; sleep {seconds}")
    eventually(lambda: is_alive(seconds), "the sleeper", WITHIN_S)
    began = time.monotonic()
    under_test.runtime.stop(number, "TERM", 600.0)
    assert talk.end().detail
    assert under_test.exit(number).exit_code == 0
    assert time.monotonic() - began < 60
    assert b"saved" in under_test.output(number)
    assert is_gone(seconds)


def test_a_job_that_is_stopping_opens_no_shell(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("trap 'echo asked' TERM; echo ready; while true; do sleep 0.05; done")
    under_test.printed(number, b"ready")
    under_test.runtime.stop(number, "TERM", 60.0)
    under_test.printed(number, b"asked")
    with pytest.raises(ShellRefused, match="stopped"):
        open_shell(under_test, number, "true")
    under_test.runtime.stop(number, "KILL", 0.0)
    under_test.exit(number)
    with pytest.raises(ShellRefused):
        open_shell(under_test, number, "true")


def test_a_later_time_limit_takes_back_that_no_shell_can_be_opened(under_test: RuntimeUnderTest) -> None:
    command = "trap 'echo warned' TERM; echo ready; while true; do sleep 0.05; done"
    # The grace leaves time enough to move the limit.
    number = under_test.start(command, time_limit_s=40.0, grace_s=39.9)
    under_test.printed(number, b"ready")
    under_test.runtime.limit(number, 0.5)
    eventually(lambda: b"warned" in under_test.output(number), "the warning", WITHIN_S)
    with pytest.raises(ShellRefused, match="stopped"):
        open_shell(under_test, number, "true")
    under_test.runtime.limit(number, 1000.0)
    eventually(lambda: _opens(str(under_test.folder(number) / "shells")), "a shell again", WITHIN_S)


def test_when_the_shim_is_killed_its_shells_are_gone(under_test: RuntimeUnderTest, job: int, seconds: str) -> None:
    talk = open_shell(under_test, job, "sh", "-c", f"sleep {seconds}")
    eventually(lambda: is_alive(seconds), "the sleeper", WITHIN_S)
    os.kill(under_test.shim(job), signal.SIGKILL)
    assert "ended" in talk.end().detail
    eventually(lambda: under_test.runtime.observe(job).phase is Phase.GONE, "GONE", WITHIN_S)
    under_test.runtime.settle(job, ExitStatus(EndReason.UNKNOWN))
    assert is_gone(seconds)


@contextlib.contextmanager
def somebody_with_a_shell(under_test: RuntimeUnderTest, job: int, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds a shell, as an agent does."""
    code = (
        "import sys; from nodeagent.runtime.shim.leash import LeashedShell; "
        "from nodeagent.runtime.port import ShellRequest; "
        "shell = LeashedShell(sys.argv[1], ShellRequest(77, tuple(sys.argv[2:]), True, 'xterm')); "
        "print('open', flush=True); sys.stdin.read()"
    )
    path = str(under_test.folder(job) / "shells")
    words = [sys.executable, "-c", code, path, *command]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            yield process
        finally:
            process.kill()


def test_when_an_agent_is_killed_its_shells_end_and_the_job_goes_on(
    under_test: RuntimeUnderTest, job: int, seconds: str
) -> None:
    with somebody_with_a_shell(under_test, job, "sh", "-c", f"trap '' HUP; setsid sleep {seconds} & wait") as agent:
        eventually(lambda: is_alive(seconds), "the sleeper", WITHIN_S)
        agent.kill()
        eventually(lambda: is_gone(seconds), "the end of the sleeper", WITHIN_S)
    assert under_test.runtime.observe(job).phase is Phase.RUNNING
    assert open_shell(under_test, job, "true").end().exit_code == 0


def test_shells_are_bounded_in_number(under_test: RuntimeUnderTest, job: int) -> None:
    path = str(under_test.folder(job) / "shells")
    kept = [LeashedShell(path, ShellRequest(1000 + i, ("cat",), False, "xterm")) for i in range(16)]
    with pytest.raises(ShellRefused, match="no more shells"):
        LeashedShell(path, ShellRequest(2000, ("cat",), False, "xterm"))
    for shell in kept:
        shell.close()
    eventually(lambda: _opens(path), "room for another", WITHIN_S)


def _opens(path: str) -> bool:
    try:
        LeashedShell(path, ShellRequest(2001, ("true",), False, "xterm")).close()
    except ShellRefused:
        return False
    return True
