"""Readings of jobs in a sync: by allocation and fence, with rates since the reading before."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nodeagent.gpu.emulated import EmulatedGpus
from nodeagent.gpu.port import Occupancy
from nodeagent.protocol.messages import (
    MAX_REPORTED_AT_ONCE,
    MAX_REPORTED_POINTS,
    HealthEvent,
    MetricPoint,
    ReportedMetrics,
    UsageSample,
)
from nodeagent.runtime.port import Usage
from nodeagent.watch import sampler
from nodeagent.watch.sampler import Sampler
from tests.waiting import eventually

UUIDS = [gpu.uuid for gpu in EmulatedGpus(("A100", "A100"), "here").inventory()]


class _Runtime:
    """A runtime that has only its usage to tell, one answer for each call."""

    def __init__(self, *answers: dict[int, Usage]) -> None:
        self.answers: list[dict[int, Usage]] = list(answers)
        self.points: dict[int, list[tuple[MetricPoint, ...]]] = {}

    def usage(self) -> dict[int, Usage]:
        return self.answers.pop(0)

    def reported(self, allocation_id: int) -> tuple[MetricPoint, ...]:
        waiting = self.points.get(allocation_id)
        return waiting.pop(0) if waiting else ()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in its only item."""
    now = [1000.0]
    monkeypatch.setattr("nodeagent.watch.sampler.time.monotonic", lambda: now[0])
    return now


def sampler_of(*answers: dict[int, Usage]) -> Sampler:
    runtime: Any = _Runtime(*answers)
    return Sampler(EmulatedGpus(("A100", "A100"), "here"), runtime)


def test_rates_are_those_since_the_reading_before(clock: list[float]) -> None:
    first = Usage(2, 0.0, 512, 64.5, disk_read_bytes=1000, disk_write_bytes=0, net_receive_bytes=5)
    second = Usage(3, 1.25, 640, 65.0, disk_read_bytes=11_000, disk_write_bytes=500, net_receive_bytes=5)
    taker = sampler_of({7: first}, {7: second})
    assert taker.take({7: 4}).usage == (
        UsageSample(id=7, fence=4, processes=2, cpu_cores=None, memory_mib=512.0, page_cache_mib=64.5),
    )
    clock[0] += 10.0
    assert taker.take({7: 4}).usage == (
        UsageSample(
            id=7,
            fence=4,
            processes=3,
            cpu_cores=1.25,
            memory_mib=640.0,
            page_cache_mib=65.0,
            disk_read_bytes_s=1000.0,
            disk_write_bytes_s=50.0,
            net_receive_bytes_s=0.0,
            net_transmit_bytes_s=None,
        ),
    )


def test_a_count_that_falls_is_no_rate_below_zero(clock: list[float]) -> None:
    taker = sampler_of({7: Usage(disk_read_bytes=1000)}, {7: Usage(disk_read_bytes=10)})
    taker.take({7: 4})
    clock[0] += 10.0
    assert taker.take({7: 4}).usage[0].disk_read_bytes_s == 0.0


def test_progress_is_told_as_it_is_with_its_growth(clock: list[float]) -> None:
    said = (None, 3.0, 3.003, 2.0, 2.0, None, 4.0)
    taker = sampler_of(*({7: Usage(progress=progress)} for progress in said))
    told = []
    for _ in said:
        (sample,) = taker.take({7: 4}).usage
        told.append((sample.progress, None if sample.progress_s is None else round(sample.progress_s, 6)))
        clock[0] += 10.0
    # The speed of a job that went back to a checkpoint is unknown, not low.
    assert told == [(None, None), (3.0, None), (3.003, 0.0003), (2.0, None), (2.0, 0.0), (None, None), (4.0, None)]


def test_nothing_is_told_of_what_the_platform_does_not_know(clock: list[float]) -> None:
    taker = sampler_of({7: Usage(1), 8: Usage(1)})
    assert [sample.id for sample in taker.take({8: 5}).usage] == [8]


def test_a_node_without_jobs_is_not_searched_for_their_processes(clock: list[float]) -> None:
    news = sampler_of().take({})
    assert news.usage == ()
    assert len(news.gpus) == 2
    assert news.host is not None


