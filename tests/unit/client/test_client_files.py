"""Files of jobs on the command line: listed with their reasons, and written only where they belong."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from muster_client.local.download import DownloadError, place_below
from tests.unit.client.fake_server import FakeServer, Run, job

CONTENT = bytes(range(256)) * 20_000


def a_file(number: int, path: str, content: bytes = b"x", **changes: Any) -> dict[str, Any]:
    sha256 = hashlib.sha256(content).hexdigest()
    whole = {"attempt": 1, "rank": 0, "size": len(content), "sha256": sha256, "state": "kept", "at": "2026-11-21"}
    return {"id": number, "path": path, **whole, **changes}


def serve(server: FakeServer, *files: tuple[dict[str, Any], bytes], state: str = "succeeded", **summary: Any) -> None:
    """Let the server have these files of job 7."""
    about = {
        "patterns": ["**"],
        "kept_files": len(files),
        "kept_bytes": 0,
        "most_files": 1000,
        "most_bytes": 1 << 30,
        "kept_until": None,
        "pending": 0,
        "lost": 0,
        "unnamed": 0,
        "cut_short": False,
        **summary,
    }
    pages = {"results": [file for file, _ in files], "next": None, "summary": about}
    server.on("GET /jobs/7", httpx.Response(200, json=job(state=state)))
    server.on("GET /jobs/7/files", httpx.Response(200, json=pages))
    for file, content in files:

        def part(request: httpx.Request, content: bytes = content) -> httpx.Response:
            match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers["Range"])
            assert match
            return httpx.Response(206, content=content[int(match[1]) : int(match[2]) + 1])

        server.on(f"GET /jobs/7/files/{file['id']}", part)


def written(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_are_listed_with_why_they_are_not_kept(server: FakeServer, run: Run) -> None:
    left_out = a_file(2, "big\x1b[31m", state="too_large", size=3 << 30, sha256=None)
    serve(server, (a_file(1, "loss.csv"), b"x"), (left_out, b""), unnamed=4, pending=1, lost=2, cut_short=True)
    result = run("files", "7")
    assert result.exit_code == 0
    assert "1 B" in result.stdout
    assert re.search(r"3\.0 GiB +too_large +big", result.stdout)
    assert "\x1b" not in result.stdout
    notes = ("4 more files", "Files of 1 rank are still to come", "2 ranks were lost", "Not all was looked at")
    assert [note for note in notes if note not in result.stderr] == []
    assert len(json.loads(run("files", "7", "--json").stdout)["results"]) == 2


def test_a_list_of_several_pages_is_read_whole(server: FakeServer, run: Run) -> None:
    serve(server)
    summary = {"patterns": [], "pending": 0, "lost": 0, "unnamed": 0, "cut_short": False}
    pages = [
        httpx.Response(200, json={"results": [a_file(number, str(number))], "next": following, "summary": summary})
        for number, following in ((1, "more"), (2, None))
    ]
    server.on("GET /jobs/7/files", *pages)
    result = run("files", "7", "--attempt", "3", "--json")
    assert [file["id"] for file in json.loads(result.stdout)["results"]] == [1, 2]
    asked = [dict(request.url.params) for request in server.sent("GET /jobs/7/files")]
    assert asked == [{"limit": "200", "attempt": "3"}, {"limit": "200", "attempt": "3", "cursor": "more"}]


def test_download_writes_whole_files_in_parts_and_nothing_twice(server: FakeServer, run: Run, tmp_path: Path) -> None:
    serve(server, (a_file(1, "ckpt/last.pt", CONTENT), CONTENT), (a_file(2, "empty", b""), b""))
    assert run("download", "7").exit_code == 0
    assert written(tmp_path / "job-7") == {"ckpt/last.pt": CONTENT, "empty": b""}
    ranges = [request.headers["Range"] for request in server.sent("GET /jobs/7/files/1")]
    assert ranges == ["bytes=0-4194303", f"bytes=4194304-{len(CONTENT) - 1}"]
    assert "0 of them new" in run("download", "7").stdout
    assert len(server.sent("GET /jobs/7/files/1")) == 2


def test_download_takes_what_fits_of_the_newest_attempt_and_keeps_ranks_apart(
    server: FakeServer, run: Run, tmp_path: Path
) -> None:
    serve(
        server,
        (a_file(1, "out.csv", attempt=2, rank=0), b"x"),
        (a_file(2, "out.csv", attempt=2, rank=1), b"x"),
        (a_file(3, "sub/notes", attempt=2, rank=1), b"x"),
        (a_file(4, "gone.csv", attempt=3, state="changed"), b"x"),
        (a_file(5, "old.csv", attempt=1), b"x"),
    )
    assert run("download", "7", "*.csv", "-o", "a").exit_code == 0
    assert sorted(written(tmp_path / "a")) == ["rank-0/out.csv", "rank-1/out.csv"]
    assert run("download", "7", "-o", "b", "--rank", "1").exit_code == 0
    assert sorted(written(tmp_path / "b")) == ["out.csv", "sub/notes"]
    assert run("download", "7", "*.pt", "-o", "c").exit_code == 4
    assert not (tmp_path / "c").exists()


def test_download_replaces_nothing_that_is_another_file(server: FakeServer, run: Run, tmp_path: Path) -> None:
    serve(server, (a_file(1, "a"), b"x"), (a_file(2, "b"), b"x"))
    (tmp_path / "b").write_text("mine")
    refused = run("download", "7", "-o", ".")
    assert (refused.exit_code, "--force" in refused.stderr) == (1, True)
    assert written(tmp_path) == {"b": b"mine"}
    assert run("download", "7", "-o", ".", "--force").exit_code == 0
    assert written(tmp_path) == {"a": b"x", "b": b"x"}


def test_bytes_that_are_not_the_servers_are_not_kept(server: FakeServer, run: Run, tmp_path: Path) -> None:
    serve(server, (a_file(1, "a", b"good"), b"evil"))
    result = run("download", "7")
    assert (result.exit_code, "other bytes" in result.stderr) == (1, True)
    assert written(tmp_path) == {}


def test_a_server_that_does_not_send_the_part_is_not_believed(server: FakeServer, run: Run, tmp_path: Path) -> None:
    serve(server, (a_file(1, "a", b"four"), b"four"))
    server.on("GET /jobs/7/files/1", httpx.Response(200, content=b"four"))
    assert run("download", "7").exit_code == 1
    assert written(tmp_path) == {}


@pytest.mark.parametrize(
    "path", ["../evil", "/etc/evil", "a/../../evil", "", "a//b", "a/.", "..", "a\0b", "/", "a/", "./a"]
)
def test_nothing_is_written_outside_the_folder(server: FakeServer, run: Run, tmp_path: Path, path: str) -> None:
    serve(server, (a_file(1, "fine"), b"x"), (a_file(2, path), b"x"))
    (tmp_path / "inner").mkdir()
    assert run("download", "7", "-o", "inner").exit_code == 1
    assert written(tmp_path) == {}


def test_nothing_is_written_through_a_link(server: FakeServer, run: Run, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    (tmp_path / "job-7").mkdir()
    (tmp_path / "job-7" / "link").symlink_to(elsewhere)
    (tmp_path / "job-7" / "name").symlink_to(elsewhere / "file")
    with pytest.raises(DownloadError, match="link"):
        place_below(tmp_path / "job-7", "link/x")
    serve(server, (a_file(1, "name"), b"x"))
    assert run("download", "7").exit_code == 1
    assert run("download", "7", "--force").exit_code == 0
    assert (tmp_path / "job-7" / "name").read_bytes() == b"x"
    assert written(elsewhere) == {"file": b"mine"}


def test_files_on_their_way_are_waited_for_once_the_job_is_over(server: FakeServer, run: Run, tmp_path: Path) -> None:
    serve(server, pending=1)
    waiting = server.answers["GET /jobs/7/files"]
    serve(server, (a_file(1, "a"), b"x"))
    server.answers["GET /jobs/7/files"] = waiting * 3 + server.answers["GET /jobs/7/files"]
    assert run("download", "7").exit_code == 0
    assert written(tmp_path / "job-7") == {"a": b"x"}
    assert server.slept_s == [1.0, 1.0, 1.0]
    serve(server, state="active", pending=1)
    assert run("download", "7").exit_code == 4
    assert len(server.slept_s) == 3
