"""The child process of `predictions.children`: `python -m muster.predictions.child PARENT MAX_BYTES`.

It reads a function and then its items from standard input, pickled, and writes the pickled answer to standard output.
It knows neither Django's settings nor the database.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

from muster.dispatch.lanes.parent import end_with

_NICE = 19


def serve(reading: IO[bytes], writing: IO[bytes]) -> None:
    """Answer the one request on `reading`: (True, the value), or (False, what was raised)."""
    try:
        function: Callable[[Iterator[Any]], object] = pickle.load(reading)  # noqa: S301 - from the parent, of this program
        answer = pickle.dumps((True, function(_items(reading))), pickle.HIGHEST_PROTOCOL)
    except Exception as failure:  # noqa: BLE001 - the parent logs it, whatever it is
        answer = pickle.dumps((False, f"{type(failure).__name__}: {failure}"))
    writing.write(answer)
    writing.flush()


def _items(reading: IO[bytes]) -> Iterator[Any]:
    """The items that the parent sends in batches, until it closes the pipe."""
    while True:
        try:
            batch: list[Any] = pickle.load(reading)  # noqa: S301 - from the parent, of this program
        except EOFError:
            return
        yield from batch


def main() -> None:
    parent, max_bytes = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent, signal.SIGKILL)
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))
    # What a library prints goes to the log of the worker, and never between the bytes of the answer.
    with os.fdopen(os.dup(1), "wb") as writing:
        os.dup2(2, 1)
        serve(sys.stdin.buffer, writing)


if __name__ == "__main__":
    main()
