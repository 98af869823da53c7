"""Redraws a screen until the user presses q, and then restores the terminal.

One thread asks the server, one request at a time; the main thread draws and reads keys meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from rich.console import Console
from rich.control import Control
from rich.text import Text

from muster_client.errors import UnreachableError
from muster_client.local.shell import handled_signals, read_typed, terminal_size

T = TypeVar("T")
Draw = Callable[[T, int, int, str], Sequence[Text]]

_LEAVE = frozenset(b"qQ")
# Where tcgetattr keeps the control characters.
_CHARACTERS = 6


def watch(console: Console, *, fetch: Callable[[], T], draw: Draw[T], interval_s: float) -> None:
    """Show what is fetched until q or Ctrl-C; raise what the first fetch raises, and later what is not silence."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def wake(*_: object) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(writer, b"!")

    try:
        with handled_signals(wake), _keys(sys.stdin.fileno()) as keys, console.screen():
            _loop(console, fetch, draw, interval_s, keys=keys, reader=reader, wake=wake)
    except KeyboardInterrupt:
        return
    finally:
        # The other end stays: a thread that waits for the server may still write there.
        os.close(reader)


def _loop(
    console: Console,
    fetch: Callable[[], T],
    draw: Draw[T],
    interval_s: float,
    *,
    keys: int,
    reader: int,
    wake: Callable[..., None],
) -> None:
    asked: Future[T] | None = _ask(fetch, wake)
    due = time.monotonic() + interval_s
    shown: T | None = None
    note = f"every {interval_s:g} s; q leaves"
    _paint(console, [Text("Asking the server; q leaves.", style="dim")])
    while True:
        wait_s = None if asked is not None else max(0.0, due - time.monotonic())
        ready, _, _ = select.select([keys, reader], [], [], wait_s)
        if reader in ready:
            os.read(reader, 4096)
        if keys in ready and (not (typed := read_typed(keys)) or _LEAVE & set(typed)):
            return
        if asked is not None and asked.done():
            try:
                shown, said = asked.result(), note
            except UnreachableError as error:
                if shown is None:
                    raise
                said = f"{error} What is shown is old; {note}"
            asked, due = None, max(due, time.monotonic())
        elif asked is None and time.monotonic() >= due:
            asked, due = _ask(fetch, wake), time.monotonic() + interval_s
            continue
        if shown is not None:
            rows, cols = terminal_size()
            _paint(console, draw(shown, cols, rows, said))


def _ask(fetch: Callable[[], T], wake: Callable[[], None]) -> Future[T]:
    """Fetch in a daemon thread and return its future. The thread is not joined: q must work when the server hangs."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(fetch())
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            answer.set_exception(error)
        wake()

    threading.Thread(target=run, name="asking", daemon=True).start()
    return answer


def _paint(console: Console, lines: Sequence[Text]) -> None:
    """Draw over what is there, without wiping it first, which would flicker."""
    rows, cols = terminal_size()
    console.size = (cols, rows)
    console.control(Control.home())
    full = [*lines, *[Text()] * (rows - len(lines))][:rows]
    for place, line in enumerate(full):
        line.pad_right(max(0, cols - line.cell_len))
        console.print(line, end="\n" if place < rows - 1 else "", no_wrap=True, crop=True, overflow="crop")


@contextlib.contextmanager
def _keys(descriptor: int) -> Iterator[int]:
    """Each key comes at once and unseen while the block lasts; Ctrl-C still interrupts, Ctrl-Z does nothing."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        changed = termios.tcgetattr(descriptor)
        changed[_CHARACTERS][termios.VSUSP] = b"\0"
        termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
