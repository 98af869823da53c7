"""Code archives as they come over HTTP: stored once by their digest, or refused and not stored."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.test import Client

from muster.api import limits
from muster.api.uploads import stream as upload_stream
from muster.common.errors import Invalid, MusterError, TooLarge
from muster.jobs.models import CodeArchive
from muster.jobs.submit import uploads
from tests import hostile
from tests.db.stories import (
    World,
    submit,
)
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]


def archive_of(*members: tarfile.TarInfo | tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for member in members:
            if isinstance(member, tuple):
                info, body = tarfile.TarInfo(member[0]), member[1]
                info.size = len(body)
                archive.addfile(info, io.BytesIO(body))
            else:
                archive.addfile(member)
    return buffer.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def send(http: httpx.Client, body: bytes, sha256: str | None = None, **headers: str) -> httpx.Response:
    named = hashlib.sha256(body).hexdigest() if sha256 is None else sha256
    return http.post("/api/v1/uploads", content=body, headers={"X-Content-SHA256": named, **headers})


def stored_files() -> list[Path]:
    folder = Path(settings.STATE_FOLDER) / "code"
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


GOOD = (("train.py", b"print('hello')"), ("src/model.py", b""))


class TestUploads:
    @pytest.fixture(autouse=True)
    def _an_empty_store(self, tmp_path: Path, settings: Any) -> None:
        settings.STATE_FOLDER = tmp_path

    def test_an_archive_is_stored_once_by_its_digest(self, http: httpx.Client) -> None:
        body = archive_of(*GOOD)
        sha256 = hashlib.sha256(body).hexdigest()
        first, second = send(http, body), send(http, body)
        assert (first.status_code, first.json()) == (201, {"sha256": sha256, "size": len(body)})
        assert second.status_code == 200
        assert [path.read_bytes() for path in stored_files()] == [body]
        assert http.head(f"/api/v1/uploads/{sha256}").status_code == 200

    def test_what_only_others_have_uploaded_is_not_there(
        self, http: httpx.Client, stranger: httpx.Client, world: World
    ) -> None:
        body = archive_of(*GOOD)
        sha256 = send(stranger, body).json()["sha256"]
        assert http.head(f"/api/v1/uploads/{sha256}").status_code == 404
        with pytest.raises(Invalid, match="not uploaded"):
            submit(world, code={"upload": sha256})
        send(http, body)
        assert http.head(f"/api/v1/uploads/{sha256}").status_code == 200
        assert submit(world, code={"upload": sha256}).code_id == sha256

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(archive_of(special("link", tarfile.SYMTYPE, "/etc/passwd")), id="a symbolic link"),
            pytest.param(archive_of(special("link", tarfile.LNKTYPE, "train.py")), id="a hard link"),
            pytest.param(archive_of(special("device", tarfile.CHRTYPE)), id="a device"),
            pytest.param(archive_of(special("pipe", tarfile.FIFOTYPE)), id="a pipe"),
            pytest.param(archive_of(("../evil", b"")), id="a way out"),
            pytest.param(archive_of(("a/../../evil", b"")), id="a hidden way out"),
            pytest.param(archive_of(("/etc/cron.d/evil", b"")), id="an absolute path"),
            pytest.param(archive_of(("a\nb", b"")), id="a name with a line break"),
            pytest.param(archive_of(*GOOD)[:-20], id="half an archive"),
            pytest.param(archive_of(*GOOD) + archive_of(*GOOD), id="two archives"),
            pytest.param(b"not an archive", id="no archive"),
            pytest.param(b"", id="nothing"),
            *(pytest.param(body, id=what) for what, body in (hostile.HEADERS | hostile.COSTLY | hostile.PATHS).items()),
        ],
    )
    def test_what_is_no_plain_folder_of_files_is_refused_and_not_stored(self, http: httpx.Client, body: bytes) -> None:
        answer = send(http, body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "code")
        assert not CodeArchive.objects.exists()
        assert stored_files() == []

    def test_a_body_with_another_digest_is_refused_and_not_stored(self, http: httpx.Client) -> None:
        assert send(http, archive_of(*GOOD), sha256="0" * 64).status_code == 422
        assert send(http, archive_of(*GOOD), sha256="none").status_code == 422
        assert not CodeArchive.objects.exists()
        assert stored_files() == []

    def test_an_upload_that_breaks_off_leaves_nothing_and_can_be_repeated(self, http: httpx.Client) -> None:
        body = archive_of(*GOOD)

        def half() -> Iterator[bytes]:
            yield body[:40]
            eventually(stored_files, "part of the body on the disk")
            raise ConnectionError("the browser is closed")

        with pytest.raises(ConnectionError):
            http.post(
                "/api/v1/uploads",
                content=half(),
                headers={
                    "X-Content-SHA256": hashlib.sha256(body).hexdigest(),
                    "Content-Length": str(len(body)),
                },
            )
        eventually(lambda: not stored_files(), "the part deleted")
        assert not CodeArchive.objects.exists()
        assert send(http, body).status_code == 201

    def test_a_body_that_is_too_large_is_refused_and_not_stored(
        self, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(upload_stream, "MAX_ARCHIVE_BYTES", 50)
        assert send(http, archive_of(*GOOD)).status_code == 413
        assert stored_files() == []

    def test_more_files_than_are_allowed_are_refused_and_not_stored(
        self, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(uploads, "MAX_FILES", 3)
        files = [(str(number), b"") for number in range(4)]
        answer = send(http, archive_of(*files))
        assert (answer.status_code, answer.json()["detail"]) == (413, "more than 3 files or 1024 MiB when unpacked")
        assert stored_files() == []
        assert send(http, archive_of(*files[:3])).status_code == 201

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(
                hostile.zipped(hostile.block("a", tarfile.REGTYPE, 2 << 20), 2 << 20, 1024), id="one large file"
            ),
            pytest.param(archive_of(*((str(number), bytes(300_000)) for number in range(4))), id="several together"),
            pytest.param(archive_of(*((str(number), b"x") for number in range(1500))), id="padding"),
            pytest.param(hostile.zipped(hostile.block("a", tarfile.REGTYPE), 2 << 20), id="what follows the last file"),
            pytest.param(hostile.zipped(hostile.block("a", tarfile.REGTYPE, 1 << 40)), id="a size that is not true"),
        ],
    )
    def test_what_unpacks_to_more_than_is_allowed_is_refused_and_not_stored(
        self, http: httpx.Client, monkeypatch: pytest.MonkeyPatch, body: bytes
    ) -> None:
        monkeypatch.setattr(uploads, "MAX_UNPACKED_BYTES", 1 << 20)
        answer = send(http, body)
        assert (answer.status_code, answer.json()["detail"]) == (413, "more than 50000 files or 1 MiB when unpacked")
        assert stored_files() == []

    def test_while_archives_are_looked_through_the_threads_of_all_others_are_free(
        self, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        look, go_on, began = uploads.check_archive, Event(), Semaphore(0)

        def wait(path: Path) -> None:
            began.release()
            assert go_on.wait(60)
            look(path)

        monkeypatch.setattr(uploads, "check_archive", wait)
        bodies = [archive_of((str(number), b"x")) for number in range(14)]  # more than there are threads
        with ThreadPoolExecutor(len(bodies)) as senders:
            sent = [senders.submit(send, http, body) for body in bodies]
            try:
                assert began.acquire(timeout=60)
                # Each of these needs a thread with a database connection, as beats and claims do.
                assert http.head(f"/api/v1/uploads/{'0' * 64}").status_code == 404
                assert not began.acquire(blocking=False)
            finally:
                go_on.set()
            assert {one.result().status_code for one in sent} == {201}

    def test_who_sends_too_many_is_told_when_to_go_on(
        self, http: httpx.Client, stranger: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "UPLOAD", limits.Bucket("upload-tried", per_s=0.001, burst=1))
        body = archive_of(*GOOD)
        assert send(http, body).status_code == 201
        answer = send(http, body)
        assert (answer.status_code, answer.json()["type"]) == (429, "about:blank#too-many")
        assert 0 < int(answer.headers["Retry-After"]) <= 1000
        assert send(stranger, body).status_code == 200

    def test_a_session_must_show_its_csrf_token(self, server: str, world: World) -> None:
        browser = Client()
        browser.force_login(world.user)
        cookies = {"sessionid": browser.cookies["sessionid"].value, "csrftoken": "t" * 32}
        with httpx.Client(base_url=server, cookies=cookies) as http:
            assert send(http, archive_of(*GOOD)).status_code == 403
            assert send(http, archive_of(*GOOD), **{"X-CSRFToken": "u" * 32}).status_code == 403
            assert stored_files() == []
            assert send(http, archive_of(*GOOD), **{"X-CSRFToken": "t" * 32}).status_code == 201

    def test_another_kind_of_authorization_does_not_replace_the_csrf_token(self, server: str, world: World) -> None:
        browser = Client()
        browser.force_login(world.user)
        cookies = {"sessionid": browser.cookies["sessionid"].value, "csrftoken": "t" * 32}
        with httpx.Client(base_url=server, cookies=cookies) as http:
            for authorization in ("Basic eDp5", "Bearer", "x"):
                assert send(http, archive_of(*GOOD), Authorization=authorization).status_code in {401, 403}
            assert stored_files() == []

    def test_without_a_session_or_a_token_nothing_is_stored(self, server: str) -> None:
        with httpx.Client(base_url=server) as http:
            assert send(http, archive_of(*GOOD)).status_code == 401
        assert stored_files() == []


BOMB = hostile.zipped(hostile.block("a", tarfile.REGTYPE, 2 * hostile.LARGE), 2 * hostile.LARGE, 1024)


@pytest.mark.parametrize("body", [BOMB, *hostile.HEADERS.values()], ids=["a bomb", *hostile.HEADERS])
def test_to_look_at_an_archive_takes_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(uploads, "MAX_UNPACKED_BYTES", hostile.LARGE)
    path = tmp_path / "draft"
    path.write_bytes(body)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge if body is BOMB else MusterError):
            uploads.check_archive(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < hostile.MEMORY_BYTES
