"""Full disks that are made up: the job that is stopped, and the messages to the platform."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.disk import rules, walk
from nodeagent.disk.rules import Measure, Unit
from nodeagent.disk.watch import MAX_WAIT_S, DiskWatch, Options
from nodeagent.gpu.emulated import EmulatedGpus
from nodeagent.runtime.container.layer import upper_of
from nodeagent.runtime.port import Holdings
from nodeagent.state.inbox import DiskExceeded, Message
from nodeagent.sync.agent import Agent
from nodeagent.watch.sampler import News, Sampler

MIB, GIB = 1 << 20, 1 << 30
DISK = Measure("/state", 1, Unit.BYTES, 100 * GIB, 50 * GIB)
FILES = replace(DISK, unit=Unit.FILES, total=16_000_000, free=8_000_000)


@pytest.mark.parametrize(
    ("total", "asked", "reserve"),
    [
        pytest.param(100 * GIB, None, GIB, id="a large disk keeps a GiB"),
        pytest.param(64 * MIB, None, 64 * MIB // 20, id="a small one a twentieth"),
        pytest.param(100 * GIB, 5 * GIB, 5 * GIB, id="as an operator says"),
        pytest.param(GIB, 5 * GIB, GIB, id="no more than there is"),
        pytest.param(GIB, 0, 0, id="none"),
    ],
)
def test_the_reserve_suits_the_disk(total: int, asked: int | None, reserve: int) -> None:
    assert rules.reserve_of(replace(DISK, total=total), asked) == reserve


@pytest.mark.parametrize(
    ("total", "asked", "reserve"),
    [
        pytest.param(64_000_000, None, 1_000_000, id="a large disk keeps a million files"),
        pytest.param(10_000, None, 500, id="a small one a twentieth"),
        pytest.param(10_000, 50 * GIB, 500, id="whatever is asked for in bytes"),
        pytest.param(10_000, 0, 0, id="none where no bytes are kept"),
    ],
)
def test_the_reserve_of_files_suits_the_disk(total: int, asked: int | None, reserve: int) -> None:
    assert rules.reserve_of(replace(FILES, total=total), asked) == reserve


@pytest.mark.parametrize(
    ("total", "free", "free_bytes", "bounded"),
    [
        pytest.param(16_000_000, 15_000_000, 200 * GIB, True, id="inodes that were made with the file system"),
        pytest.param(16_000_000, 0, MIB, True, id="all of which are taken"),
        pytest.param(0, 0, 200 * GIB, False, id="a file system that has no bound of them"),
        pytest.param(420_000_000, 200 * GIB // 512, 200 * GIB, False, id="one that makes them of free bytes"),
        pytest.param(150_000, 0, 0, False, id="one that has no bytes for any"),
    ],
)
def test_a_disk_is_out_of_files_only_where_it_has_bytes_for_them(
    total: int, free: int, free_bytes: int, bounded: bool
) -> None:
    assert rules.bounds_files(replace(FILES, total=total, free=free), replace(DISK, free=free_bytes)) == bounded


def test_a_disk_that_was_full_needs_more_than_the_reserve_to_have_room_again() -> None:
    near = replace(DISK, free=int(1.1 * GIB))
    assert [rules.is_full(near, GIB, was) for was in (False, True)] == [False, True]
    assert [rules.is_full(replace(DISK, free=GIB - 1), GIB, was) for was in (False, True)] == [True, True]
    assert [rules.is_full(replace(DISK, free=int(1.25 * GIB)), GIB, was) for was in (False, True)] == [False, False]
    assert not rules.is_full(replace(DISK, free=0), 0, False)


@pytest.mark.parametrize(
    ("taken", "total", "stopped"),
    [
        pytest.param({1: 20, 2: 30, 3: 5}, 100, 2, id="the job that takes most"),
        pytest.param({1: 9, 2: 8}, 100, None, id="no job that takes less than a tenth of the disk"),
        pytest.param({1: 4}, 20, None, id="no job that takes less than the reserve"),
        pytest.param({}, 100, None, id="no job"),
        pytest.param({4: 30, 9: 30}, 100, 9, id="of two equal jobs the newer"),
    ],
)
def test_who_takes_most_is_stopped_unless_that_is_little(
    taken: dict[int, int], total: int, stopped: int | None
) -> None:
    assert rules.whom_to_stop(taken, replace(DISK, total=total, free=0), 5) == stopped


def test_nobody_needs_more_files_than_can_be_counted_to_be_stopped() -> None:
    large = replace(FILES, total=64_000_000, free=0)
    assert rules.whom_to_stop({1: 999_999}, large, 1_000_000) is None
    assert rules.whom_to_stop({1: 1_000_000}, large, 1_000_000) == 1
    assert rules.whom_to_stop({1: 1_000_000}, replace(DISK, free=0), GIB) is None


def test_a_disk_that_fills_fast_is_looked_at_before_its_reserve_is_passed_by() -> None:
    before = replace(DISK, free=11 * GIB)
    assert rules.next_look_s(DISK, GIB, None, 0.0) == rules.LOOK_EVERY_S
    assert rules.next_look_s(before, GIB, before, 2.0) == rules.LOOK_EVERY_S
    assert rules.next_look_s(replace(DISK, free=9 * GIB), GIB, before, 2.0) == rules.LOOK_EVERY_S
    assert rules.next_look_s(replace(DISK, free=3 * GIB), GIB, before, 2.0) == pytest.approx(0.25)
    assert rules.next_look_s(replace(DISK, free=GIB), GIB, before, 2.0) == rules.MIN_LOOK_INTERVAL_S


@dataclass
class Node:
    """A node whose disk, jobs and clock a test sets; what jobs take lies in real folders."""

    home: Path
    options: Options = field(default_factory=Options)
    free: int = 50 * MIB
    total: int = 100 * MIB
    free_files: int = 500
    total_files: int = 1000
    now: float = 1000.0
    running: list[int] = field(default_factory=list)
    posted: list[Message] = field(default_factory=list)
    aside: list[int] = field(default_factory=list)
    asked: int = 0
    elsewhere: Measure | None = None
    pulls: int = 0
    takes_s: float = 0.0
    """Seconds that it takes to look at a job."""
    entry_s: float = 0.0
    """Seconds that it takes to count a file, where the clock is looked at for each."""
    counted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)
        runtime: Any = self
        self.sampler = Sampler(EmulatedGpus((), "here"), runtime)
        asked: Any = SimpleNamespace(set=self._asked)
        unused: dict[str, Any] = dict.fromkeys(("client", "session", "journal", "stopping"))
        self.watch = DiskWatch(
            Agent(runtime=runtime, sampler=self.sampler, post=self.posted.append, asked=asked, **unused),
            bounded=lambda: tuple(self.running),
            options=self.options,
            read=self._read,
            now=self._now,
        )

    def _now(self) -> float:
        self.now += self.entry_s
        return self.now

    def _asked(self) -> None:
        self.asked += 1

    def _read(self, folder: str) -> tuple[Measure, ...]:
        if self.elsewhere is not None and folder == self.elsewhere.folder:
            return (self.elsewhere,)
        device = self.home.stat().st_dev
        in_bytes = Measure(folder, device, Unit.BYTES, self.total, self.free)
        return in_bytes, Measure(folder, device, Unit.FILES, self.total_files, self.free_files)

    def disks(self) -> tuple[str, ...]:
        return (str(self.home), *([self.elsewhere.folder] if self.elsewhere else []))

    def allocations(self) -> tuple[int, ...]:
        return tuple(int(path.name) for path in self.home.iterdir() if int(path.name) not in self.aside)

    def give_up_fetches(self, device: int, why: str) -> bool:
        assert why
        pulls, self.pulls = self.pulls, 0
        return device == self.home.stat().st_dev and pulls > 0

    def holdings(self, allocation_id: int) -> Holdings:
        self.counted.append(allocation_id)
        self.now += self.takes_s
        folder = self.home / str(allocation_id)
        return Holdings((("work", str(folder)),) if folder.exists() else ())

    def start(self, allocation_id: int, size: int) -> None:
        (self.home / str(allocation_id)).mkdir()
        self.grow(allocation_id, size)
        self.running.append(allocation_id)

    def grow(self, allocation_id: int, size: int) -> None:
        with (self.home / str(allocation_id) / "file").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)

    def strew(self, allocation_id: int, files: int) -> None:
        """Give the job this many empty files beside its large one."""
        for number in range(files):
            (self.home / str(allocation_id) / str(number)).touch()

    def remove(self, allocation_id: int) -> None:
        shutil.rmtree(self.home / str(allocation_id))

    def look(self, later_s: float = 10.0) -> list[DiskExceeded]:
        """Whom one look stops, so much later."""
        self.now += later_s
        before = len(self.posted)
        self.watch.look()
        return [one for one in self.posted[before:] if isinstance(one, DiskExceeded)]

    def told(self) -> tuple[list[str], bool | None]:
        """The kinds of what is told of the node's health, and whether its disk is full."""
        news: News = self.sampler.take({})
        return [event.kind for event in news.health], news.host.disk_full if news.host else None


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_one_at_a_time_is_stopped_and_the_next_only_once_the_folder_of_the_first_is_gone(node: Node) -> None:
    for number, size in ((1, 30 * MIB), (2, 40 * MIB), (3, 2 * MIB)):
        node.start(number, size)
    assert node.look() == []
    node.free = 4 * MIB
    [stop] = node.look()
    assert (stop.id, stop.max_grace_s) == (2, 10.0)
    assert stop.detail.startswith("the node's disk is full, and this job takes the most of it: 40 MiB, 40 MiB of that")
    assert stop.detail.endswith("in work; 4 MiB are free of 100 MiB")
    assert node.look() == []
    node.running.remove(2)
    assert node.look() == []
    node.remove(2)
    assert node.look() == []  # the blocks may come back a moment later
    assert node.look(1.0) == []
    [stop] = node.look()
    assert stop.id == 1
    node.running.remove(1)
    node.remove(1)
    # What is left takes too little to be stopped, and looking again and again changes nothing.
    assert [node.look() for _ in range(5)] == [[]] * 5


