"""The talk between the programs of a batch script: lines of JSON, frames of a step, and the proof of the secret.

A connection over the network begins with a challenge: each side proves that it has the attempt's secret, which is
never sent. Frames carry the output, input and ends of tasks between `srun` and the process that runs them on a node.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import select
import socket
import struct
from collections.abc import Iterator
from typing import Any

_HEAD = struct.Struct(">cII")
MAX_LINE = 1 << 24
ALL_TASKS = 0xFFFFFFFF

LAUNCH, INPUT, INPUT_ENDS, SIGNAL = b"L", b"I", b"C", b"K"
"""Frames from `srun`: the tasks to start, data for their input, the end of it, a signal for them."""
OUTPUT, ERRORS, EXITED, TOLD, TAKEN, ENDED = b"O", b"E", b"X", b"M", b"A", b"D"
"""Frames to `srun`: output, errors, ends of tasks, a message, input was read, all is over."""


def frame(kind: bytes, data: bytes = b"", task: int = ALL_TASKS) -> bytes:
    """A frame as it is sent."""
    return _HEAD.pack(kind, task, len(data)) + data


class Frames:
    """The frames in bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
        """Each frame that is whole now: its kind, its task and its data."""
        self._unread += data
        begin = 0
        while len(self._unread) - begin >= _HEAD.size:
            kind, task, length = _HEAD.unpack_from(self._unread, begin)
            end = begin + _HEAD.size + length
            if len(self._unread) < end:
                break
            yield kind, task, bytes(self._unread[begin + _HEAD.size : end])
            begin = end
        del self._unread[:begin]


class Lines:
    """The lines of JSON in bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Each object whose line is whole now.

        Raises:
            ValueError: a line is too long or no JSON.
        """
        self._unread += data
        while True:
            end = self._unread.find(b"\n")
            if end < 0:
                if len(self._unread) > MAX_LINE:
                    raise ValueError("a line is too long")
                return
            line = bytes(self._unread[:end])
            del self._unread[: end + 1]
            yield json.loads(line)


def line(told: object) -> bytes:
    """An object as a line of JSON."""
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def read_line(connection: socket.socket) -> Any:
    """The object of the next line; None where the other side has gone. It reads no byte more than the line."""
    data = bytearray()
    while not data.endswith(b"\n"):
        one = connection.recv(1)
        if not one or len(data) > MAX_LINE:
            return None
        data += one
    return json.loads(data)


def write_all(descriptor: int, data: bytes) -> None:
    """Write it all, also where another program has made the file one that does not block."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def nonce() -> str:
    """A new challenge."""
    return os.urandom(16).hex()


def proof(secret: str, *parts: object) -> str:
    """The answer to a challenge, which only those who have the secret can make."""
    text = "\n".join(map(str, parts)).encode()
    return hmac.new(bytes.fromhex(secret), text, hashlib.sha256).hexdigest()


def proves(secret: str, claimed: object, *parts: object) -> bool:
    """True if the answer is right."""
    return isinstance(claimed, str) and hmac.compare_digest(proof(secret, *parts), claimed)


def join(address: tuple[str, int], secret: str, rank: int, step: int | None, timeout_s: float) -> socket.socket:
    """A connection to the first rank, after each side has proved that it has the secret.

    `step`: the step whose frames it carries; None for the orders to this rank.

    Raises:
        OSError: the other side cannot be reached, or does not have the secret.
    """
    connection = socket.create_connection(address, timeout=timeout_s)
    try:
        challenge, own = read_line(connection), nonce()
        if not isinstance(challenge, str):
            raise ConnectionError("the first rank sent no challenge")
        answer = proof(secret, "rank", challenge, own, rank, step)
        connection.sendall(line({"nonce": own, "rank": rank, "step": step, "proof": answer}))
        if not proves(secret, read_line(connection), "first", own, challenge):
            raise ConnectionError("the other side does not have the secret of this attempt")
    except (OSError, ValueError) as error:
        connection.close()
        raise error if isinstance(error, OSError) else ConnectionError(str(error)) from error
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection


def greet(secret: str, challenge: str, told: Any) -> tuple[int, int | None, bytes] | None:
    """The rank and the step of a caller that has the secret, and the answer to it; None for any other caller."""
    if not isinstance(told, dict):
        return None
    own, rank, step = told.get("nonce"), told.get("rank"), told.get("step")
    if type(rank) is not int or not (step is None or type(step) is int):
        return None
    if not proves(secret, told.get("proof"), "rank", challenge, own, rank, step):
        return None
    return rank, step, line(proof(secret, "first", own, challenge))
