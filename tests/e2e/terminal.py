"""The `muster` command on a terminal of its own, as a person has it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.faults.cluster import FIRST_USER, Cluster

WITHIN_S = 60.0


def environment(cluster: Cluster, folder: Path, user: str = FIRST_USER) -> dict[str, str]:
    """The command's environment in the cluster."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    own = {"MUSTER_URL": cluster.url, "MUSTER_TOKEN": cluster.tokens[user], "MUSTER_CONFIG": str(folder / "conf")}
    return env | own | {"TERM": "xterm"}


def command(*words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("muster")), *words]


class Terminal:
    """A terminal with the command on it."""

    def __init__(self, words: Sequence[str], env: dict[str, str], *, rows: int = 31, cols: int = 97) -> None:
        self.master, self._slave = pty.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            list(words), env=env, stdin=self._slave, stdout=self._slave, stderr=self._slave, start_new_session=True
        )
        os.set_blocking(self.master, False)
        self.seen = b""

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        if hasattr(self, "process"):
            # The terminal has no foreground process group, so the kernel sends no SIGWINCH.
            self.process.send_signal(signal.SIGWINCH)

    def say(self, text: str) -> None:
        os.write(self.master, text.encode())

    def hear(self, word: bytes, within_s: float = WITHIN_S) -> bytes:
        """Everything shown since the start, once it has the word."""
        until = time.monotonic() + within_s
        while word not in self.seen:
            assert time.monotonic() < until, f"{word!r} is not in {self.seen!r}"
            assert self._take() or self.process.poll() is None, f"it ended without {word!r}: {self.seen!r}"
        return self.seen

    def end(self, within_s: float = WITHIN_S) -> int:
        """The exit status, with all that was shown read."""
        until = time.monotonic() + within_s
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it goes on: {self.seen!r}"
            self._take()
        while self._take():
            continue
        return self.process.returncode

    @property
    def is_as_before(self) -> bool:
        """True if the terminal is set as it was before the command."""
        return termios.tcgetattr(self._slave) == self.before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)

    def _take(self) -> bool:
        if not select.select([self.master], [], [], 0.2)[0]:
            return False
        with contextlib.suppress(BlockingIOError, OSError):
            data = os.read(self.master, 65536)
            self.seen += data
            return bool(data)
        return False


@contextlib.contextmanager
def terminal(words: Sequence[str], env: dict[str, str]) -> Iterator[Terminal]:
    made = Terminal(words, env)
    try:
        yield made
    finally:
        made.close()
