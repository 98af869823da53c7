"""Readings of GPUs, jobs and host for the platform, taken no more often than they are of use."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from nodeagent.gpu.fatal import is_fatal
from nodeagent.gpu.port import GpuDriver, Occupancy
from nodeagent.protocol.messages import (
    MAX_CHECKS,
    MAX_HEALTH_EVENTS,
    MAX_REPORTED_AT_ONCE,
    MAX_REPORTED_POINTS,
    CheckResult,
    GpuSample,
    HealthEvent,
    HostSample,
    MetricPoint,
    ProgressNote,
    ReportedMetrics,
    UsageSample,
)
from nodeagent.runtime.port import Runtime, Usage
from nodeagent.system.host import HostMeter

SAMPLE_EVERY_S = 5.0
DRIVER_WAIT_S = 10.0
"""A driver that has not answered for so long hangs, as one does whose GPU is broken."""
# While the platform is away, what went wrong first tells most.
_MAX_UNSENT = 512

T = TypeVar("T")


@dataclass(frozen=True)
class News:
    """The news that a sync carries beside the allocations; empty when there is nothing new."""

    gpus: Tuple[GpuSample, ...] = ()
    host: Optional[HostSample] = None
    health: Tuple[HealthEvent, ...] = ()
    notes: Tuple[ProgressNote, ...] = ()
    usage: Tuple[UsageSample, ...] = ()
    checks: Tuple[CheckResult, ...] = ()
    reported: Tuple[ReportedMetrics, ...] = ()
    of_disk: bool = False
    """True if the host's disk has become full, or has room again."""


# What a runtime counts up, by the name of the rate that is told of it.
_RATES = {
    "disk_read_bytes_s": "disk_read_bytes",
    "disk_write_bytes_s": "disk_write_bytes",
    "net_receive_bytes_s": "net_receive_bytes",
    "net_transmit_bytes_s": "net_transmit_bytes",
}


