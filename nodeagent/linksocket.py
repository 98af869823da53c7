"""The socket in the agent's folder by which links come: who listens, who connects, and who may."""

from __future__ import annotations

import logging
import os
import socket
import struct

from nodeagent.files import ShortPath

SOCKET = "link.sock"
_CREDENTIALS = struct.Struct("iII")

_log = logging.getLogger("nodeagent.link")


def listen(state: str) -> socket.socket:
    """The agent's socket; who has the folder's lock may replace the one of an agent that died."""
    path = os.path.join(state, SOCKET)
    try:
        os.unlink(path)
    except FileNotFoundError:
        _log.debug("a first start: there is no %s", path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with ShortPath(state) as folder:
        before = os.umask(0o177)
        try:
            listener.bind(folder.path(SOCKET))
        finally:
            os.umask(before)
    listener.listen(4)
    return listener


def connect(state: str) -> socket.socket:
    """A connection to the socket of the agent that runs in this folder, or OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with ShortPath(state) as folder:
            connection.connect(folder.path(SOCKET))
        if not is_of(connection, {0, os.geteuid()}):
            raise PermissionError("the socket in {} belongs to another user".format(state))
    except BaseException:
        connection.close()
        raise
    return connection


def is_of(connection: socket.socket, uids: "set[int]") -> bool:
    """Whether the other end is a process of one of these users."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(data)[1] in uids)
