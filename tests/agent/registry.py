"""A registry of container images in one process, which refuses on demand: enough of its API for a pull.

One that is `private` asks for a user and a password, by one of the two ways that registries have: `basic` takes them
with every request, and `bearer` sends clients to fetch a token, which anonymous clients get too.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import http.server
import io
import json
import re
import secrets
import shutil
import tarfile
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from tests.needed import skip_without

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_PATH = re.compile(r"/v2/([a-z0-9/]+)/(manifests|blobs)/([A-Za-z0-9:._-]+)")

Private = Literal["", "basic", "bearer"]
Silent = Literal["", "at once", "in the middle"]


class Registry:
    """Images by name; `denied` are the names that are refused. Of a private one every image needs a user of `users`,
    and one that is named in `readers` one of those. One that is `silent` takes connections, and then says nothing, or
    half of a blob and no more; one with `drip_s` waits so long before each `piece_bytes` of a blob."""

    def __init__(self, private: Private = "", host: str = "127.0.0.1") -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.denied: set[str] = set()
        self.private = private
        self.users: dict[str, str] = {}
        self.readers: dict[str, set[str]] = {}
        self.asked: list[str] = []
        self.before_answer: Callable[[], None] = lambda: None
        self.silent: Silent = ""
        self.drip_s = 0.0
        self.piece_bytes = 50_000
        self._closing = threading.Event()
        self._tokens: dict[str, str] = {}
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.answer(self)

            do_HEAD = do_POST = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Tests look at `asked`."""

        self._server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.address = f"{host}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, name: str, *layers: bytes, config: Mapping[str, object] | None = None) -> str:
        """Keep an image of these tars, with what it says of its containers, and return its whole name."""
        zipped = [gzip.compress(layer, mtime=0) for layer in layers]
        whole = {
            "architecture": "amd64",
            "os": "linux",
            "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": self._keep(json.dumps(whole).encode(), "application/vnd.docker.container.image.v1+json"),
            "layers": [self._keep(one, "application/vnd.docker.image.rootfs.diff.tar.gzip") for one in zipped],
        }
        self.manifests[name] = json.dumps(manifest).encode()
        return f"{self.address}/{name}:latest"

    def digest(self, name: str) -> str:
        """The digest of an image's content."""
        return _digest(self.manifests[name])

    def _keep(self, blob: bytes, kind: str) -> dict[str, object]:
        self.blobs[_digest(blob)] = blob
        return {"mediaType": kind, "size": len(blob), "digest": _digest(blob)}

    def answer(self, call: http.server.BaseHTTPRequestHandler) -> None:
        self.asked.append(call.path)
        self.before_answer()
        if self.silent == "at once":
            self._closing.wait()
            call.close_connection = True
            return
        match = _PATH.fullmatch(call.path)
        if call.path.partition("?")[0] == "/token":
            self._give_token(call)
        elif self.private and not self._may(call, match[1] if match else ""):
            self._challenge(call, match[1] if match else "")
        elif call.path == "/v2/":
            _send(call, 200, b"{}", "application/json")
        elif match is None:
            _refuse(call, 404, "NAME_UNKNOWN", "repository name not known to registry")
        elif match[1] in self.denied:
            _refuse(call, 401, "UNAUTHORIZED", "authentication required")
        elif match[2] == "manifests":
            body = self.manifests.get(match[1])
            if body is None or (match[3].startswith("sha256:") and match[3] != _digest(body)):
                _refuse(call, 404, "MANIFEST_UNKNOWN", "manifest unknown")
            else:
                _send(call, 200, body, _MANIFEST)
        else:
            self._send_blob(call, self.blobs[match[3]])

    def _send_blob(self, call: http.server.BaseHTTPRequestHandler, blob: bytes) -> None:
        call.send_response(200)
        call.send_header("Content-Length", str(len(blob)))
        call.end_headers()
        if call.command == "HEAD":
            return
        if self.silent:
            call.wfile.write(blob[: len(blob) // 2])
            self._closing.wait()
            call.close_connection = True
            return
        for at in range(0, len(blob), self.piece_bytes):
            if self.drip_s and self._closing.wait(self.drip_s):
                call.close_connection = True
                return
            try:
                call.wfile.write(blob[at : at + self.piece_bytes])
            except (BrokenPipeError, ConnectionResetError):  # a client that has given up, as some tests want
                call.close_connection = True
                return

    def _may(self, call: http.server.BaseHTTPRequestHandler, name: str) -> bool:
        """True if the caller is signed in, and for an image, may read it."""
        kind, _, value = call.headers.get("Authorization", "").partition(" ")
        if self.private == "bearer":
            # As at real registries, any client gets a token; that of an anonymous client names the user "".
            user = self._tokens.get(value) if kind == "Bearer" else None
        else:
            user = self._user_of(value) if kind == "Basic" else None
        if user is None or not name:
            return user is not None
        return user in self.readers.get(name, self.users)

    def _challenge(self, call: http.server.BaseHTTPRequestHandler, name: str) -> None:
        challenge = 'Basic realm="test"'
        if self.private == "bearer":
            challenge = f'Bearer realm="http://{self.address}/token",service="test"'
            challenge += f',scope="repository:{name}:pull"' if name else ""
        _refuse(call, 401, "UNAUTHORIZED", "authentication required", {"WWW-Authenticate": challenge})

    def _give_token(self, call: http.server.BaseHTTPRequestHandler) -> None:
        kind, _, value = call.headers.get("Authorization", "").partition(" ")
        user = self._user_of(value) if kind == "Basic" else ""
        if call.command == "POST":
            form = urllib.parse.parse_qs(call.rfile.read(int(call.headers.get("Content-Length", 0))).decode())
            name, password = form.get("username", [""])[0], form.get("password", [""])[0]
            user = name if self.users.get(name) == password else None
        if user is None:
            _refuse(call, 401, "UNAUTHORIZED", "incorrect username or password")
            return
        token = secrets.token_hex(8)
        self._tokens[token] = user
        body = json.dumps({"token": token, "access_token": token, "expires_in": 300})
        _send(call, 200, body.encode(), "application/json")

    def _user_of(self, encoded: str) -> str | None:
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return name if self.users.get(name) == password else None


@contextmanager
def running_registry(private: Private = "", host: str = "127.0.0.1") -> Iterator[Registry]:
    registry = Registry(private, host)
    try:
        yield registry
    finally:
        registry.close()


def busybox_layer() -> bytes:
    """A tar with a shell and a few programs."""
    buffer = io.BytesIO()
    busybox = shutil.which("busybox")
    if busybox is None:
        skip_without("busybox", "busybox is not installed")
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(busybox, "bin/busybox")
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


def _refuse(
    call: http.server.BaseHTTPRequestHandler,
    status: int,
    code: str,
    message: str,
    headers: dict[str, str] | None = None,
) -> None:
    body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
    _send(call, status, body, "application/json", headers)


def _send(
    call: http.server.BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    kind: str,
    headers: dict[str, str] | None = None,
) -> None:
    call.send_response(status)
    for name, value in (headers or {}).items():
        call.send_header(name, value)
    call.send_header("Docker-Distribution-Api-Version", "registry/2.0")
    call.send_header("Content-Type", kind)
    call.send_header("Content-Length", str(len(body)))
    if kind == _MANIFEST:
        call.send_header("Docker-Content-Digest", _digest(body))
    call.end_headers()
    if call.command != "HEAD":
        call.wfile.write(body)
