"""`POST /uploads`: a code archive, written to disk as it comes and stored once by its digest."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from muster.api import limits
from muster.api.streaming.callers import caller
from muster.common.asgi import checked_in_thread, in_thread
from muster.common.errors import Invalid, NotFound, TooLarge
from muster.jobs.submit.uploads import MAX_ARCHIVE_BYTES, has_code, new_draft, no_room, store_code
from muster_client.answers.outputs import Upload

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


async def upload(request: Request) -> Response:
    """Store the body, a tar.gz whose SHA-256 the header names: 201 if its bytes are new here, else 200."""
    user = caller(request)
    sha256 = request.headers.get("x-content-sha256", "")
    if not _DIGEST.fullmatch(sha256):
        raise Invalid.field("X-Content-SHA256", "send the archive's SHA-256 in hexadecimal")
    await in_thread(limits.take, limits.UPLOAD, user.pk)
    draft = await in_thread(new_draft)
    try:
        size = 0
        try:
            with draft.open("wb") as handle:
                async for part in request.stream():
                    size += len(part)
                    if size > MAX_ARCHIVE_BYTES:
                        raise TooLarge(f"a code archive may have {MAX_ARCHIVE_BYTES >> 20} MiB at most")
                    handle.write(part)
        except OSError as error:
            # The half that is there goes first: the news that there is no room needs some.
            draft.unlink(missing_ok=True)
            refusal = await in_thread(no_room, error)
            if refusal is None:
                raise
            raise refusal from error
        archive, created = await checked_in_thread(store_code, user=user, draft=draft, sha256=sha256)
    finally:
        draft.unlink(missing_ok=True)
    return JSONResponse(Upload(sha256=archive.sha256, size=archive.size), status_code=201 if created else 200)


async def known(request: Request) -> Response:
    """`HEAD /uploads/{sha256}`: 200 if the caller has uploaded this archive."""
    user = caller(request)
    sha256: str = request.path_params["sha256"]
    if not _DIGEST.fullmatch(sha256) or not await in_thread(has_code, user, sha256.lower()):
        raise NotFound("you have uploaded no such archive")
    return Response(status_code=200)
