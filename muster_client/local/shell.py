"""A shell on this terminal: what is typed goes there, what it writes comes here, until either side ends it.

One thread reads the keys and sends them, the main one asks for output and shows it. Both keep what the other side has
not confirmed, and go on where they were when the server comes back.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from muster_client.calls.shellcalls import MAX_INPUT_BYTES, WINDOW_BYTES, ShellCalls, ShellEnd
from muster_client.errors import ApiError, UnreachableError

LEFT = ShellEnd("left", "you left it", None)
PATIENCE_S = 60.0
_READ_BYTES = 16 << 10
_PAUSE_S = 0.5
_JOIN_S = 1.0
_NEW_LINE = b"\r\n"
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Escapes:
    """Finds `~.` at the beginning of a line among what is typed, which leaves; `~~` there is one `~`."""

    def __init__(self) -> None:
        self._at_start = True
        self._held = False

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return what is meant for the shell, and whether the user leaves."""
        passed = bytearray()
        for byte in data:
            key = bytes((byte,))
            if self._held:
                self._held = False
                if key == b".":
                    return bytes(passed), True
                passed += b"~" if key == b"~" else b"~" + key
            elif self._at_start and key == b"~":
                self._held = True
                continue
            else:
                passed += key
            self._at_start = key in _NEW_LINE
        return bytes(passed), False


class ShellOnTerminal:
    """Standard input and output of this process, joined to a shell."""

    def __init__(self, calls: ShellCalls, *, terminal: bool, show: Callable[[bytes], None] | None = None) -> None:
        self._calls = calls
        self._terminal = terminal
        self._show_bytes = show or _write_out
        self._input = _input_descriptor()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        self._resized = threading.Event()
        self._resync = threading.Event()
        self._over = threading.Event()
        self._left = False
        self._answered_at = time.monotonic()
        self._told_of_silence = False

    def run(self) -> ShellEnd:
        """Return how the shell ended. Whatever happens, the terminal is as before."""
        typist = threading.Thread(target=self._type, name="typist", daemon=True)
        with self._raw(), handled_signals(self._on_resize if self._terminal else None):
            typist.start()
            try:
                return self._show()
            except BaseException:
                self._leave()
                raise
            finally:
                self._over.set()
                self._wake()
                typist.join(_JOIN_S)

    def _show(self) -> ShellEnd:
        """Show output until the shell has ended."""
        offset = 0
        while True:
            try:
                data, end = self._calls.output(offset)
            except UnreachableError as error:
                self._unreachable(error)
                continue
            self._reached()
            try:
                if data:
                    self._show_bytes(data)
            except BrokenPipeError:
                self._leave()
                return LEFT
            offset += len(data)
            if end is not None:
                return LEFT if self._left else end

    def _type(self) -> None:
        """Send what is typed, in a thread of its own."""
        try:
            self._send_input()
        except ApiError:  # the output tells how it ended
            self._leave()

    def _send_input(self) -> None:
        kept, first, sent, ended, told = bytearray(), 0, 0, False, False
        escapes = Escapes() if self._terminal else None
        while not self._over.is_set():
            end = first + len(kept)
            if sent < end or len(kept) >= WINDOW_BYTES or (ended and not told) or self._has_news():
                chunk = bytes(kept[sent - first :][:MAX_INPUT_BYTES])
                size = terminal_size() if self._terminal and self._resized.is_set() else None
                self._resized.clear()
                self._resync.clear()
                over = ended and sent + len(chunk) == end
                try:
                    accepted = self._calls.send(first=first, start=sent, data=chunk, over=over, size=size)
                except UnreachableError:
                    self._resync.set()
                    if size is not None:
                        self._resized.set()
                    self._over.wait(_PAUSE_S)
                    continue
                told = told or (over and accepted.size == end)
                acked = min(max(accepted.acked, first), end)
                del kept[: acked - first]
                first = acked
                sent = min(max(accepted.size, first), end)
                continue
            watched = [self._wake_reader] if ended else [self._input, self._wake_reader]
            ready, _, _ = select.select(watched, [], [])
            if self._wake_reader in ready:
                os.read(self._wake_reader, 4096)
            if self._input not in ready:
                continue
            data = read_typed(self._input)
            if not data:
                ended = True
                continue
            left = False
            if escapes is not None:
                data, left = escapes.feed(data)
            kept += data
            if left:
                self._left = True
                self._leave()
                return

    def _has_news(self) -> bool:
        return self._resized.is_set() or self._resync.is_set()

    def _leave(self) -> None:
        """End the shell; if the server cannot be reached, it ends the shell by itself."""
        with contextlib.suppress(ApiError, UnreachableError):
            self._calls.leave()

    def _unreachable(self, error: UnreachableError) -> None:
        if time.monotonic() - self._answered_at > PATIENCE_S:
            raise error
        if not self._told_of_silence:
            self._told_of_silence = True
            self._tell("the server does not answer; trying again")
        time.sleep(_PAUSE_S)

    def _reached(self) -> None:
        self._answered_at = time.monotonic()
        if self._told_of_silence:
            # It may have been started again, and know nothing of what was on its way.
            self._told_of_silence = False
            self._resync.set()
            self._wake()
            self._tell("the server answers again")

    def _tell(self, text: str) -> None:
        end = "\r\n" if self._terminal else "\n"
        sys.stderr.write(f"{end if self._terminal else ''}[muster: {text}]{end}")
        sys.stderr.flush()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_writer, b"!")

    @contextlib.contextmanager
    def _raw(self) -> Iterator[None]:
        """Every key goes to the shell while the block lasts, Ctrl-C too."""
        if not self._terminal:
            yield
            return
        before = termios.tcgetattr(self._input)
        try:
            tty.setraw(self._input, termios.TCSADRAIN)  # what was typed ahead is kept
            yield
        finally:
            termios.tcsetattr(self._input, termios.TCSADRAIN, before)

    def _on_resize(self, *_: object) -> None:
        self._resized.set()
        self._wake()


@contextlib.contextmanager
def handled_signals(on_resize: Callable[..., None] | None) -> Iterator[None]:
    """A new size of the terminal is told while the block lasts, and a signal that ends us leaves it in order."""
    handlers = {number: signal.signal(number, _end_in_order) for number in _ENDING_SIGNALS}
    if on_resize is not None:
        handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, on_resize)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end_in_order(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def terminal_size() -> tuple[int, int]:
    """Rows and columns of this terminal, as many as a shell may have.

    What COLUMNS and LINES say is not asked: an environment keeps them from another terminal, or from another size.
    """
    for descriptor in range(3):
        try:
            size = os.get_terminal_size(descriptor)
        except OSError:
            continue
        return min(max(size.lines, 1), 1000), min(max(size.columns, 1), 1000)
    return 24, 80


def _input_descriptor() -> int:
    """Standard input; where a program has none, an empty one."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return os.open(os.devnull, os.O_RDONLY)


def read_typed(descriptor: int) -> bytes:
    """Typed bytes; empty at the end, and if the terminal is gone."""
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:
        return b""


def _write_out(data: bytes) -> None:
    """Write bytes as they are; a terminal does with them what the shell means."""
    descriptor, view = sys.stdout.fileno(), memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