def test_a_reading_that_is_not_due_is_not_taken(clock: list[float]) -> None:
    taker = sampler_of({7: Usage(1)}, {7: Usage(1)})
    taker.take({7: 4})
    taker.report(HealthEvent("other"))
    clock[0] += sampler.SAMPLE_EVERY_S / 2
    news = taker.take({7: 4})
    assert (news.gpus, news.host, news.usage) == ((), None, ())
    assert len(news.health) == 1


def test_a_gpu_is_used_by_all_who_share_it(clock: list[float]) -> None:
    taker = sampler_of({7: Usage(1, 0.5, 300), 8: Usage(2, 0.25, 100), 9: Usage(1, 0.5, 100)})
    one, other = UUIDS
    for allocation_id, uuids in ((7, (one,)), (8, (one,)), (9, (other,))):
        taker.assign(allocation_id, uuids)
    found = {gpu.uuid: (gpu.processes, gpu.utilization) for gpu in taker.take({}).gpus}
    assert found == {one: (3, 75.0), other: (1, 50.0)}


def crowd(monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
    """Have these processes be on every GPU."""
    there = Occupancy(frozenset(pids))
    monkeypatch.setattr(EmulatedGpus, "occupancy", lambda _, uuids: dict.fromkeys(uuids, there))


def test_a_gpu_that_another_one_shares_keeps_nobody_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd(monkeypatch, 71)
    taker = sampler_of()
    one, other = UUIDS
    taker.assign(7, (one, other))
    taker.assign(8, (one,))
    assert (taker.left(7, (one, other)), taker.left(8, (one,))) == (((other, "process 71 is on it"),), ())
    taker.assign(7, ())
    assert taker.left(8, (one,)) == ((one, "process 71 is on it"),)


def test_who_was_there_before_a_job_is_not_left_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd(monkeypatch, 71)
    taker = sampler_of()
    one, other = UUIDS
    taker.assign(7, (one, other))
    taker.assign(8, (other,))
    taker.note_strangers(7, (one, other))
    taker.assign(8, ())
    # A process on a shared GPU is not foreign: it may belong to the other job, which has ended.
    assert taker.left(7, (one, other)) == ((other, "process 71 is on it"),)
    crowd(monkeypatch, 71, 72)
    assert taker.left(7, (one,)) == ((one, "process 72 is on it"),)
    taker.forget_strangers(7)
    assert taker.left(7, (one,)) == ((one, "process 71, 72 is on it"),)


def test_a_gpu_of_which_something_fatal_was_just_reported_is_not_fit(clock: list[float]) -> None:
    taker = sampler_of()
    one, other = UUIDS
    assert taker.faults(7, UUIDS) == ()
    taker.report(HealthEvent("xid", one, "Xid 13", 13))
    taker.report(HealthEvent("xid", other, "Xid 79", 79))
    assert taker.faults(7, UUIDS) == ((other, "Xid 79 was reported"),)


def test_a_driver_that_hangs_is_a_fault_and_keeps_nobody_from_telling(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, asked = threading.Event(), threading.Event()

    def hang(*_: object) -> tuple[()]:
        asked.set()
        go_on.wait(20)
        return ()

    monkeypatch.setattr(EmulatedGpus, "faults", hang)
    monkeypatch.setattr(sampler, "DRIVER_WAIT_S", 0.05)
    taker = sampler_of()
    try:
        assert taker.faults(7, UUIDS[:1]) == ((UUIDS[0], "the driver has not answered within 0 s"),)
        assert asked.is_set()
        assert taker.left(7, UUIDS[:1]) == ((UUIDS[0], "the driver has not answered within 0 s"),)
        taker.report(HealthEvent("other"))
        news = taker.take({})
        assert (news.gpus, len(news.health)) == ((), 1)
        monkeypatch.setattr(EmulatedGpus, "faults", lambda *_: ())
        monkeypatch.setattr(sampler, "DRIVER_WAIT_S", 20.0)
        assert taker.faults(7, UUIDS[:1])  # at once: the hanging call is not waited for again
        go_on.set()
        eventually(lambda: taker.faults(7, UUIDS[:1]) == (), "the driver answers again")
    finally:
        go_on.set()


def test_what_the_driver_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> tuple[()]:
        raise ValueError("a broken driver")

    monkeypatch.setattr(EmulatedGpus, "faults", fail)
    taker = sampler_of()
    with pytest.raises(ValueError, match="a broken driver"):
        taker.faults(7, UUIDS)
    assert taker.left(7, UUIDS) == ()  # and it may be asked again


def test_what_waits_to_be_told_of_gpus_is_known_and_when_it_was_taken(clock: list[float]) -> None:
    taker = sampler_of()
    one, other = UUIDS
    assert taker.last_words([one]) == (False, float("inf"))
    taker.report(HealthEvent("xid", one, "Xid 79", 79))
    assert (taker.last_words([one])[0], taker.last_words([other])[0]) == (True, False)
    taker.take({})
    clock[0] += 3.0
    assert taker.last_words([one]) == (False, 3.0)


def test_what_a_job_reports_is_told_once_and_again_if_it_did_not_arrive(clock: list[float]) -> None:
    taker = sampler_of({}, {}, {})
    runtime: Any = taker._runtime
    runtime.points = {7: [(MetricPoint("loss", 2.0, 1.0),), (MetricPoint("loss", 1.0, 2.0),)]}
    news = taker.take({7: 4})
    assert news.reported == (ReportedMetrics(7, 4, (MetricPoint("loss", 2.0, 1.0),)),)
    taker.give_back(news)
    clock[0] += 10.0
    both = (MetricPoint("loss", 2.0, 1.0), MetricPoint("loss", 1.0, 2.0))
    assert taker.take({7: 4}).reported == (ReportedMetrics(7, 4, both),)
    clock[0] += 10.0
    assert taker.take({7: 4}).reported == ()


def test_a_sync_carries_so_many_points_and_the_others_come_with_the_next(clock: list[float]) -> None:
    taker = sampler_of({}, {})
    runtime: Any = taker._runtime
    each = tuple(MetricPoint("loss", 1.0, float(step)) for step in range(MAX_REPORTED_POINTS))
    jobs = range(1, MAX_REPORTED_AT_ONCE // MAX_REPORTED_POINTS + 2)
    runtime.points = {job: [each] for job in jobs}
    fences = dict.fromkeys(jobs, 4)
    first = taker.take(fences)
    assert sum(len(one.points) for one in first.reported) == MAX_REPORTED_AT_ONCE
    clock[0] += 10.0
    assert [one.id for one in taker.take(fences).reported] == [jobs[-1]]


def test_the_end_of_a_job_tells_what_is_left(clock: list[float]) -> None:
    taker = sampler_of({})
    runtime: Any = taker._runtime
    runtime.points = {7: [(MetricPoint("loss", 2.0, 1.0),), (MetricPoint("loss", 1.0, 2.0),)]}
    news = taker.take({7: 4})
    taker.give_back(news)
    assert taker.last_points(7) == (MetricPoint("loss", 2.0, 1.0), MetricPoint("loss", 1.0, 2.0))
    assert taker.last_points(7) == ()


def test_a_disk_that_was_full_between_two_readings_is_told_as_that_and_then_that_there_is_room(
    clock: list[float],
) -> None:
    taker = sampler_of()

    def told() -> bool | None:
        host = taker.take({}).host
        return host.disk_full if host is not None else None

    taker.tell_disk(100, 50, False, at_once=True)
    assert told() is False
    taker.tell_disk(100, 1, True, at_once=True)
    taker.tell_disk(100, 50, False, at_once=True)
    lost = taker.take({})
    assert lost.host is not None
    assert (lost.host.disk_full, lost.host.disk_free_mib) == (True, 50)
    taker.give_back(lost)
    assert [told(), told(), told()] == [True, False, None]
    # One that lasts is told as it is, and room as soon as there is any.
    taker.tell_disk(100, 1, True, at_once=True)
    assert told() is True
    taker.tell_disk(100, 50, False, at_once=True)
    assert [told(), told()] == [False, None]
