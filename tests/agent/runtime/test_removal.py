"""Removal of what a job has made: any depth, no link followed, whatever is swapped for what meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.runtime.shim import removal
from nodeagent.runtime.shim.removal import remove_tree

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder that must not be touched."""
    folder = tmp_path / "outside"
    (folder / "below").mkdir(parents=True)
    (folder / "file").write_text("kept")
    (folder / "below/file").write_text("kept")
    yield folder
    assert sorted(folder.rglob("*")) == [folder / "below", folder / "below/file", folder / "file"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir(mode=0o711)
    return folder


def chain(folder: Path, levels: int) -> None:
    """Folders in folders, far deeper than a path can tell."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=descriptor)
        os.close(os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor))
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)


def test_a_chain_of_any_depth_goes_with_few_open_files(tree: Path) -> None:
    # In a process of its own: other threads of this one open files too.
    chain(tree, 5000)
    program = (
        "import resource; from nodeagent.runtime.shim.removal import remove_tree;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (11, 11)); remove_tree({str(tree)!r})"
    )
    try:
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, close_fds=True)
        assert not tree.exists()
    finally:  # pytest's own removal of old folders ends at this depth
        subprocess.run(["rm", "-rf", tree], check=True)


def test_whatever_a_job_can_make_goes(tree: Path, outside: Path) -> None:
    chance = random.Random(1)
    folders = [tree]
    for number in range(500):
        parent = chance.choice(folders)
        path = parent / f"{number}"
        kind = chance.randrange(6)
        if kind < 2:
            path.mkdir()
            folders.append(path)
        elif kind == 2:
            path.symlink_to(chance.choice([outside, outside / "file", tree, Path("nowhere")]))
        elif kind == 3:
            os.mkfifo(path)
        elif kind == 4:
            (parent / os.fsdecode(b"\xff\n" + bytes([number % 9 + 1]))).touch()
        else:
            path.touch(mode=0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "s"))
    for folder in reversed(folders[1::7]):  # the inner ones first: a closed folder lets no user but root pass
        folder.chmod(0)
    remove_tree(str(tree))
    assert not tree.exists()


def test_what_an_earlier_removal_moved_is_in_nobodys_way(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain(tree, 50)
    rename, moved = os.rename, 0

    def some(*arguments: Any, **folders: Any) -> None:
        nonlocal moved
        moved += 1
        if moved > 20:
            raise KeyboardInterrupt
        rename(*arguments, **folders)

    with monkeypatch.context() as context:
        context.setattr(removal.os, "rename", some)
        with pytest.raises(KeyboardInterrupt):
            remove_tree(str(tree))
    remove_tree(str(tree))
    assert not tree.exists()


def test_one_thing_that_stays_keeps_nothing_else(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/b/c", "a/x/y", "z"):
        (tree / name).mkdir(parents=True)
        (tree / name / "file").touch()
    (tree / "a/b/immutable").touch()
    unlink = os.unlink

    def but_one(name: str, *, dir_fd: int) -> None:
        if name == "immutable":
            raise PermissionError(1, "not this one")
        unlink(name, dir_fd=dir_fd)

    with monkeypatch.context() as context:
        context.setattr(removal.os, "unlink", but_one)
        with pytest.raises(PermissionError, match="not this one"):
            remove_tree(str(tree))
    assert [path.name for path in tree.rglob("*") if not path.is_dir()] == ["immutable"]
    remove_tree(str(tree))
    assert not tree.exists()


def test_who_makes_files_without_end_does_not_keep_the_removal(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/file").touch()
    now, made, unlink = 0.0, 0, os.unlink

    def one_more(name: str, *, dir_fd: int) -> None:
        nonlocal now, made
        unlink(name, dir_fd=dir_fd)
        made, now = made + 1, now + 1.0
        os.close(os.open(f"file-{made}", os.O_WRONLY | os.O_CREAT, dir_fd=dir_fd))

    with monkeypatch.context() as context:
        context.setattr(removal.os, "unlink", one_more)
        with pytest.raises(TimeoutError, match="something is left"):
            remove_tree(str(tree), 50.0, lambda: now)
    assert made == 50
    remove_tree(str(tree))
    assert not tree.exists()


def test_a_link_is_no_folder_to_remove(tree: Path, outside: Path) -> None:
    link = tree / "link"
    link.symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        remove_tree(str(link))
    assert link.is_symlink()


@pytest.mark.parametrize("call", ["open", "rename", "rmdir", "unlink"])
def test_what_is_swapped_for_a_link_is_not_followed(
    tree: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Whenever the removal is about to act on a name, that name becomes a link, once for each."""
    for name in ("a", "a/b", "a/b/c"):
        (tree / name).mkdir()
        (tree / name / "file").touch()
    original, swapped = getattr(os, call), 0

    def swap(name: str, *arguments: Any, **options: Any) -> Any:
        nonlocal swapped
        folder = options.get("dir_fd", options.get("src_dir_fd"))
        if folder is not None and swapped < 20:
            swapped += 1
            place = Path(f"/proc/self/fd/{folder}")
            (place / name).rename(place / f"elsewhere-{swapped}")
            (place / name).symlink_to(outside)
        return original(name, *arguments, **options)

    with monkeypatch.context() as context:
        context.setattr(removal.os, call, swap)
        remove_tree(str(tree))
    assert swapped
    assert not tree.exists()


def test_a_folder_that_becomes_a_file_goes_as_well(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "folder/below").mkdir(parents=True)
    (tree / "file").touch()
    entries = removal._entries

    def wrong_once(folder: int) -> Iterator[tuple[str, bool]]:
        monkeypatch.setattr(removal, "_entries", entries)
        for name, is_folder in entries(folder):
            yield name, not is_folder

    monkeypatch.setattr(removal, "_entries", wrong_once)
    remove_tree(str(tree))
    assert not tree.exists()


def test_nobody_else_reaches_what_is_moved_up(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder inside a private one may itself be open to all."""
    (tree / "private").mkdir(mode=0o700)
    (tree / "private/open/below").mkdir(parents=True)
    rename, modes = os.rename, []

    def look(*arguments: Any, **folders: Any) -> None:
        modes.append(stat.S_IMODE(os.fstat(folders["dst_dir_fd"]).st_mode))
        rename(*arguments, **folders)

    monkeypatch.setattr(removal.os, "rename", look)
    remove_tree(str(tree))
    assert modes == [0o700]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_root_it_removes_what_a_job_has_locked() -> None:
    folder = Path(tempfile.mkdtemp())  # the user `nobody` can enter it: pytest's folders are root's alone
    try:
        (folder / "tree/cache/module/below").mkdir(parents=True)
        (folder / "tree/cache/empty").mkdir()
        (folder / "tree/cache/module/file").touch(mode=0o444)
        for path in (folder, folder / "tree", *(folder / "tree").rglob("*")):
            os.chown(path, 65534, 65534)
        for path in (folder / "tree").rglob("*"):
            path.chmod(0o444 if path.is_file() else 0o555)
        (folder / "tree/cache/module").chmod(0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                remove_tree(str(folder / "tree"))
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder)
