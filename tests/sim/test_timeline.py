"""The timeline of a simulation stays short, and stays true to within the time that it merges."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from scheduler.sim.timeline import Sample, Timeline

gaps = st.lists(st.one_of(st.floats(0.0, 10.0), st.floats(1_000.0, 100_000.0)), min_size=1, max_size=300)


def fill(samples: list[Sample], most: int = 8_000) -> list[Sample]:
    timeline = Timeline(most)
    for sample in samples:
        timeline.add(sample)
    return timeline.samples


def numbered(times: list[float]) -> list[Sample]:
    return [(at, number, number % 7) for number, at in enumerate(accumulate(times))]


def test_few_samples_are_kept_as_they_are() -> None:
    samples = [(0.0, 1, 0), (5.0, 2, 3), (6.0, 0, 0)]
    assert fill(samples) == samples


def test_of_several_samples_of_one_moment_the_last_holds() -> None:
    assert fill([(0.0, 1, 0), (0.0, 2, 0), (5.0, 3, 0), (5.0, 0, 0)]) == [(0.0, 2, 0), (5.0, 0, 0)]


def test_what_holds_after_a_burst_of_changes_is_kept() -> None:
    burst = [(float(at), at % 3, 0) for at in range(50)]
    thinned = fill([*burst, (1_000_000.0, 0, 0)], most=40)
    assert thinned[-2:] == [(49.0, 49 % 3, 0), (1_000_000.0, 0, 0)]


@given(gaps)
def test_it_never_grows_beyond_its_limit_and_keeps_its_end(times: list[float]) -> None:
    samples = numbered(times)
    thinned = fill(samples, most=20)
    assert len(thinned) <= 20
    assert thinned[-1] == samples[-1]
    assert set(thinned) <= set(samples)
    assert all(one[0] < two[0] for one, two in pairwise(thinned))
