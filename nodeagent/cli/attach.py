"""`muster-agent attach`: standard input and output, which SSH carries, joined to the socket of the agent that runs."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading

from nodeagent.protocol.frames import MAGIC
from nodeagent.system.files import write_all
from nodeagent.transport.linksocket import connect

_READ_BYTES = 1 << 16

_log = logging.getLogger("nodeagent")


def attach(state: str) -> int:
    """Pass bytes both ways until either side ends; 1 when no agent runs."""
    try:
        connection = connect(state)
    except OSError as error:
        _log.error("no agent runs in %s: %s", state, error)
        return 1
    write_all(sys.stdout.fileno(), MAGIC)
    threading.Thread(target=_upwards, args=(connection,), daemon=True).start()
    try:
        while True:
            data = os.read(sys.stdin.fileno(), _READ_BYTES)
            if not data:
                break
            connection.sendall(data)
    except OSError as error:
        _log.info("the link ended: %s", error)
    connection.close()
    return 0


def _upwards(connection: socket.socket) -> None:
    """From the agent to the platform. When the agent ends the link, the other direction must not wait on."""
    try:
        while True:
            data = connection.recv(_READ_BYTES)
            if not data:
                break
            write_all(sys.stdout.fileno(), data)
    except OSError as error:
        _log.info("the link ended: %s", error)
    os._exit(0)