def test_pulls_are_given_up_before_anybody_is_stopped(node: Node) -> None:
    node.start(1, 12 * MIB)
    node.free, node.pulls = 4 * MIB, 2
    assert node.look() == []
    assert node.pulls == 0
    assert node.look(4.0) == []  # what they had fetched is on its way out
    assert [stop.id for stop in node.look(1.0)] == [1]


@pytest.mark.parametrize("ends", [True, False], ids=["its files are on their way", "nothing can kill it"])
def test_who_was_stopped_and_does_not_go_is_not_waited_for_without_end(node: Node, ends: bool) -> None:
    for number, size in ((1, 40 * MIB), (2, 30 * MIB), (3, 20 * MIB)):
        node.start(number, size)
    node.free = 4 * MIB
    assert [stop.id for stop in node.look()] == [1]
    if ends:
        node.running.remove(1)
    assert [node.look(MAX_WAIT_S - 1.0), node.look(1.0), node.look(4.0)] == [[]] * 3
    assert [stop.id for stop in node.look(1.0)] == [2]
    node.running.remove(2)
    node.remove(2)
    assert node.look() == []
    assert [stop.id for stop in node.look()] == [3]


def test_with_half_of_the_reserve_gone_the_grace_is_over(node: Node) -> None:
    node.start(1, 40 * MIB)
    node.free = 4 * MIB
    assert [stop.id for stop in node.look()] == [1]
    assert node.look(0.25) == []
    node.free = 2 * MIB
    assert node.look(0.25) == [DiskExceeded(1, "", 0.0)]
    assert node.look(0.25) == []


