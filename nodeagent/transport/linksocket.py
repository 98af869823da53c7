"""The socket in the agent's folder by which links come: who listens, and who connects."""

from __future__ import annotations

import logging
import os
import socket

from nodeagent.system.files import ShortPath
from nodeagent.system.sockets import is_of, listen_at

SOCKET = "link.sock"

_log = logging.getLogger("nodeagent.link")


def listen(state: str) -> socket.socket:
    """The agent's socket; who has the folder's lock may replace the one of an agent that died."""
    path = os.path.join(state, SOCKET)
    try:
        os.unlink(path)
    except FileNotFoundError:
        _log.debug("a first start: there is no %s", path)
    return listen_at(path, socket.SOCK_STREAM)


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
