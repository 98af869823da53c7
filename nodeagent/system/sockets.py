"""Unix sockets in folders that only their owner opens: who listens there, and who is at the other end."""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

from nodeagent.system.files import ShortPath

_CREDENTIALS = struct.Struct("iII")


def listen_at(path: str, kind: int) -> socket.socket:
    """A socket that listens at the path, which may be longer than addresses are; no other user can connect."""
    folder, name = os.path.split(path)
    listener = socket.socket(socket.AF_UNIX, kind)
    with ShortPath(folder) as short:
        before = os.umask(0o177)
        try:
            listener.bind(short.path(name))
        finally:
            os.umask(before)
    listener.listen(4)
    return listener


class Owner(NamedTuple):
    """The process that connected, or that listened at that moment; numbered by this process's namespaces."""

    pid: int
    uid: int
    gid: int


def owner_of(connection: socket.socket) -> Owner:
    """The process at the other end of a connection (SO_PEERCRED)."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Owner(*_CREDENTIALS.unpack(data))


def is_of(connection: socket.socket, uids: "set[int]") -> bool:
    """True if the other end is a process of one of these users."""
    return owner_of(connection).uid in uids
