"""Unix sockets in folders that only their owner opens: who listens there, and who is at the other end."""

from __future__ import annotations

import os
import socket
import struct

from nodeagent.files import ShortPath

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


def is_of(connection: socket.socket, uids: "set[int]") -> bool:
    """Whether the other end is a process of one of these users."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(data)[1] in uids)
