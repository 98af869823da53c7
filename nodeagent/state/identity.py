"""The agent's identity: the state folder with its lock, its name for made-up things, its credential."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets

from nodeagent.system.files import keep_json, read_json, write_atomic

_log = logging.getLogger("nodeagent")


class StateBusy(Exception):
    """Another agent uses the state folder."""


class Identity:
    """The state folder of one agent. Holds its lock for as long as the process lives."""

    def __init__(self, state: str) -> None:
        self.state = os.path.abspath(state)
        os.makedirs(self.state, exist_ok=True)
        self._lock = os.open(self.path("agent.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise StateBusy("another agent is running with the state folder {}".format(self.state)) from error
        self.name = self._secret_file("identity", 16)
        """A random name of this state folder, by which the platform tells it from one that came in its place."""
        self._renewing = False
        self.credential = self._secret_file("credential", 32)
        """The secret that we chose; on disk before it is ever sent, so that a lost answer can be retried."""

    def path(self, name: str) -> str:
        """A file of the state folder."""
        return os.path.join(self.state, name)

    @property
    def enrolled(self) -> bool:
        """True if the platform has accepted our credential before, so that no join token is needed."""
        return not self._renewing and read_json(self.path("node.json")) is not None

    def enrol(self, node_id: int, node_name: str, cluster_id: str) -> None:
        """Remember that the platform knows our credential. OSError if that cannot be written and was not known."""
        if self._renewing:
            os.replace(self.path("credential.next"), self.path("credential"))
            self._renewing = False
        node = {"node_id": node_id, "node_name": node_name, "cluster_id": cluster_id}
        try:
            keep_json(self.path("node.json"), node, sync=True)
        except OSError as error:
            if not self.enrolled:
                raise
            # That we are known stands there, and who ended here could not clear the disk that is full.
            _log.warning("cannot write that this node is %s now: %s", node_name, error)

    def renew(self) -> None:
        """Use another credential. The one before stays in its file until the platform has accepted the new one."""
        self.credential = self._secret_file("credential.next", 32)
        self._renewing = True

    def close(self) -> None:
        """Let another agent have the folder."""
        os.close(self._lock)

    def _secret_file(self, name: str, size: int) -> str:
        path = self.path(name)
        if not os.path.exists(path):
            write_atomic(path, secrets.token_urlsafe(size).encode(), mode=0o600, sync=True)
        with open(path, encoding="ascii") as file:
            return file.read()
