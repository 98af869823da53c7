"""Reading of a Docker Engine's answer to a pull, in pieces of any size."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from nodeagent.protocol.messages import EndReason, RegistryLogin
from nodeagent.runtime.container.engine import ImageProblem
from nodeagent.runtime.docker.pull import pull

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LOGIN = RegistryLogin("reg.example.org", "ada", "secret")


@contextmanager
def engine(folder: Path, answer: bytes, piece_bytes: int) -> Iterator[tuple[str, list[bytes]]]:
    """An engine that gives one answer in such pieces and closes the connection; its socket, and what it was asked."""
    path, asked = str(folder / "engine.sock"), []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            # Who has read the end of the answer hangs up, and need not have read the end of what was sent.
            with connection, suppress(BrokenPipeError):
                asked.append(connection.recv(65536))
                for at in range(0, len(answer), piece_bytes):
                    connection.sendall(answer[at : at + piece_bytes])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield path, asked
        thread.join()


def pulled(socket_path: str) -> list[str]:
    told: list[str] = []
    pull(Mock(_version="1.41"), socket_path, "reg.example.org/x:1", LOGIN, tell=told.append, wanted=lambda: True)
    return told


def chunked(*lines: bytes) -> bytes:
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines)


GOOD = chunked(b'{"status":"Pulling fs', b' layer","id":"a"}\r\n{"status":"Pull complete","id":"a"}\r\n') + b"0\r\n\r\n"


@pytest.mark.parametrize("piece_bytes", [1, 7, 10_000])
def test_an_answer_is_read_in_whatever_pieces_it_comes(tmp_path: Path, piece_bytes: int) -> None:
    with engine(tmp_path, GOOD, piece_bytes) as (path, asked):
        assert pulled(path)[-1].startswith("pulled reg.example.org/x:1 in ")
    assert asked[0].startswith(b"POST /v1.41/images/create?fromImage=reg.example.org%2Fx&tag=1 HTTP/1.1\r\n")
    assert b"\r\nX-Registry-Auth: " in asked[0]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="no answer at all"),
        pytest.param(HEAD[:20], id="half a head"),
        pytest.param(GOOD[:-5], id="no empty chunk in the end"),
        pytest.param(GOOD[:-20], id="half a chunk"),
        pytest.param(chunked(b"nonsense\n") + b"0\r\n\r\n", id="no JSON"),
        pytest.param(HEAD + b"zz\r\n", id="no size of a chunk"),
    ],
)
def test_an_answer_that_breaks_off_is_no_image(tmp_path: Path, answer: bytes) -> None:
    with engine(tmp_path, answer, 10_000) as (path, _), pytest.raises((OSError, ValueError)):
        pulled(path)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b'HTTP/1.1 404 Not Found\r\nContent-Length: 30\r\n\r\n{"message":"manifest unknown"}\n', "manifest unknown"),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", "HTTP/1.1 500 Internal Server Error"),
        (chunked(b'{"error":"manifest unknown"}\n') + b"0\r\n\r\n", "manifest unknown"),
    ],
)
def test_what_the_engine_refuses_is_told_in_its_words(tmp_path: Path, answer: bytes, text: str) -> None:
    with engine(tmp_path, answer, 10_000) as (path, _), pytest.raises(ImageProblem, match=text) as caught:
        pulled(path)
    expected = EndReason.IMAGE_NOT_FOUND if "unknown" in text else EndReason.IMAGE_UNREACHABLE
    assert caught.value.reason is expected
