"""Programs that the platform offers for download: the agent, and the command line with the SDK as a wheel.

No sign-in is needed. Neither file holds a secret, a server has no credential before it joins, and a token in the
command that downloads would stand in the history of a shell. What a server gets is verified by the digest that the
admin shows to operators.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import condition, require_safe
from hatchling.builders.wheel import WheelBuilder

from muster.fleet.package import DOWNLOAD_NAME, agent_package
from muster.settings.env import REPOSITORY

CHECKSUMS = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    sha256: str
    content_type: str


@cache
def _files() -> Mapping[str, _File]:
    """Each file by its name, built with the first request; the same sources give the same bytes in every process."""
    agent = agent_package()
    files = {DOWNLOAD_NAME: _File(agent.data, agent.sha256, "application/octet-stream")}
    with tempfile.TemporaryDirectory(prefix="muster-wheel-") as folder:
        wheel = Path(next(WheelBuilder(str(REPOSITORY)).build(directory=folder, versions=["standard"])))
        files[wheel.name] = _file(wheel.read_bytes(), "application/octet-stream")
    sums = "".join(f"{file.sha256}  {name}\n" for name, file in files.items())
    return {**files, CHECKSUMS: _file(sums.encode(), "text/plain; charset=utf-8")}


def _file(data: bytes, content_type: str) -> _File:
    return _File(data, hashlib.sha256(data).hexdigest(), content_type)


def _etag(_request: HttpRequest, name: str) -> str | None:
    file = _files().get(name)
    return f'"{file.sha256}"' if file else None


@require_safe
@condition(etag_func=_etag)
def download(request: HttpRequest, name: str) -> HttpResponse:
    """A file by its name, with the SHA-256 of its content as its ETag."""
    file = _files().get(name)
    if file is None:
        raise Http404(name)
    response = HttpResponse(file.data, content_type=file.content_type)
    # An update of the platform changes the content under the same name.
    response["Cache-Control"] = "no-cache"
    return response
