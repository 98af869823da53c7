"""The memory of processes, as the kernel tells it."""

from __future__ import annotations

import os

import pytest

from bench.memory import TOTAL, PeakMemory, Usage, parse_rollup, usage_of

ROLLUP = """5581d1b000-7ffd1000 ---p 00000000 00:00 0                                [rollup]
Rss:                2048 kB
Pss:                1024 kB
Pss_Dirty:           512 kB
"""


def test_it_reads_the_kernels_summary() -> None:
    assert parse_rollup(ROLLUP) == Usage(1, 2.0, 1.0)


def test_a_process_that_has_ended_counts_nothing() -> None:
    assert parse_rollup("") == Usage()
    assert usage_of(2**22 + 1) == Usage()  # above the largest process id there can be


def test_a_process_never_has_less_resident_than_is_its_own_share() -> None:
    usage = usage_of(os.getpid())
    assert usage.rss_mib >= usage.pss_mib > 0


def test_the_peak_of_the_sum_is_taken_at_one_moment() -> None:
    moments = iter([{"web": [1], "agents": []}, {"web": [], "agents": [2]}])
    sizes = {1: Usage(1, 30, 20), 2: Usage(1, 50, 10)}
    memory = PeakMemory(lambda: next(moments), sizes.__getitem__)
    memory.sample()
    memory.sample()
    assert memory.peaks == {"web": Usage(1, 30, 20), "agents": Usage(1, 50, 10), TOTAL: Usage(1, 50, 20)}


@pytest.mark.parametrize(("left", "right"), [(Usage(1, 2, 3), Usage(3, 1, 4))])
def test_a_peak_takes_each_value_for_itself(left: Usage, right: Usage) -> None:
    assert left.peak(right) == right.peak(left) == Usage(3, 2, 4)
