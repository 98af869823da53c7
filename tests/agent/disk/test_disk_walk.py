"""The disk usage of folders, counted in trees that were built to defeat the count."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.disk import walk
from nodeagent.disk.rules import Unit
from nodeagent.disk.walk import Taken, Walk, deleted

KIB = 1 << 10
BLOCKS = 64 * KIB


def file_of(path: Path, size: int = BLOCKS) -> Path:
    with path.open("wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
    return path


def held_by(*paths: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in paths)


def count(folder: Path, unit: Unit = Unit.BYTES, **bounds: int) -> Taken:
    return Walk(folder.stat().st_dev, unit, **bounds).count(str(folder))


def open_below(folder: Path) -> list[str]:
    """Files that this process has open in a tree."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.append(str(descriptor.readlink()))
    return [path for path in found if Path(path).is_relative_to(folder)]


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A tree far deeper than a path can name, with a file at its end."""
    top = tmp_path / "deep"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("down", dir_fd=here)
        below = os.open("down", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with os.fdopen(os.open("end", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
        file.write(os.urandom(BLOCKS))
        file.flush()
        os.fsync(file.fileno())
    os.close(here)
    yield top
    subprocess.run(["rm", "-rf", str(top)], check=True)


def test_bytes_are_those_that_are_held_and_not_those_that_are_said(tmp_path: Path) -> None:
    full, sparse = file_of(tmp_path / "full"), tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    taken = count(tmp_path)
    assert taken == Taken(held_by(tmp_path, full, sparse), entries=3)
    assert taken.amount < 1 << 30


def test_a_file_with_several_names_counts_once_in_all_folders_of_a_job(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    file = file_of(one / "file")
    for folder, name in ((one, "again"), (other, "more")):
        os.link(file, folder / name)
    found = Walk(tmp_path.stat().st_dev, Unit.BYTES)
    assert found.count(str(one)).amount == held_by(one, file)
    assert found.count(str(other)).amount == held_by(other)


def test_of_more_files_with_several_names_than_can_be_remembered_each_name_counts_for_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "_MAX_LINKED_FILES", 2)
    first, second, outside = tmp_path / "first", tmp_path / "second", tmp_path / "outside"
    for folder in (first, second, outside):
        folder.mkdir()
    for folder, names in ((first, "ab"), (second, "cd")):
        for name in names:
            os.link(file_of(folder / name), folder / f"{name} again")
    os.link(second / "d", outside / "d")  # a third of it is not here
    found = Walk(tmp_path.stat().st_dev, Unit.BYTES)
    assert found.count(str(first)) == Taken(held_by(first, first / "a", first / "b"), entries=5)
    part = BLOCKS // 3
    assert found.count(str(second)) == Taken(held_by(second, second / "c") + 2 * part, entries=5, whole=False)
    assert found.count(str(first)) == Taken(held_by(first), entries=5, whole=False)


def test_an_inode_counts_once_whatever_its_names_and_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "_MAX_LINKED_FILES", 1)
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "empty").touch()
    os.mkfifo(inside / "fifo")
    (inside / "link").symlink_to("nowhere")
    (inside / "folder").mkdir()
    file = file_of(inside / "file")
    for number in range(5):
        os.link(file, inside / "folder" / str(number))
    assert count(inside, Unit.FILES) == Taken(6, entries=11)
    # Of two that cannot be remembered each name counts for its part. Each has six, two of which are elsewhere.
    for other in (outside / "one", outside / "two"):
        other.touch()
        for number in range(5):
            os.link(other, (outside if number == 0 else inside) / f"{other.name} {number}")
    found = Walk(tmp_path.stat().st_dev, Unit.FILES)
    assert found.count(str(inside / "folder")) == Taken(2, entries=6)
    # The parts are one and a third: at least one.
    assert found.count(str(inside)) == Taken(5 + 1, entries=19, whole=False)


def test_links_are_not_followed_wherever_they_lead(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    file_of(outside / "file")
    links = [inside / name for name in ("folder", "file", "loop", "nowhere")]
    for link, target in zip(links, (outside, outside / "file", inside, "/nowhere"), strict=True):
        link.symlink_to(target)
    assert count(inside) == Taken(held_by(inside, *links), entries=5)
    assert count(links[0]) == Taken()


def test_a_tree_of_any_depth_is_counted_whole_with_few_folders_open(
    deep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    enter = walk._Tree.enter

    def watched(tree: walk._Tree, descriptor: int) -> None:
        nonlocal most
        enter(tree, descriptor)
        most = max(most, sum(level.descriptor >= 0 for level in tree.levels))

    monkeypatch.setattr(walk._Tree, "enter", watched)
    taken = count(deep)
    assert taken.whole
    assert taken.entries == 3002
    assert taken.amount >= BLOCKS
    assert most <= 65
    assert open_below(deep) == []


def test_a_folder_that_is_moved_away_below_us_is_not_taken_for_another(
    deep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(deep / "last")
    folder = deep
    for _ in range(100):
        folder = folder / "down"
    entered, enter = 0, walk._Tree.enter

    def moved(tree: walk._Tree, descriptor: int) -> None:
        nonlocal entered
        enter(tree, descriptor)
        entered += 1
        if entered == 3001:  # it is all the way down
            folder.rename(tmp_path / "elsewhere")

    monkeypatch.setattr(walk._Tree, "enter", moved)
    taken = count(deep)
    subprocess.run(["rm", "-rf", str(tmp_path / "elsewhere")], check=True)
    assert not taken.whole
    assert taken.amount >= held_by(file) + BLOCKS


def test_it_ends_after_so_many_entries_or_so_much_time_or_when_it_is_enough(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / str(number)).touch()
    assert count(tmp_path, max_entries=100) == Taken(held_by(tmp_path), entries=100, whole=False)
    times = iter([0.0, *[100.0] * 10])
    timed = Walk(tmp_path.stat().st_dev, Unit.BYTES, now=lambda: next(times)).count(str(tmp_path))
    assert (timed.whole, timed.entries < 2000) == (False, True)
    assert count(tmp_path, Unit.FILES, enough=50) == Taken(50, entries=50, whole=False)
    below = tmp_path / "below"
    below.mkdir()
    file_of(below / "large")
    enough = count(below, enough=BLOCKS)
    assert (enough.whole, enough.amount >= BLOCKS) == (False, True)


def test_more_folders_than_can_wait_are_counted_and_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "_MAX_PENDING_FOLDERS", 5)
    for number in range(10):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "file").touch()
    assert count(tmp_path).entries == 16
    assert not count(tmp_path).whole


def test_what_is_no_folder_or_has_gone_takes_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert count(tmp_path) == Taken(held_by(tmp_path), entries=2)
    device = tmp_path.stat().st_dev
    assert Walk(device, Unit.BYTES).count(str(tmp_path / "fifo")) == Taken()
    assert Walk(device, Unit.BYTES).count(str(tmp_path / "nowhere")) == Taken()


def test_other_mounts_are_left_out(tmp_path: Path) -> None:
    file_of(tmp_path / "file")
    assert Walk(tmp_path.stat().st_dev + 1, Unit.BYTES).count(str(tmp_path)) == Taken()


def test_a_deleted_file_that_is_still_open_is_found_once(tmp_path: Path) -> None:
    holds = "import os, sys\nfile = open(sys.argv[1], 'wb')\nfile.write(os.urandom(65536)); file.flush()\n"
    holds += (
        "os.fsync(file.fileno()); os.unlink(sys.argv[1]); os.dup(file.fileno()); print('ready', flush=True); input()"
    )
    path = tmp_path / "file"
    # What this test writes to may be such a file, too.
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        device = tmp_path.stat().st_dev
        assert deleted([process.pid, process.pid], [device], Unit.BYTES) == BLOCKS
        assert deleted([process.pid, process.pid], [device], Unit.FILES) == 1
        assert deleted([process.pid], [device + 1], Unit.BYTES) == 0
        assert deleted([process.pid], [device], Unit.BYTES, max_entries=1) == 0
        process.communicate("\n")
    assert deleted([process.pid], [device], Unit.BYTES) == 0


def test_what_is_open_and_not_deleted_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    look = os.stat

    def noted(path: str) -> os.stat_result:
        looked.append(os.readlink(path))
        return look(path)

    here, gone = file_of(tmp_path / "here"), file_of(tmp_path / "gone")
    device = here.lstat().st_dev
    with here.open("rb"), gone.open("rb"):
        gone.unlink()
        with monkeypatch.context() as context:
            context.setattr(os, "stat", noted)
            taken = deleted([os.getpid()], [device], Unit.BYTES)
    assert taken >= BLOCKS
    assert f"{gone} (deleted)" in looked
    assert all(path.endswith(" (deleted)") for path in looked)


def test_a_deleted_file_deeper_than_a_path_can_tell_is_found(deep: Path) -> None:
    device = deep.stat().st_dev
    here = os.open(deep, os.O_RDONLY)
    for _ in range(3000):
        below = os.open("down", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    before = deleted([os.getpid()], [device], Unit.BYTES)
    with os.fdopen(os.open("end", os.O_RDONLY, dir_fd=here)):
        os.unlink("end", dir_fd=here)
        assert deleted([os.getpid()], [device], Unit.BYTES) == before + BLOCKS
    os.close(here)
