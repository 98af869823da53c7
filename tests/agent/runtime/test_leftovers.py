"""Files taken from a working folder whose owner need not be friendly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeagent.runtime.port import WorkFolder
from nodeagent.ship import patterns
from nodeagent.ship.leftovers import Findings, NotTaken, find, open_file, open_folder

MATCHES: dict[str, tuple[str, list[str], list[str]]] = {
    "a name": ("loss.csv", ["loss.csv"], ["x/loss.csv", "loss.csv2"]),
    "a star stays within a name": ("*.csv", ["a.csv", ".csv"], ["a.txt", "x/a.csv"]),
    "two stars go down as far as there is": ("**/*.pt", ["a.pt", "x/a.pt", "x/y/z/a.pt"], ["a.csv"]),
    "two stars at the end": ("ckpt/**", ["ckpt/a", "ckpt/x/a"], ["ckpt", "ckpts/a"]),
    "two stars between": ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["z", "a/b"]),
    "a folder stands for all that is in it": ("ckpt/", ["ckpt/a", "ckpt/x/a"], ["x/ckpt/a"]),
    "everything": ("**", ["a", "x/a"], []),
    "one character": ("epoch-?", ["epoch-1"], ["epoch-", "epoch-12"]),
    "a set": ("[a-c!]x", ["ax", "cx", "!x"], ["dx", "x"]),
    "all but a set": ("[!a-c]x", ["dx"], ["ax", "x"]),
    "a bracket that is closed nowhere": ("[x", ["[x"], ["x"]),
    "a set that begins with a bracket": ("[]]", ["]"], ["[", "x"]),
    "an empty range": ("[z-a]x", [], ["ax", "zx", "x"]),
    "several stars": ("*a*b*", ["ab", "xaxbx"], ["ba"]),
    "dots that mean this folder": ("./a/./b", ["a/b"], ["b"]),
}


def named(pattern: str, path: str) -> bool:
    """True if a walk with this pattern takes the file at this path."""
    rests = patterns.compiled([pattern])
    *folders, name = path.split("/")
    for folder in folders:
        rests = patterns.below_folder(patterns.advance(rests, folder))
    return patterns.names_file(patterns.advance(rests, name))


@pytest.mark.parametrize("case", MATCHES)
def test_a_pattern_names(case: str) -> None:
    pattern, yes, no = MATCHES[case]
    assert [path for path in yes + no if named(pattern, path)] == yes


def test_a_pattern_made_to_take_for_ever_does_not() -> None:
    assert not named("*a" * 60 + "b", "a" * 255)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def look(work: Path, *wanted: str, uid: int | None = None, **limits: int) -> Findings:
    folder = WorkFolder(str(work), (), os.geteuid() if uid is None else uid)
    bounds = {"max_bytes": 1 << 20, "max_files": 100, **limits}
    return find(folder, wanted or ("**",), **bounds)


def taken(findings: Findings) -> list[str]:
    return [file.path for file in findings.files]


def reasons(findings: Findings) -> dict[str, str]:
    return {item.path: item.reason for item in findings.left_out}


def test_it_takes_what_patterns_name_in_the_order_of_paths(work: Path) -> None:
    for name in ("b.csv", "a.csv", "notes", "ckpt/2/x", "ckpt/1"):
        (work / name).parent.mkdir(exist_ok=True, parents=True)
        (work / name).write_bytes(b"x" * len(name))
    found = look(work, "*.csv", "ckpt", "no-such/*")
    assert [(file.path, file.size) for file in found.files] == [
        ("a.csv", 5),
        ("b.csv", 5),
        ("ckpt/1", 6),
        ("ckpt/2/x", 8),
    ]
    assert (found.left_out, found.more, found.cut_short) == ([], 0, False)


def test_it_follows_no_link_and_opens_nothing_but_regular_files(work: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("k")
    (work / "file-link").symlink_to(secret / "key")
    (work / "folder-link").symlink_to(secret)
    os.mkfifo(work / "fifo")
    assert taken(look(work)) == []
    assert reasons(look(work)) == dict.fromkeys(("fifo", "file-link", "folder-link"), "not_a_file")
    assert taken(look(work, "folder-link/*")) == []


def test_a_working_folder_that_became_a_link_is_not_followed(work: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "run").mkdir(parents=True)
    (tmp_path / "other" / "run" / "key").write_text("k")
    (work / "run").symlink_to(tmp_path / "other" / "run")
    found = find(WorkFolder(str(work), ("run",), os.geteuid()), ("**",), max_bytes=100, max_files=10)
    assert (taken(found), reasons(found)) == ([], {".": "vanished"})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_a_hard_link_to_a_file_of_somebody_else_is_not_taken(work: Path, tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("root's")
    os.link(tmp_path / "shadow", work / "mine")
    (work / "own").write_text("x")
    os.chown(work / "own", 4321, 4321)
    found = look(work, uid=4321)
    assert (taken(found), reasons(found)) == (["own"], {"mine": "not_owned"})


def test_a_name_that_cannot_be_told_is_left_out_and_shown_escaped(work: Path) -> None:
    for name in (b"line\nbreak", b"latin-\xe9", "left\u202eright".encode()):
        Path(os.fsdecode(os.fsencode(work) + b"/" + name)).write_bytes(b"x")
    found = look(work)
    assert taken(found) == []
    assert reasons(found) == {
        "latin-\\udce9": "bad_name",
        "left\\u202eright": "bad_name",
        "line\\nbreak": "bad_name",
    }


def test_a_path_that_is_too_long_is_left_out_and_shown_cut(work: Path) -> None:
    folder = work
    for _ in range(5):
        folder = folder / ("d" * 250)
        folder.mkdir()
    (folder / "file").write_text("x")
    (item,) = look(work).left_out
    assert (item.reason, len(item.path) <= 1024) == ("bad_name", True)


def test_sizes_and_numbers_are_bounded(work: Path) -> None:
    for name, size in (("a", 60), ("b", 101), ("c", 60), ("d", 40), ("e", 0), ("f", 0)):
        (work / name).write_bytes(bytes(size))
    found = look(work, max_bytes=100, max_files=3)
    assert taken(found) == ["a", "d", "e"]
    assert [(item.path, item.reason, item.size) for item in found.left_out] == [
        ("b", "too_large", 101),
        ("c", "over_limit", 60),
        ("f", "over_limit", 0),
    ]


def test_a_huge_sparse_file_is_not_read(work: Path) -> None:
    with (work / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert reasons(look(work)) == {"sparse": "too_large"}


def test_a_crowd_of_files_is_counted_and_not_all_of_it_looked_at(work: Path) -> None:
    for number in range(300):
        (work / f"{number:03}").write_bytes(b"")
    found = look(work, max_files=0)
    assert (len(found.left_out), found.more, found.cut_short) == (200, 100, False)
    assert look(work, max_entries=250).cut_short
    assert len(look(work, max_entries=250).files) == 100


def test_folders_below_folders_end_somewhere(work: Path) -> None:
    folder = work
    for _ in range(60):
        folder = folder / "d"
        folder.mkdir()
    (folder / "file").write_text("x")
    assert list(reasons(look(work)).values()) == ["too_deep"]


def test_a_folder_that_no_pattern_leads_into_is_not_opened(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "data").mkdir()
    (work / "ckpt").mkdir()
    opened: list[str] = []
    real = os.open

    def watched(path: str, *arguments: int, **options: int) -> int:
        opened.append(str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", watched)
    look(work, "ckpt/*", "*.csv")
    assert opened == [str(work), "ckpt"]


def changed_by(work: Path, what: str) -> str:
    """The reason why a file is not taken to which something happened after it was found."""
    path = work / "sub" / "file"
    path.parent.mkdir()
    path.write_text("before")
    os.utime(path, ns=(1, 1))
    folder = WorkFolder(str(work), (), os.geteuid())
    (file,) = find(folder, ("**",), max_bytes=100, max_files=10).files
    (work / "other").write_text("secret")
    if what in ("gone", "a link", "a FIFO"):
        path.unlink()
    if what == "a link":
        path.symlink_to(work / "other")
    elif what == "a FIFO":
        os.mkfifo(path)
    elif what == "written to":
        path.write_text("beyond")
    elif what == "a folder that is a link":
        path.parent.rename(work / "moved")
        path.parent.symlink_to(work / "moved")
    root = open_folder(folder)
    try:
        with pytest.raises(NotTaken) as refusal:
            open_file(root, folder.uid, file)
    finally:
        os.close(root)
    return refusal.value.reason


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("gone", "vanished"),
        ("a link", "unreadable"),
        ("a FIFO", "changed"),
        ("written to", "changed"),
        ("a folder that is a link", "unreadable"),
    ],
)
def test_a_file_that_is_not_what_was_found_is_not_taken(work: Path, what: str, reason: str) -> None:
    assert changed_by(work, what) == reason
