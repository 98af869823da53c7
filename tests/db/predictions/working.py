"""Functions for child processes, which import them by this module's name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator


def added(numbers: Iterator[int]) -> int:
    """The sum."""
    return sum(numbers)


def niceness(_: Iterator[int]) -> int:
    """The niceness of the process."""
    return os.nice(0)


def printing(_: Iterator[int]) -> str:
    """Prints to standard output, as libraries do, and returns an answer."""
    print("a line of a library")  # noqa: T201
    return "answered"


def failing(_: Iterator[int]) -> None:
    """Raises."""
    raise ValueError("no such number")


def dying(_: Iterator[int]) -> None:
    """Ends the process without an answer."""
    os._exit(7)


def sleeping(path: str, _: Iterator[int]) -> None:
    """Writes the process's id and sleeps for a minute."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)


def greedy(_: Iterator[int]) -> int:
    """Allocates 400 MiB."""
    return len(bytearray(400 << 20))