class Sampler:
    """Serialises all calls of the GPU driver. Its methods may be called from any thread.

    A caller of the driver holds `_driving`, and takes `_mutex` only between calls: a call that hangs does not block
    reports of what is known.
    """

    def __init__(self, gpus: GpuDriver, runtime: Runtime) -> None:
        self._gpus = gpus
        self._runtime = runtime
        self._meter = HostMeter()
        self._driving = threading.Lock()
        self._mutex = threading.Lock()
        self._hung: Optional[object] = None
        self._strangers: Dict[int, Mapping[str, FrozenSet[int]]] = {}
        self._due_at = 0.0
        self._unsaid: List[HealthEvent] = []
        self._notes: List[ProgressNote] = []
        self._checked: List[CheckResult] = []
        self._gpus_of: Dict[int, Tuple[str, ...]] = {}
        self._before: Dict[int, Tuple[float, Usage]] = {}
        self._taken_at: Dict[Optional[str], float] = {}
        self._points: Dict[int, Tuple[MetricPoint, ...]] = {}
        self._disk: Dict[str, Any] = {}
        self._news_of_disk = False
        self._was_full = False
        """True if a disk was full at a moment of which the platform was not told."""

    def assign(self, allocation_id: int, uuids: Tuple[str, ...]) -> None:
        """An allocation uses these GPUs from now on; none = no longer."""
        with self._mutex:
            if uuids:
                self._gpus_of[allocation_id] = uuids
            else:
                self._gpus_of.pop(allocation_id, None)

    def take(self, fences: Mapping[int, int]) -> News:
        """Readings if they are due, and health events that were not told yet.

        `fences` are those of the allocations that the platform is told of; of others it wants no readings.
        """
        with self._mutex:
            now = time.monotonic()
            notes, self._notes = tuple(self._notes), []
            checks, self._checked = tuple(self._checked[:MAX_CHECKS]), self._checked[MAX_CHECKS:]
            if now < self._due_at:
                return News(health=self._some_health(), notes=notes, checks=checks)
            self._due_at = now + SAMPLE_EVERY_S
            has_jobs = bool(self._gpus_of or fences)
        usage = self._runtime.usage() if has_jobs else {}
        samples = self._readings(usage)
        with self._mutex:
            used = self._usage_samples(usage, fences, now)
            points = self._some_points(fences)
            of_disk, self._news_of_disk = self._news_of_disk, False
            host = self._host()
            return News(samples, host, self._some_health(), notes, used, checks, points, of_disk)

    def give_back(self, news: News) -> None:
        """These health events and notes did not reach the platform."""
        with self._mutex:
            self._unsaid = [*news.health, *self._unsaid][:_MAX_UNSENT]
            if news.of_disk:
                self._due_at, self._news_of_disk = 0.0, True
            if news.host is not None and news.host.disk_full:
                self._was_full = True
            self._notes = [*news.notes, *self._notes]
            self._checked = [*news.checks, *self._checked]
            for one in news.reported:
                self._keep_points(one.id, (*one.points, *self._points.get(one.id, ())))

    def last_points(self, allocation_id: int) -> Tuple[MetricPoint, ...]:
        """Points that an ended job reported and that were not sent yet; its end request sends them."""
        with self._mutex:
            return (*self._points.pop(allocation_id, ()), *self._runtime.reported(allocation_id))[-MAX_REPORTED_POINTS:]

    def report(self, event: HealthEvent) -> None:
        """Tell the platform with the next sync."""
        with self._mutex:
            self._unsaid.append(event)

    def tell_disk(self, disk_mib: int, free_mib: int, full: bool, *, at_once: bool) -> None:
        """Send the disk's free space with the next reading of the host; `at_once` makes one due now.

        A disk that was full between two readings is reported as full first: a job was stopped for it.
        """
        with self._mutex:
            self._was_full = self._was_full or (full and not self._disk.get("disk_full"))
            self._disk = {"disk_mib": disk_mib, "disk_free_mib": free_mib, "disk_full": full}
            if at_once:
                self._due_at, self._news_of_disk = 0.0, True

    def note(self, note: ProgressNote) -> None:
        """Tell the platform with the next sync how far a start is."""
        with self._mutex:
            self._notes.append(note)

    def checked(self, result: CheckResult) -> None:
        """Tell the platform with the next sync what came of a check."""
        with self._mutex:
            self._checked.append(result)

    def holds(self, uuid: str) -> bool:
        """True if an allocation has this GPU."""
        with self._mutex:
            return any(uuid in theirs for theirs in self._gpus_of.values())

    def has_news(self) -> bool:
        """True if anything waits to be told: a note, a result, or something of the disks or of the GPUs' health.

        For the last the driver is asked.
        """
        self._look()
        with self._mutex:
            return bool(self._notes or self._unsaid or self._checked or self._news_of_disk)

    def last_words(self, uuids: Sequence[str]) -> Tuple[bool, float]:
        """True if news of these GPUs' health waits to be told, and the seconds since such news was last taken."""
        self._look()
        with self._mutex:
            waits = any(event.gpu_uuid in uuids for event in self._unsaid)
            newest = max((self._taken_at.get(uuid, float("-inf")) for uuid in uuids), default=float("-inf"))
            return waits, time.monotonic() - newest

    def faults(self, allocation_id: int, uuids: Sequence[str]) -> Tuple[Tuple[str, str], ...]:
        """GPUs unfit for a start of the allocation now, and why; after 20 s at most.

        On those that it shares, processes of others are as it should be.
        """
        with self._mutex:
            alone = self._alone(allocation_id, uuids)
        silent = tuple((uuid, _silent()) for uuid in uuids)
        found = self._drive(lambda: self._gpus.faults(uuids, alone), silent)
        if found is silent:
            return silent
        self._look()
        with self._mutex:
            reported = {event.gpu_uuid: event for event in self._unsaid if is_fatal(event)}
        named = {uuid for uuid, _ in found}
        fatal = [(uuid, reported[uuid]) for uuid in uuids if uuid in reported and uuid not in named]
        return (*found, *((uuid, "{} was reported".format(event.detail or event.kind)) for uuid, event in fatal))

    def note_strangers(self, allocation_id: int, uuids: Sequence[str]) -> Mapping[str, FrozenSet[int]]:
        """Note the processes on these GPUs before the allocation starts, and return them: they are not its own.

        Shared GPUs are left out: there, a process of the other job may outlive it.
        """
        with self._mutex:
            alone = self._alone(allocation_id, uuids)
        empty: Mapping[str, Occupancy] = {}
        there = self._drive(lambda: self._gpus.occupancy(alone), empty) if alone else empty
        found = {uuid: one.pids for uuid, one in there.items() if one.pids}
        self.recall_strangers(allocation_id, found)
        return found

    def recall_strangers(self, allocation_id: int, pids_of: Mapping[str, FrozenSet[int]]) -> None:
        """These were on its GPUs before the allocation started, under this run of the agent or an earlier one."""
        with self._mutex:
            if pids_of:
                self._strangers[allocation_id] = pids_of

    def forget_strangers(self, allocation_id: int) -> None:
        """Forget the processes that were there before an allocation, which is over."""
        with self._mutex:
            self._strangers.pop(allocation_id, None)

    def left(self, allocation_id: int, uuids: Sequence[str]) -> Tuple[Tuple[str, str], ...]:
        """GPUs that an allocation which is over may still hold, and why; after 20 s at most.

        A GPU counts as empty only if it was seen to be. GPUs that it shares are left out, as their processes may be
        those of another job: the last job on such a GPU checks it.
        """
        with self._mutex:
            alone = self._alone(allocation_id, uuids)
            strangers = self._strangers.get(allocation_id, {})
        silent: Mapping[str, Occupancy] = {uuid: Occupancy(problem=_silent()) for uuid in alone}
        there = self._drive(lambda: self._gpus.occupancy(alone), silent) if alone else silent
        ours = {uuid: replace(one, pids=one.pids - strangers.get(uuid, frozenset())) for uuid, one in there.items()}
        return tuple((uuid, one.problem or one.words) for uuid, one in ours.items() if one.pids or one.problem)

    def _alone(self, allocation_id: int, uuids: Sequence[str]) -> List[str]:
        """Those of the GPUs that no other allocation has."""
        others = {uuid for other, theirs in self._gpus_of.items() if other != allocation_id for uuid in theirs}
        return [uuid for uuid in uuids if uuid not in others]

    def _drive(self, call: Callable[[], T], otherwise: T) -> T:
        """The driver's answer, or `otherwise` if it does not answer within 10 s.

        A call that hangs keeps its own thread. Until it returns, later calls get `otherwise` at once.
        """
        if not self._driving.acquire(timeout=0.0 if self._hung is not None else DRIVER_WAIT_S):
            return otherwise
        answer: "queue.SimpleQueue[Union[Tuple[T], BaseException]]" = queue.SimpleQueue()

        def ask() -> None:
            said: Union[Tuple[T], BaseException]
            try:
                said = (call(),)
            except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
                said = error
            with self._mutex:
                answer.put(said)
                if self._hung is answer:
                    self._hung = None
            self._driving.release()

        threading.Thread(target=ask, name="gpu-driver", daemon=True).start()
        try:
            said = answer.get(timeout=DRIVER_WAIT_S)
        except queue.Empty:
            with self._mutex:
                if answer.empty():
                    self._hung = answer
            return otherwise
        if isinstance(said, BaseException):
            raise said
        return said[0]

    def _look(self) -> None:
        """Note what the driver has to tell of the GPUs' health."""
        nothing: Tuple[HealthEvent, ...] = ()
        events = self._drive(self._gpus.health, nothing)
        with self._mutex:
            self._unsaid.extend(events)

    def _host(self) -> HostSample:
        full, self._was_full = self._was_full or bool(self._disk.get("disk_full")), False
        host = replace(self._meter.sample(), **self._disk)
        if full and not host.disk_full:
            self._due_at, self._news_of_disk = 0.0, True  # that there is room again comes with the next one
            host = replace(host, disk_full=True)
        return host

    def _readings(self, usage: Mapping[int, Usage]) -> Tuple[GpuSample, ...]:
        with self._mutex:
            used = self._usage_by_gpu(usage)
        nothing: Tuple[GpuSample, ...] = ()
        samples = self._drive(lambda: self._gpus.samples(used), nothing)
        self._look()
        return samples

    def _some_points(self, fences: Mapping[int, int]) -> Tuple[ReportedMetrics, ...]:
        """Metrics that jobs have reported, as many as one sync carries; the rest waits."""
        for allocation_id in fences:
            self._keep_points(
                allocation_id, (*self._points.get(allocation_id, ()), *self._runtime.reported(allocation_id))
            )
        told: List[ReportedMetrics] = []
        left = MAX_REPORTED_AT_ONCE
        for allocation_id in sorted(self._points):
            fence = fences.get(allocation_id)
            if fence is None:
                del self._points[allocation_id]
            elif len(self._points[allocation_id]) <= left:
                points = self._points.pop(allocation_id)
                left -= len(points)
                told.append(ReportedMetrics(allocation_id, fence, points))
        return tuple(told)

    def _keep_points(self, allocation_id: int, points: Tuple[MetricPoint, ...]) -> None:
        if points:
            self._points[allocation_id] = points[-MAX_REPORTED_POINTS:]

    def _some_health(self) -> Tuple[HealthEvent, ...]:
        """The oldest of the health events that were not told yet, as many as one sync carries."""
        some = tuple(self._unsaid[:MAX_HEALTH_EVENTS])
        self._unsaid = self._unsaid[MAX_HEALTH_EVENTS:_MAX_UNSENT]
        self._taken_at.update((event.gpu_uuid, time.monotonic()) for event in some)
        return some

    def _usage_samples(
        self, usage_of: Mapping[int, Usage], fences: Mapping[int, int], now: float
    ) -> Tuple[UsageSample, ...]:
        """Usage by each job. A rate is that since the last reading, and unknown at the first."""
        before, self._before = self._before, {key: (now, usage) for key, usage in usage_of.items()}
        return tuple(
            UsageSample(
                id=allocation_id,
                fence=fences[allocation_id],
                processes=usage.processes,
                # Processor time is that since the last reading too.
                cpu_cores=round(usage.cpu_fraction, 3) if allocation_id in before else None,
                memory_mib=float(usage.rss_mib),
                page_cache_mib=usage.page_cache_mib,
                progress=usage.progress,
                **_rates(usage, now, *before.get(allocation_id, (now, usage))),
            )
            for allocation_id, usage in sorted(usage_of.items())
            if allocation_id in fences
        )

    def _usage_by_gpu(self, usage_of: Mapping[int, Usage]) -> Mapping[str, Usage]:
        """Jobs' usage in equal shares for the GPUs of each; jobs that share a GPU are summed."""
        found: Dict[str, Usage] = {}
        for allocation_id, usage in usage_of.items():
            uuids = self._gpus_of.get(allocation_id, ())
            for uuid in uuids:
                there = found.get(uuid, Usage())
                found[uuid] = Usage(
                    there.processes + usage.processes,
                    there.cpu_fraction + usage.cpu_fraction / len(uuids),
                    there.rss_mib + usage.rss_mib // len(uuids),
                )
        return found


def _silent() -> str:
    return "the driver has not answered within {:.0f} s".format(DRIVER_WAIT_S)


def _rates(usage: Usage, now: float, since: float, before: Usage) -> Dict[str, Optional[float]]:
    """Bytes per second since the previous reading. A count falls when a process ends and no parent inherits it."""
    rates: Dict[str, Optional[float]] = {}
    for rate, count in _RATES.items():
        have, had = getattr(usage, count), getattr(before, count)
        known = have is not None and had is not None and now > since
        rates[rate] = round(max(0, have - had) / (now - since), 1) if known else None
    rates["progress_s"] = _pace(usage.progress, now, before.progress, since)
    return rates


def _pace(have: Optional[float], now: float, had: Optional[float], since: float) -> Optional[float]:
    """Progress a second; unknown where a job has gone back, as to a checkpoint. Epochs grow slowly, so no rounding."""
    if have is None or had is None or have < had or now <= since:
        return None
    return (have - had) / (now - since)
