"""Pulls by the Docker Engine's API, on a connection of our own.

The package `docker` waits for each line of an answer without a limit, so the agent could not give the pull up. Closing
the connection ends the engine's work too.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.parse
from typing import Any, Generator, Iterator, Mapping, Optional

import docker

from nodeagent.protocol.messages import RegistryLogin
from nodeagent.runtime.container.engine import ImageProblem
from nodeagent.runtime.container.images import Progress, problem_of, qualified
from nodeagent.runtime.container.pulling import pieces_of
from nodeagent.runtime.port import Tell, Wanted

_CONNECT_S = 60.0
_MAX_HEAD_BYTES = 1 << 16


def pull(client: Any, engine: str, image: str, login: Optional[RegistryLogin], *, tell: Tell, wanted: Wanted) -> None:
    """Pull, by the engine behind a socket; `OSError` or `ValueError` if it breaks off or talks nonsense."""
    progress = Progress(image, time.monotonic())
    tell(progress.begun())
    repository, tag = docker.utils.parse_repository_tag(qualified(image))
    auth = _auth_header(client, repository, login)

    def ask(method: str, path: str) -> Generator[Mapping[str, Any], None, None]:
        with contextlib.closing(_send(engine, method, "/v{}{}".format(client._version, path), auth)) as connection:
            pieces = pieces_of(connection.fileno(), wanted, moved=lambda: progress.moved, doing=lambda: progress.doing)
            yield from _lines(_answer(pieces, image))

    if tag and ":" in tag:
        # For a digest that the engine has, it answers "up to date" without asking the registry.
        named = urllib.parse.quote("{}@{}".format(repository, tag))
        with contextlib.closing(ask("GET", "/distribution/{}/json".format(named))) as lines:
            list(lines)
    wish = urllib.parse.urlencode({"fromImage": repository, "tag": tag or "latest"})
    with contextlib.closing(ask("POST", "/images/create?" + wish)) as lines:
        for line in lines:
            if "error" in line:
                raise ImageProblem(problem_of(str(line["error"]), image), str(line["error"]))
            said = progress.take(line, time.monotonic())
            if said is not None:
                tell(said)
    tell(progress.ended(time.monotonic()))


def _auth_header(client: Any, repository: str, login: Optional[RegistryLogin]) -> str:
    """The credentials for the registry, in a header: `login`, or those that the operator has stored."""
    if login is not None:
        header = docker.auth.encode_header({"username": login.username, "password": login.password})
    else:
        header = docker.auth.get_config_header(client, docker.auth.resolve_repository_name(repository)[0])
    return header.decode() if header else ""


def _send(engine: str, method: str, path: str, auth: str) -> socket.socket:
    head = "{} {} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\nContent-Length: 0\r\n{}\r\n".format(
        method, path, "X-Registry-Auth: {}\r\n".format(auth) if auth else ""
    )
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_CONNECT_S)
        connection.connect(engine)
        connection.sendall(head.encode())
    except BaseException:
        connection.close()
        raise
    return connection


def _answer(pieces: Iterator[bytes], image: str) -> Iterator[bytes]:
    """The body of an answer; `ImageProblem` for one that is an error."""
    head = b""
    while b"\r\n\r\n" not in head:
        piece = next(pieces, b"")
        if not piece or len(head) > _MAX_HEAD_BYTES:
            raise OSError("the engine broke off before its answer")
        head += piece
    head, _, rest = head.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    chunked = any(field.lower().replace(" ", "") == "transfer-encoding:chunked" for field in fields)
    body = _unchunked(rest, pieces) if chunked else _joined(rest, pieces)
    if status.split(" ")[1:2] == ["200"]:
        yield from body
        return
    text = b"".join(body).decode(errors="replace")
    with contextlib.suppress(ValueError, TypeError, KeyError):
        text = str(json.loads(text)["message"])
    raise ImageProblem(problem_of(text, image), text or status)


def _joined(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from pieces


def _unchunked(rest: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Undo the chunked encoding of a body; a body without the final empty chunk broke off."""
    while True:
        line, found, after = rest.partition(b"\r\n")
        size = int(line.partition(b";")[0], 16) if found else 0
        if found and size == 0:
            return
        if found and len(after) >= size + 2:
            yield after[:size]
            rest = after[size + 2 :]
            continue
        piece = next(pieces, b"")
        if not piece:
            raise OSError("the engine broke off in the middle of its answer")
        rest += piece


def _lines(pieces: Iterator[bytes]) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a body, one a line; `ValueError` where something else comes."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (json.loads(line) for line in whole if line.strip())
    if rest.strip():
        yield json.loads(rest)