def test_a_job_beyond_the_limit_is_stopped_whatever_is_free_with_the_grace_of_its_spec(tmp_path: Path) -> None:
    node = Node(tmp_path, Options(max_bytes=10 * MIB))
    node.start(1, 8 * MIB)
    node.start(2, 9 * MIB)
    assert node.look() == []
    node.grow(1, 12 * MIB)
    [stop] = node.look()
    assert (stop.id, stop.max_grace_s) == (1, None)
    assert "more of the node's disk than the 10 MiB that a job may: 12 MiB" in stop.detail
    assert node.told() == ([], False)


def test_who_is_stopped_for_the_limit_keeps_nobody_from_being_stopped_for_a_full_disk(tmp_path: Path) -> None:
    node = Node(tmp_path, Options(max_bytes=30 * MIB))
    node.start(1, 31 * MIB)
    node.start(2, 20 * MIB)
    assert [(stop.id, stop.max_grace_s) for stop in node.look()] == [(1, None)]
    node.grow(1, 12 * MIB)
    node.free = 4 * MIB
    assert [(stop.id, stop.max_grace_s) for stop in node.look()] == [(2, 10.0)]
    node.free = 2 * MIB
    assert node.look(0.25) == [DiskExceeded(2, "", 0.0)]


def test_who_is_stopped_for_the_limit_has_the_short_grace_once_it_takes_most_of_a_full_disk(tmp_path: Path) -> None:
    node = Node(tmp_path, Options(max_bytes=30 * MIB))
    node.start(1, 31 * MIB)
    node.start(2, 20 * MIB)
    assert [(stop.id, stop.max_grace_s) for stop in node.look()] == [(1, None)]
    node.free = 4 * MIB
    assert [(stop.id, stop.max_grace_s) for stop in node.look()] == [(1, 10.0)]


