"""Watches the disks that jobs fill: one thread that looks every few seconds, and more often while a disk fills fast.

1. When free bytes or inodes fall below the reserve, the agent reports the disk as full, and the platform places no
   new jobs on the node.
2. The agent cancels pulls to that disk. If that is not enough, it stops the job that takes the most of it, one job at
   a time: it counts again after that job's folders are gone, or when their removal takes too long.
3. A job that takes more than the node's limit for a job is stopped too, however much is free.
4. When more than the reserve has been free for a few seconds, the agent reports that the disk has room.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from typing import Callable, Dict, Mapping, Optional, Sequence, Set, Tuple

from nodeagent.disk.rules import (
    LOOK_EVERY_S,
    MIN_LOOK_INTERVAL_S,
    ROOM_AFTER_S,
    Measure,
    Unit,
    bounds_files,
    is_full,
    is_pressing,
    next_look_s,
    reserve_of,
    whom_to_stop,
)
from nodeagent.disk.walk import MAX_WALK_S, Walk, deleted
from nodeagent.protocol.messages import HealthEvent
from nodeagent.state.inbox import DiskExceeded, Worker
from nodeagent.sync.agent import Agent

_log = logging.getLogger("nodeagent.disk")

GRACE_S = 10.0
"""The longest grace of a job that is stopped to make room for others."""
AGAIN_AFTER_S = 600.0
"""Seconds until a disk that stays full is reported again."""
_WHILE_FULL_S = 0.25
# Counting the files of jobs can be slow: the pause after a count is a multiple of its duration.
_COUNT_EVERY_S, _REST, _REST_WHILE_FULL = 5.0, 20.0, 3.0
MAX_WAIT_S = GRACE_S + 300.0
"""Seconds that the watch waits for a stopped job's folders to be removed before it stops another job."""

_IS_FULL = {Unit.BYTES: "is full", Unit.FILES: "has no room for more files (inodes)"}
_TAKES_MOST = {Unit.BYTES: "takes the most of it", Unit.FILES: "has the most of them"}

Key = Tuple[int, Unit]
Bounded = Callable[[], Tuple[int, ...]]


@dataclass(frozen=True)
class Options:
    """The disk options of the command line, in bytes."""

    max_bytes: Optional[int] = None
    """The most bytes that a job may take; None for no limit."""
    reserve_bytes: Optional[int] = None
    """Bytes to keep free; None for a share of the disk."""


@dataclass(frozen=True)
class Share:
    """The amount of one unit that an allocation takes on disks, and the place of most of it."""

    amount: int
    most_in: str
    most: int
    whole: bool
    """False if the count is incomplete and `amount` a lower bound."""


@dataclass
class _Victim:
    """An allocation that was stopped to make room for others on a disk."""

    id: int
    until: float
    """The time at which the watch stops waiting for this victim."""
    hastened: bool = False


def read_disk(folder: str) -> Tuple[Measure, ...]:
    """The disk of a folder, now: its bytes, and its inodes if their number is limited."""
    found, device = os.statvfs(folder), os.stat(folder).st_dev
    block = found.f_frsize
    in_bytes = Measure(folder, device, Unit.BYTES, found.f_blocks * block, found.f_bavail * block)
    files = Measure(folder, device, Unit.FILES, found.f_files, found.f_favail)
    return (in_bytes, files) if bounds_files(files, in_bytes) else (in_bytes,)


