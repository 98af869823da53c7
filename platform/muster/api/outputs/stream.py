"""The files that jobs left, handed out byte by byte and never interpreted."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from muster.accounts.models import User
from muster.api.streaming.callers import caller
from muster.common.asgi import in_thread
from muster.common.errors import NotFound
from muster.jobs.selectors import get_job
from muster.outputs.models import OutputFile
from muster.outputs.selectors import kept_file
from muster.outputs.store import place_of


async def output_file(request: Request) -> Response:
    """`GET /jobs/{id}/files/{file_id}`: the file as a download; a `Range` gives a part of it."""
    user = caller(request)
    file = await in_thread(_file, user, request.path_params["job_id"], request.path_params["file_id"])
    headers = {"X-Muster-Sha256": file.sha256}
    name = file.path.rpartition("/")[2]
    return FileResponse(place_of(file), media_type="application/octet-stream", filename=name, headers=headers)


def _file(user: User, job_id: int, file_id: int) -> OutputFile:
    file = kept_file(get_job(user, job_id), file_id)
    if not place_of(file).is_file():
        raise NotFound(f"the bytes of file {file_id} are gone")
    return file