def test_all_who_are_beyond_the_limit_are_stopped_and_each_once(tmp_path: Path) -> None:
    node = Node(tmp_path, Options(max_bytes=10 * MIB))
    for number in (1, 2, 3):
        node.start(number, (10 + number) * MIB)
    assert [stop.id for stop in node.look()] == [1, 2, 3]
    assert node.look() == []


def test_each_full_disk_has_its_own_to_be_stopped_and_only_the_one_that_fills_up_is_hastened(tmp_path: Path) -> None:
    node = Node(tmp_path / "one")
    node.start(1, 40 * MIB)
    node.elsewhere = Measure("/elsewhere", tmp_path.stat().st_dev + 1, Unit.BYTES, 100 * MIB, 0)
    node.free = 4 * MIB
    assert [stop.id for stop in node.look()] == [1]
    assert node.look() == []  # the other disk, which no job uses, has less than half of its reserve
    node.free = 2 * MIB
    assert node.look() == [DiskExceeded(1, "", 0.0)]


def test_a_count_of_many_jobs_has_the_time_of_one(tmp_path: Path) -> None:
    node = Node(tmp_path, Options(max_bytes=30 * MIB))
    for number in range(1, 9):
        node.start(number, 2 * MIB)
    node.grow(8, 40 * MIB)
    node.takes_s = 15.0
    begun = node.now
    assert node.look() == []
    assert node.counted == [1, 2]  # the second is cut off, and has its turn first
    assert node.now - begun - 10.0 <= 30.0
    for _ in range(7):
        node.look(1000.0)
    assert node.counted == [1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 1, 2]
    assert [stop.id for stop in node.posted if isinstance(stop, DiskExceeded)] == [8]


def test_counting_is_given_a_rest(tmp_path: Path) -> None:
    node = Node(tmp_path, Options(max_bytes=10 * MIB))
    node.start(1, 8 * MIB)
    assert node.look() == []
    node.grow(1, 12 * MIB)
    assert node.look(1.0) == []
    assert len(node.look(5.0)) == 1