class DiskWatch:
    """Measures disks and posts which allocations to stop. `bounded` returns the running allocations it may stop."""

    def __init__(
        self,
        agent: Agent,
        *,
        bounded: Bounded,
        options: Options,
        read: Callable[[str], Sequence[Measure]] = read_disk,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agent = agent
        self._bounded = bounded
        self._options = options
        self._read = read
        self._now = now
        self._before: Dict[Key, Tuple[float, Measure]] = {}
        self._full: Dict[Key, float] = {}
        """The disks that count as full, and when each was last seen full."""
        self._full_told_at = 0.0
        self._has_told = False
        self._victims: Dict[Key, _Victim] = {}
        """The allocation that was stopped to make room, by disk."""
        self._cut_off: Set[int] = set()
        """Allocations with too many files to count in time."""
        self._given_up: Set[int] = set()
        """Victims whose folders were not removed in time."""
        self._over_limit: Set[int] = set()
        """Allocations stopped for the limit of a job. They make no room in time: their grace may be long."""
        self._first: Optional[int] = None
        """The allocation that the next count for the limit begins with."""
        self._count_at = 0.0
        self._limit_at = 0.0

    def look(self) -> float:
        """Do what is due; returns the seconds until the next look."""
        now = self._now()
        measures = {one.key: one for folder in self._agent.runtime.disks() for one in self._read(folder)}
        waits = {key: next_look_s(one, self._reserve(one), *self._since(one, now)) for key, one in measures.items()}
        self._before = {key: (now, one) for key, one in measures.items()}
        self._tell(measures, now)
        full = [one for key, one in measures.items() if self._full.get(key) == now]
        self._let_go(now)
        for one in full:
            if one.key in self._victims and is_pressing(one, self._reserve(one)):
                self._hasten(self._victims[one.key])
        unanswered = [one for one in full if one.key not in self._victims]
        if unanswered and now >= self._count_at:
            if self._give_up_fetches(unanswered):
                self._count_at = now + _COUNT_EVERY_S
            else:
                self._count(unanswered)
                self._count_at = now + max(_COUNT_EVERY_S, (self._now() - now) * _REST_WHILE_FULL)
        begun = self._now()
        # The count for the limit blocks this thread, so it waits while a disk is full or fills fast.
        fills = any(wait_s < LOOK_EVERY_S for key, wait_s in waits.items() if key not in self._full)
        is_due = begun >= self._limit_at and not self._victims and not fills
        in_bytes = [one for one in measures.values() if one.unit is Unit.BYTES]
        if self._options.max_bytes is not None and in_bytes and is_due:
            self._count_for_limit(self._options.max_bytes, in_bytes)
            self._limit_at = begun + max(_COUNT_EVERY_S, (self._now() - begun) * _REST)
        return min([*waits.values(), *([_WHILE_FULL_S] if self._full else [])], default=LOOK_EVERY_S)

    def _since(self, measure: Measure, now: float) -> Tuple[Optional[Measure], float]:
        at, before = self._before.get(measure.key, (now, None))
        return before, now - at

    def _reserve(self, measure: Measure) -> int:
        return reserve_of(measure, self._options.reserve_bytes)

    def _tell(self, measures: Mapping[Key, Measure], now: float) -> None:
        """Report free space: at once when a disk becomes full or has room again, and repeatedly while it is full."""
        were = set(self._full)
        full = [one for key, one in measures.items() if is_full(one, self._reserve(one), key in were)]
        lasting = {key: at for key, at in self._full.items() if key in measures and now - at < ROOM_AFTER_S}
        self._full = {**lasting, **{one.key: now for one in full}}
        if self._full.keys() - were or (full and now - self._full_told_at >= AGAIN_AFTER_S):
            self._full_told_at = now
            # One event for all disks: the platform merges repeats and keeps the last detail.
            detail = "; ".join(self._words(one) for one in full)
            _log.warning("%s", detail)
            self._agent.sampler.report(HealthEvent("disk_full", None, detail))
        news = were != self._full.keys() or not self._has_told
        in_bytes = [one for one in measures.values() if one.unit is Unit.BYTES]
        if in_bytes:
            scarcest = min(in_bytes, key=lambda one: one.free / max(1, one.total))
            self._agent.sampler.tell_disk(scarcest.total >> 20, scarcest.free >> 20, bool(self._full), at_once=news)
        if were and not self._full:
            _log.info("the disks have room again")
        if news:
            # Also after the first look: an earlier run of the agent may have reported the disk as full.
            self._has_told = True
            self._agent.report_soon()

    def _words(self, full: Measure) -> str:
        return "the disk of {} {}: {} are free of {}, less than the reserve of {}".format(
            full.folder,
            _IS_FULL[full.unit],
            *(_amount(full.unit, amount) for amount in (full.free, full.total, self._reserve(full))),
        )

    def _let_go(self, now: float) -> None:
        """Forget victims that are gone or late: another job may be filling the disk meanwhile."""
        bounded = self._bounded()
        self._over_limit.intersection_update(bounded)
        self._given_up.intersection_update(bounded)
        for key, victim in tuple(self._victims.items()):
            is_gone = victim.id not in bounded and not self._agent.runtime.holdings(victim.id).folders
            if not is_gone and now < victim.until:
                continue
            if not is_gone:
                _log.warning("allocation %d: it was stopped, and its folders are still there", victim.id)
                self._given_up.add(victim.id)
            del self._victims[key]
            # The measurement may be older than the removal, and some file systems free blocks a moment later.
            self._count_at = now + _COUNT_EVERY_S

    def _hasten(self, victim: _Victim) -> None:
        if not victim.hastened and victim.id in self._bounded():
            victim.hastened = True
            _log.warning("allocation %d: the disk is filling up, and it has no more grace", victim.id)
            self._agent.post(DiskExceeded(victim.id, "", 0.0))

    def _give_up_fetches(self, full: Sequence[Measure]) -> bool:
        """Cancel the pulls to full disks before any job is stopped; returns whether there were any."""
        why = "the node's disk is full, and the pull was given up"
        told = [one for one in full if self._agent.runtime.give_up_fetches(one.device, why)]
        for one in told:
            _log.warning("pulls to the disk of %s are given up: it is full", one.folder)
        return bool(told)

    def _count(self, full: Sequence[Measure]) -> None:
        """Find the allocation that takes most of each full disk, and stop it; all disks share `MAX_WALK_S`."""
        bounded = [allocation_id for allocation_id in self._bounded() if allocation_id not in self._given_up]
        # Allocations that were too large to count in time go last, with the time that the others leave.
        bounded.sort(key=lambda allocation_id: allocation_id in self._cut_off)
        self._cut_off = set()
        until, left = self._now() + MAX_WALK_S, len(full) * len(bounded)
        for one in full:
            shares: Dict[int, Share] = {}
            for allocation_id in bounded:
                # Time that one allocation does not need goes to the others. Counting can end at half of the disk:
                # no other allocation can take more.
                max_s = (until - self._now()) / left
                shares[allocation_id] = self._share(allocation_id, [one], max_s, one.total // 2 + 1)
                left -= 1
            self._cut_off.update(allocation_id for allocation_id, share in shares.items() if not share.whole)
            taken = {allocation_id: share.amount for allocation_id, share in shares.items()}
            found = whom_to_stop(taken, one, self._reserve(one))
            if found is not None:
                self._victims[one.key] = _Victim(found, self._now() + MAX_WAIT_S)
                why = "the node's disk {}, and this job {}".format(_IS_FULL[one.unit], _TAKES_MOST[one.unit])
                self._stop(found, why, shares[found], one, GRACE_S)

    def _count_for_limit(self, max_bytes: int, disks: Sequence[Measure]) -> None:
        """Stop allocations over the limit of a job. The next count begins where this one runs out of time."""
        bounded = [allocation_id for allocation_id in self._bounded() if allocation_id not in self._over_limit]
        at = bounded.index(self._first) if self._first in bounded else 0
        self._first = None
        until = self._now() + MAX_WALK_S
        why = "it takes more of the node's disk than the {} that a job may".format(_amount(Unit.BYTES, max_bytes))
        for number, allocation_id in enumerate(bounded[at:] + bounded[:at]):
            share = self._share(allocation_id, disks, until - self._now(), None)
            if share.amount > max_bytes:
                self._over_limit.add(allocation_id)
                self._stop(allocation_id, why, share, disks[0], None)
            if self._now() >= until:
                # Begin with the allocation that was cut off, unless it takes a whole count by itself.
                self._first = bounded[(at + (number or 1)) % len(bounded)]
                return

    def _share(self, allocation_id: int, disks: Sequence[Measure], max_s: float, enough: Optional[int]) -> Share:
        """Measure an allocation on these disks, all by one unit; the count ends early at `enough`."""
        until, unit = self._now() + max_s, disks[0].unit
        holdings = self._agent.runtime.holdings(allocation_id)
        parts: Dict[str, int] = {}
        whole = True
        for disk in disks:
            walk = Walk(disk.device, unit, max_s=until - self._now(), enough=enough, now=self._now)
            for name, path in holdings.folders:
                taken = walk.count(path)
                parts[name] = parts.get(name, 0) + taken.amount
                whole = whole and taken.whole
        devices = {disk.device for disk in disks}
        open_yet = deleted(holdings.pids, devices | set(holdings.devices), unit)
        if open_yet:
            parts["files that it has deleted and keeps open"] = open_yet
        most_in = max(parts, key=lambda name: parts[name], default="")
        return Share(sum(parts.values()), most_in, parts.get(most_in, 0), whole)

    def _stop(self, allocation_id: int, why: str, share: Share, disk: Measure, max_grace_s: Optional[float]) -> None:
        detail = "{}: {}{}, {} of that in {}; {} are free of {}".format(
            why,
            "" if share.whole else "at least ",
            _amount(disk.unit, share.amount),
            _amount(disk.unit, share.most),
            share.most_in,
            _amount(disk.unit, disk.free),
            _amount(disk.unit, disk.total),
        )
        _log.warning("allocation %d: %s", allocation_id, detail)
        self._agent.post(DiskExceeded(allocation_id, detail, max_grace_s))


class Disks(Worker):
    """The thread of the disk watch."""

    def __init__(self, agent: Agent, watch: DiskWatch) -> None:
        super().__init__(agent.post, agent.stopping)
        self._watch = watch

    def turn(self) -> None:
        """Look, and wait until the next look is due."""
        try:
            wait_s = max(MIN_LOOK_INTERVAL_S, self._watch.look())
        except OSError as error:
            _log.warning("the disks cannot be looked at: %s", error)
            wait_s = LOOK_EVERY_S
        self._stopping.wait(wait_s)


def _amount(unit: Unit, amount: int) -> str:
    return "{} MiB".format(amount >> 20) if unit is Unit.BYTES else "{} files".format(amount)
