"""Giving up a pull, by its signs of life; time is in the hands of the test."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.container import pulling
from nodeagent.runtime.container.engine import ImageProblem
from nodeagent.runtime.container.images import Doing
from nodeagent.runtime.container.pulling import MIN_BYTES_PER_S, STALLED_S, WINDOW_S, Pulse

_STEP_S = 10.0


class Line:
    """A pull that moves at a given speed and is looked at every few seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.moved = 0.0
        self.doing = Doing.FETCHING
        monkeypatch.setattr(pulling, "time", SimpleNamespace(monotonic=lambda: self.now))
        self._pulse = Pulse(lambda: int(self.moved), lambda: self.doing)

    def go_on(self, for_s: float, bytes_per_s: float, *, says: bool = False) -> None:
        until = self.now + for_s
        while self.now < until:
            self.now += _STEP_S
            self.moved += _STEP_S * bytes_per_s
            self._pulse.look(says)

    def end_of(self, for_s: float, bytes_per_s: float, *, says: bool = False) -> tuple[float, str]:
        """The time at which it is given up, and the message."""
        with pytest.raises(ImageProblem) as caught:
            self.go_on(for_s, bytes_per_s, says=says)
        assert caught.value.reason is EndReason.IMAGE_UNREACHABLE
        return self.now, str(caught.value)


def test_a_silent_pull_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    at, text = Line(monkeypatch).end_of(2 * STALLED_S, 0.0)
    assert (at, text) == (STALLED_S, "nothing came for 120 s, and the pull was given up")


@pytest.mark.parametrize("says", [False, True], ids=["without a word", "with words"])
def test_a_pull_that_drips_is_given_up_and_the_rate_is_told(monkeypatch: pytest.MonkeyPatch, says: bool) -> None:
    at, text = Line(monkeypatch).end_of(2 * WINDOW_S, 512.0, says=says)
    assert (at, text) == (WINDOW_S, "no more than 0.50 KiB/s came for 300 s, and the pull was given up")


def test_a_pull_that_begins_to_drip_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch)
    line.go_on(WINDOW_S + 60.0, 1e8)
    at, _ = line.end_of(3 * WINDOW_S, 512.0)
    assert at <= 3 * WINDOW_S


def test_a_slow_and_honest_line_goes_on_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch)
    line.go_on(24 * 3600.0, 2 * MIN_BYTES_PER_S)


def test_an_engine_may_work_by_itself_without_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch)
    line.go_on(WINDOW_S, 1e6)
    line.doing = Doing.UNPACKING
    line.go_on(3600.0, 0.0, says=True)
    at, _ = line.end_of(3600.0, 0.0)
    assert at == WINDOW_S + 3600.0 + 900.0


def test_what_others_keep_waiting_is_measured_from_when_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch)
    line.doing = Doing.HELD_UP
    line.go_on(1500.0, 0.0)
    line.doing = Doing.FETCHING
    line.go_on(STALLED_S - _STEP_S, 0.0)
    line.go_on(WINDOW_S, 2 * MIN_BYTES_PER_S)