def test_a_full_disk_is_told_at_once_and_again_while_it_lasts_and_then_that_it_has_room(node: Node) -> None:
    node.look()
    assert node.told() == ([], False)
    assert node.asked == 1  # it may have been full before this agent began
    node.free = 4 * MIB
    node.look()
    assert node.asked == 2
    assert node.sampler.has_news()
    assert node.told() == (["disk_full"], True)
    assert not node.sampler.has_news()
    node.look()
    assert node.sampler.take({}).health == ()
    node.look(600.0)
    assert [event.kind for event in node.sampler.take({}).health] == ["disk_full"]
    node.free = 6 * MIB  # more than the reserve, and not by enough
    node.look()
    assert node.asked == 2
    node.free = 7 * MIB
    node.look()
    assert node.asked == 3
    assert node.told() == ([], False)


def test_a_disk_that_is_emptied_and_filled_again_and_again_has_room_once_it_had_it_for_a_while(node: Node) -> None:
    node.free = 4 * MIB
    node.look()
    assert node.told() == (["disk_full"], True)
    for free, later_s in ((44 * MIB, 0.0), (44 * MIB, 4.0), (4 * MIB, 0.9)) * 3:
        node.free = free
        node.look(later_s)
        assert node.watch.look() < rules.LOOK_EVERY_S
    assert (node.asked, node.sampler.has_news()) == (1, False)
    node.free = 44 * MIB
    node.look(4.9)
    assert not node.sampler.has_news()
    node.look(0.1)
    assert node.told() == ([], False)


def test_nobody_is_stopped_in_a_moment_in_which_there_is_room(node: Node) -> None:
    node.free = 4 * MIB
    node.look()
    node.start(1, 40 * MIB)
    node.free = 44 * MIB
    assert node.look(4.9) == []
    node.free = 4 * MIB
    assert [stop.id for stop in node.look(0.1)] == [1]


def test_without_room_for_more_files_the_one_who_has_most_of_them_is_stopped(node: Node) -> None:
    node.start(1, 40 * MIB)
    for number, files in ((2, 300), (3, 200)):
        node.start(number, MIB)
        node.strew(number, files)
    assert node.look() == []
    node.free_files = 40
    [stop] = node.look()
    assert (stop.id, stop.max_grace_s) == (2, 10.0)
    # Its folder and the large file count as well.
    assert stop.detail == (
        "the node's disk has no room for more files (inodes), and this job has the most of them: 302 files, "
        "302 files of that in work; 40 files are free of 1000 files"
    )
    assert node.look() == []
    node.free_files = 24
    assert node.look(0.25) == [DiskExceeded(2, "", 0.0)]
    node.running.remove(2)
    node.remove(2)
    assert [node.look(), node.look(4.0)] == [[], []]
    assert [stop.id for stop in node.look(1.0)] == [3]
    node.running.remove(3)
    node.remove(3)
    # Who is left has less than a tenth of the files, however many bytes.
    assert [node.look() for _ in range(5)] == [[]] * 5


def test_bytes_and_files_each_have_their_own_to_be_stopped_who_is_hastened_for_them(node: Node) -> None:
    node.start(1, 40 * MIB)
    node.start(2, MIB)
    node.strew(2, 300)
    node.free, node.free_files = 4 * MIB, 40
    assert [(stop.id, "inodes" in stop.detail) for stop in node.look()] == [(1, False), (2, True)]
    node.free_files = 24
    assert node.look(0.25) == [DiskExceeded(2, "", 0.0)]
    node.free = 2 * MIB
    assert node.look(0.25) == [DiskExceeded(1, "", 0.0)]


def test_who_has_more_files_than_could_be_counted_has_at_least_so_many(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "_MAX_PENDING_FOLDERS", 0)
    node.start(1, MIB)
    node.strew(1, 200)
    (node.home / "1" / "folder").mkdir()
    node.free_files = 40
    [stop] = node.look()
    assert ": at least 203 files, 203 files of that in work; 40 files are free of 1000 files" in stop.detail


