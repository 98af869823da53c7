"""The FIFO through which shims tell the agent what happened, and the thread that reads it."""

from __future__ import annotations

import os
import select
import threading

from nodeagent.runtime.port import EventKind, Listener


class EventPipe:
    """Calls `listener` for each line that a shim wrote. A lost line costs time only: everything can be looked up."""

    def __init__(self, path: str, listener: Listener) -> None:
        self.path = path
        self._listener = listener
        if not os.path.exists(path):
            os.mkfifo(path, 0o600)
        # Open for writing too, so that it is never at its end, and can be woken to close.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; a second time does nothing."""
        if self._closing:
            return
        self._closing = True
        os.write(self._descriptor, b"\n")
        self._thread.join()
        os.close(self._descriptor)

    def _serve(self) -> None:
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        kinds = {kind.value.encode(): kind for kind in EventKind}
        while not self._closing:
            poller.poll()
            try:
                lines = os.read(self._descriptor, 65536).split(b"\n")
            except BlockingIOError:
                continue
            # A line is shorter than PIPE_BUF and so never torn; anything else is not from a shim.
            for line in dict.fromkeys(lines):
                number, _, kind = line.partition(b" ")
                if number.isdigit() and kind in kinds:
                    self._listener(int(number), kinds[kind])
