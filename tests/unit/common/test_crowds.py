"""Limits that a process with thousands of connections sets for itself."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.common.crowds import spared_collector

PLATFORM = Path(__file__).resolve().parents[3] / "platform"


class Cycle:
    """An object that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0


def test_what_was_there_before_is_passed_over_until_the_end() -> None:
    before = Cycle()
    gone = weakref.ref(before)
    with spared_collector():
        del before
        gc.collect()
        assert gone() is not None
    gc.collect()
    assert gone() is None


def test_cycles_that_come_later_are_still_found() -> None:
    with spared_collector():
        gone = weakref.ref(Cycle())
        gc.collect()
        assert gone() is None


def test_it_looks_more_rarely_than_python_does() -> None:
    before = gc.get_threshold()[0]
    with spared_collector():
        assert gc.get_threshold()[0] > before


def test_a_process_may_open_as_many_files_as_it_is_allowed_on_demand() -> None:
    lines = (
        "import resource",
        "from muster.common.crowds import allow_open_files",
        "hard = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))",
        "print(allow_open_files() == hard, resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))",
    )
    environment = {**os.environ, "PYTHONPATH": str(PLATFORM)}
    told = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True, env=environment
    )
    assert told.stdout == "True True\n"
