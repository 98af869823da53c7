"""Processor time, as the kernel tells it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench.processor import Reading, parse_machine, parse_stat, read_processor

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def test_a_process_counts_with_the_children_it_has_waited_for() -> None:
    times = [TICKS_PER_S * seconds for seconds in (1, 2, 4, 8)]
    fields = ["S", *["0"] * 10, *map(str, times), *["0"] * 20]
    assert parse_stat(f"12 (a) name) {' '.join(fields)}") == 15


def test_a_process_that_is_gone_counts_nothing() -> None:
    assert parse_stat("") == 0


def test_waiting_for_a_disk_is_not_being_busy_and_guests_are_not_counted_twice() -> None:
    ticks = [TICKS_PER_S * seconds for seconds in (1, 1, 1, 10, 20, 1, 1, 1, 500, 500)]
    assert parse_machine(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 1\n") == (6, 36)


@pytest.mark.parametrize(
    ("reading", "share"),
    [(Reading(2, 5, 10), 0.3), (Reading(5, 4, 10), 0.0), (Reading(0, 0, 0), 0.0)],
    ids=["what is not ours is the others'", "rounding never makes it negative", "no time has passed"],
)
def test_the_share_of_others(reading: Reading, share: float) -> None:
    assert reading.others_share == pytest.approx(share)


def test_the_time_of_a_child_that_has_ended_is_kept() -> None:
    before = read_processor()
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    # The kernel rounds to hundredths, at both readings.
    assert read_processor().since(before).ours_s >= 0.15