def test_who_was_cut_off_is_counted_last_with_the_time_that_the_others_leave(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "_LOOK_AT_CLOCK_EVERY", 1)
    for number in range(1, 5):
        node.start(number, MIB)
    node.strew(1, 160)
    node.free_files, node.entry_s = 40, 0.1
    # A quarter of the 20 s is enough for a count of some fifty files: too few to stop anybody for.
    assert node.look() == []
    assert node.counted == [1, 2, 3, 4]
    [stop] = node.look(100.0)
    assert node.counted[4:] == [2, 3, 4, 1]
    assert ": 162 files, " in stop.detail


def test_a_disk_that_runs_out_of_files_fast_is_looked_at_before_its_reserve_is_passed_by(node: Node) -> None:
    assert node.watch.look() == rules.LOOK_EVERY_S
    node.now += 2.0
    node.free_files = 150
    assert node.watch.look() == pytest.approx((150 - 50) / 175 / 2)


def test_it_is_told_of_what_the_disk_is_full_and_all_of_it_together(node: Node) -> None:
    node.free_files = 40
    node.look()
    news = node.sampler.take({})
    [event] = news.health
    assert event.detail == (
        f"the disk of {node.home} has no room for more files (inodes): 40 files are free of 1000 files, "
        "less than the reserve of 50 files"
    )
    assert news.host is not None
    assert (news.host.disk_mib, news.host.disk_free_mib, news.host.disk_full) == (100, 50, True)
    node.free = 4 * MIB
    node.look()
    [event] = node.sampler.take({}).health
    assert event.detail.startswith(f"the disk of {node.home} is full: 4 MiB are free of 100 MiB, less than the")
    assert "; " + f"the disk of {node.home} has no room for more files (inodes): 40 files are free" in event.detail
    node.look(300.0)
    assert node.sampler.take({}).health == ()
    node.free = 50 * MIB
    node.look(300.0)
    [event] = node.sampler.take({}).health
    assert "MiB" not in event.detail
    node.free_files = 60  # more than the reserve, and not by enough
    node.look()
    assert not node.sampler.has_news()
    node.free_files = 63
    node.look()
    assert node.told() == ([], False)


def test_the_limit_of_a_job_is_one_of_bytes(tmp_path: Path) -> None:
    node = Node(tmp_path, Options(max_bytes=10 * MIB))
    node.start(1, 8 * MIB)
    node.strew(1, 400)
    assert node.look() == []
    node.grow(1, 12 * MIB)
    [stop] = node.look()
    assert stop.detail.endswith("50 MiB are free of 100 MiB")


def test_what_did_not_arrive_is_told_again_at_once(node: Node) -> None:
    node.free = 0
    node.look()
    news = node.sampler.take({})
    assert news.host is not None
    assert (news.host.disk_mib, news.host.disk_free_mib, news.host.disk_full) == (100, 0, True)
    assert not node.sampler.has_news()
    node.sampler.give_back(news)
    assert node.told() == (["disk_full"], True)


def test_the_upper_folder_of_the_overlay_at_the_root_is_read_out_of_mountinfo() -> None:
    other = "2 1 0:5 / /proc rw - proc proc rw\n3 1 0:6 / /data rw - overlay overlay rw,upperdir=/no,workdir=/w\n"
    root = "1 0 0:4 / / rw,relatime - overlay overlay rw,lowerdir=l/A:l/B,upperdir=/d\\040x/diff,workdir=/d/work\n"
    assert upper_of(root + other) == "/d x/diff"
    assert upper_of(other) == ""
    assert upper_of("1 0 8:1 / / rw shared:1 - ext4 /dev/vda rw,upperdir=/no\n") == ""
    assert upper_of("1 0 0:4 / / rw - overlay overlay rw,lowerdir=/a,upperdir=b/diff\n") == ""
