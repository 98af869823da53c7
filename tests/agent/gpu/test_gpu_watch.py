"""Events from the counters and conditions of a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.gpu.watch import AGAIN_AFTER_S, PATIENCE_S, Condition, Watch


def told(watch: Watch, now: float, **condition: Any) -> list[str]:
    return [event.kind for event in watch.look([Condition("GPU-1", **condition)], now)]


@pytest.mark.parametrize(("counter", "kind"), [("ecc_uncorrected", "ecc"), ("nvlink_errors", "nvlink")])
def test_a_counter_is_told_when_it_grows_and_not_for_what_was_before(counter: str, kind: str) -> None:
    watch = Watch()
    assert told(watch, 0, **{counter: 7}) == []
    assert told(watch, 20, **{counter: 7}) == []
    assert told(watch, 40, **{counter: 9}) == [kind]
    assert told(watch, 1000, **{counter: 0}) == []  # the GPU was reset
    assert told(watch, 2000, **{counter: 1}) == [kind]


@pytest.mark.parametrize(
    ("condition", "kind"),
    [({"remap_pending": True}, "row_remap_pending"), ({"remap_failed": True}, "row_remap_failed")],
)
def test_what_lasts_is_told_at_once_and_again_after_a_while(condition: dict[str, bool], kind: str) -> None:
    watch = Watch()
    assert told(watch, 0, **condition) == [kind]
    assert told(watch, AGAIN_AFTER_S - 1, **condition) == []
    assert told(watch, AGAIN_AFTER_S, **condition) == [kind]


@pytest.mark.parametrize(
    ("condition", "kind"), [({"slowdown": "hardware: thermal"}, "throttle"), ({"held_mib": 9000}, "memory_held")]
)
def test_what_comes_and_goes_is_told_when_it_stays(condition: dict[str, Any], kind: str) -> None:
    watch = Watch()
    assert told(watch, 0, **condition) == []
    assert told(watch, PATIENCE_S - 1) == []
    assert told(watch, PATIENCE_S, **condition) == []
    assert told(watch, 2 * PATIENCE_S, **condition) == [kind]


def test_each_gpu_is_told_of_by_itself() -> None:
    watch = Watch()
    both = [Condition(uuid, remap_pending=True) for uuid in ("GPU-1", "GPU-2")]
    assert [event.gpu_uuid for event in watch.look(both, 0)] == ["GPU-1", "GPU-2"]
