"""Packing a code folder."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tarfile
from pathlib import Path

import pytest

from muster.jobs.submit.uploads import MAX_FILES, MAX_UNPACKED_BYTES
from muster_client.errors import PackError
from muster_client.local.pack import (
    DEFAULT_IGNORES,
    IGNORE_FILE,
    MAX_ARCHIVE_BYTES,
    MAX_DEPTH,
    MAX_ENTRIES,
    Archive,
    list_entries,
    pack_folder,
)
from nodeagent.protocol import archives

ROOT = Path(__file__).resolve().parents[3]


def folder(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def opened(archive: Archive) -> tarfile.TarFile:
    archive.file.seek(0)
    return tarfile.open(fileobj=archive.file, mode="r:gz")


def names(archive: Archive) -> list[str]:
    with opened(archive) as tar:
        return tar.getnames()


def test_the_same_folder_packs_to_the_same_archive(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", b="2", a="1", sub__c="3")
    two = folder(tmp_path / "two", sub__c="3", a="1", b="2")
    os.utime(two / "a", (1, 1))
    (two / "b").chmod(0o600)
    with pack_folder(one) as first, pack_folder(two) as second:
        assert first.sha256 == second.sha256
        assert first.sha256 == hashlib.sha256(b"".join(first.chunks())).hexdigest()
        assert first.size == sum(len(chunk) for chunk in second.chunks())


def test_another_content_is_another_archive(tmp_path: Path) -> None:
    with (
        pack_folder(folder(tmp_path / "one", a="1")) as first,
        pack_folder(folder(tmp_path / "two", a="2")) as second,
    ):
        assert first.sha256 != second.sha256


def test_members_are_sorted_and_tell_nothing_of_the_user(tmp_path: Path) -> None:
    root = folder(tmp_path, b="2", a="1", sub__c="3")
    (root / "b").chmod(0o700)
    with pack_folder(root) as archive, opened(archive) as tar:
        members = tar.getmembers()
    assert [(member.name, member.mode) for member in members] == [
        ("a", 0o644),
        ("b", 0o755),
        ("sub", 0o755),
        ("sub/c", 0o644),
    ]
    assert {(member.mtime, member.uid, member.gid, member.uname) for member in members} == {(0, 0, 0, "")}


def test_it_leaves_out_what_the_ignore_file_says(tmp_path: Path) -> None:
    root = folder(
        tmp_path,
        _dot_musterignore="data/\n*.ckpt\n!keep.ckpt\n/top\n",
        data__big="x",
        a_dot_ckpt="x",
        keep_dot_ckpt="x",
        top="x",
        sub__top="x",
        sub__data__big="x",
    )
    with pack_folder(root) as archive:
        assert names(archive) == [".musterignore", "keep.ckpt", "sub", "sub/top"]


def test_it_leaves_out_version_control_and_caches_unless_told(tmp_path: Path) -> None:
    files = {"_dot_git__config": "x", "_dot_venv__bin": "x", "a_dot_pyc": "x", "a_dot_py": "x"}
    with pack_folder(folder(tmp_path, **files)) as archive:
        assert names(archive) == ["a.py"]
    (tmp_path / ".musterignore").write_text("!.git/\n")
    with pack_folder(tmp_path) as archive:
        assert ".git/config" in names(archive)


def test_a_link_inside_is_stored_as_what_it_points_to(tmp_path: Path) -> None:
    root = folder(tmp_path, a="1", sub__b="2")
    (root / "link").symlink_to("a")
    (root / "links").symlink_to("sub")
    with pack_folder(root) as archive, opened(archive) as tar:
        members = {member.name: member for member in tar.getmembers()}
        assert sorted(members) == ["a", "link", "links", "links/b", "sub", "sub/b"]
        assert all(member.isreg() or member.isdir() for member in members.values())
        file = tar.extractfile("link")
        assert file is not None
        assert file.read() == b"1"


@pytest.mark.parametrize("target", ["../../secret", "/etc/passwd", "../sub/../../secret", "../../code2/a"])
def test_it_refuses_a_link_that_leaves_the_folder_and_names_it(tmp_path: Path, target: str) -> None:
    folder(tmp_path, secret="x", code2__a="x")
    root = folder(tmp_path / "code", sub__a="1")
    (root / "sub" / "leak").symlink_to(target)
    with pytest.raises(PackError, match=r"sub/leak is a link to .*, outside the code folder"):
        pack_folder(root)


def test_an_ignored_link_may_point_anywhere(tmp_path: Path) -> None:
    root = folder(tmp_path, a="1", _dot_musterignore="leak\n")
    (root / "leak").symlink_to("/etc/passwd")
    assert [entry.name for entry in list_entries(root)] == [".musterignore", "a"]


def test_it_refuses_a_link_to_nowhere_and_a_link_in_a_circle(tmp_path: Path) -> None:
    root = folder(tmp_path / "one", a="1")
    (root / "gone").symlink_to("nothing")
    with pytest.raises(PackError, match="gone is a link to nothing, which does not exist"):
        pack_folder(root)
    root = folder(tmp_path / "two", sub__a="1")
    (root / "sub" / "up").symlink_to("..")
    with pytest.raises(PackError, match="sub/up is a link to a folder that it lies in"):
        pack_folder(root)
    root = folder(tmp_path / "three", a="1")
    (root / "self").symlink_to("self")
    with pytest.raises(PackError, match="self"):
        pack_folder(root)


def test_it_takes_no_path_that_the_platform_would_refuse(tmp_path: Path) -> None:
    deep = tmp_path.joinpath("deep", *["a"] * 62)
    deep.mkdir(parents=True)
    (deep / "ok").write_text("1")  # the 64th name
    with pack_folder(tmp_path) as archive:
        archive.file.seek(0)
        names = [member.parts for member in archives.members(archive.file, max_entries=MAX_ENTRIES, max_bytes=1 << 20)]
    assert max(map(len, names)) == MAX_DEPTH == archives.MAX_DEPTH
    (deep / "b").mkdir()
    (deep / "b" / "c").write_text("1")
    with pytest.raises(PackError, match="lies deeper than 64 folders"):
        pack_folder(tmp_path)


def test_it_takes_no_path_that_is_too_long(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["n" * 200] * 5)
    folder.mkdir(parents=True)
    (folder / ("x" * 18)).write_text("1")  # 5 x 201 + 18 bytes, and the final NUL
    with pack_folder(tmp_path) as archive:
        archive.file.seek(0)
        assert len(list(archives.members(archive.file, max_entries=10, max_bytes=1 << 20))) == 6
    (folder / ("x" * 19)).write_text("1")
    with pytest.raises(PackError, match="its path has more than 1024 bytes"):
        pack_folder(tmp_path)


def test_it_takes_no_more_files_than_the_platform() -> None:
    assert MAX_ENTRIES == MAX_FILES


def test_it_refuses_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PackError, match="pipe is neither a file nor a folder"):
        pack_folder(tmp_path)


def test_it_stops_at_the_limit_and_names_the_largest_files(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    (tmp_path / "model.bin").write_bytes(os.urandom(200_000))
    with pytest.raises(PackError, match=r"larger than 100000 bytes.*model\.bin \(0\.2 MiB\)"):
        pack_folder(tmp_path, max_bytes=100_000)


def test_it_refuses_a_folder_that_is_not_there_or_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="does not exist"):
        pack_folder(tmp_path / "none")
    with pytest.raises(PackError, match="is not a folder"):
        pack_folder(folder(tmp_path, a="1") / "a")


def test_it_packs_an_empty_folder(tmp_path: Path) -> None:
    with pack_folder(tmp_path) as archive:
        assert names(archive) == []


def test_the_submit_page_has_the_same_limits_and_default_ignores() -> None:
    source = (ROOT / "frontend/src/pages/submit/code/limits.ts").read_text()
    page = dict(re.findall(r"^export const (\w+) = (.+);$", source, re.MULTILINE))
    assert json.loads(page["DEFAULT_IGNORES"]) == list(DEFAULT_IGNORES)
    assert json.loads(page["IGNORE_FILE"]) == IGNORE_FILE
    # A limit is a number or a product of numbers.
    limits = {
        name: math.prod(int(factor) for factor in value.split("*"))
        for name, value in page.items()
        if name.startswith("MAX_")
    }
    assert limits == {
        "MAX_ARCHIVE_BYTES": MAX_ARCHIVE_BYTES,
        "MAX_UNPACKED_BYTES": MAX_UNPACKED_BYTES,
        "MAX_ENTRIES": MAX_FILES,
        "MAX_DEPTH": archives.MAX_DEPTH,
        "MAX_PATH_BYTES": archives.MAX_PATH_BYTES,
        "MAX_NAME_BYTES": archives.MAX_NAME_BYTES,
    }
