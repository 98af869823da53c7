"""A registry of container images in one process, which refuses on demand: enough of its API for a pull."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import re
import shutil
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_PATH = re.compile(r"/v2/([a-z0-9/]+)/(manifests|blobs)/([A-Za-z0-9:._-]+)")


class Registry:
    """Images by name; `denied` are the names that are refused."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.denied: set[str] = set()
        self.asked: list[str] = []
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.answer(self)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Tests look at `asked`."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, name: str, *layers: bytes) -> str:
        """Keep an image of these tars and return its whole name."""
        zipped = [gzip.compress(layer, mtime=0) for layer in layers]
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": self._keep(json.dumps(config).encode(), "application/vnd.docker.container.image.v1+json"),
            "layers": [self._keep(one, "application/vnd.docker.image.rootfs.diff.tar.gzip") for one in zipped],
        }
        self.manifests[name] = json.dumps(manifest).encode()
        return f"{self.address}/{name}:latest"

    def _keep(self, blob: bytes, kind: str) -> dict[str, object]:
        self.blobs[_digest(blob)] = blob
        return {"mediaType": kind, "size": len(blob), "digest": _digest(blob)}

    def answer(self, call: http.server.BaseHTTPRequestHandler) -> None:
        self.asked.append(call.path)
        match = _PATH.fullmatch(call.path)
        if call.path == "/v2/":
            _send(call, 200, b"{}", "application/json")
        elif match is None:
            _refuse(call, 404, "NAME_UNKNOWN", "repository name not known to registry")
        elif match[1] in self.denied:
            _refuse(call, 401, "UNAUTHORIZED", "authentication required")
        elif match[2] == "manifests":
            body = self.manifests.get(match[1])
            if body is None:
                _refuse(call, 404, "MANIFEST_UNKNOWN", "manifest unknown")
            else:
                _send(call, 200, body, _MANIFEST)
        else:
            _send(call, 200, self.blobs[match[3]], "application/octet-stream")


@contextmanager
def running_registry() -> Iterator[Registry]:
    registry = Registry()
    try:
        yield registry
    finally:
        registry.close()


def busybox_layer() -> bytes:
    """A tar with a shell and a few programs."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(shutil.which("busybox") or "", "bin/busybox")
        for name in ("sh", "sleep", "echo", "cat"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return buffer.getvalue()


def layer_of(name: str, content: bytes) -> bytes:
    """A tar with one file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _refuse(call: http.server.BaseHTTPRequestHandler, status: int, code: str, message: str) -> None:
    body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
    _send(call, status, body, "application/json")


def _send(call: http.server.BaseHTTPRequestHandler, status: int, body: bytes, kind: str) -> None:
    call.send_response(status)
    call.send_header("Docker-Distribution-Api-Version", "registry/2.0")
    call.send_header("Content-Type", kind)
    call.send_header("Content-Length", str(len(body)))
    if kind == _MANIFEST:
        call.send_header("Docker-Content-Digest", _digest(body))
    call.end_headers()
    if call.command != "HEAD":
        call.wfile.write(body)
