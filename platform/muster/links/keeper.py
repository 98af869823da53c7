"""The process `links`: it keeps a link to each server whose agent runs, and to each only one."""

from __future__ import annotations

import logging
import threading

from django.db import DatabaseError, InterfaceError, connection

from muster.common.session_lock import SessionLock
from muster.fleet.leases import tick
from muster.links.forward import Forwarder
from muster.links.link import Link
from muster.links.models import Step
from muster.links.progress import due, forget_open_links, in_use

log = logging.getLogger(__name__)

TURN_S = 1.0
CONNECTING_AT_ONCE = 16
_LOCK = 0x6C696E6B  # "link": one such process a database


class Keeper:
    """Starts links that are due, and ends those whose server was edited, removed or retired."""

    def __init__(self, url: str, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._url = url
        self._forwarder: Forwarder | None = None  # made with the first link: certificates alone are 10 MiB
        self._connecting = threading.Semaphore(CONNECTING_AT_ONCE)
        self._links: dict[int, Link] = {}
        self._lock = SessionLock(0, _LOCK)
        self._alone = False

    def run(self) -> None:
        """Keep links until told to stop. A database that is down ends none: their agents' beats are then refused."""
        try:
            while not self._stopping.is_set():
                try:
                    self.turn()
                except (DatabaseError, InterfaceError) as error:
                    log.warning("turn_failed error=%s", error)
                    connection.close()
                self._stopping.wait(TURN_S)
        finally:
            for link in self._links.values():
                link.stop()
            for link in self._links.values():
                link.join(timeout=5)
            if self._forwarder is not None:
                self._forwarder.close()
            connection.close()

    def turn(self) -> None:
        """One look at what there is."""
        if not self._is_alone():
            return
        tick("links")
        self._links = {pk: link for pk, link in self._links.items() if link.is_alive()}
        wanted = {pk: (version, is_due) for pk, version, is_due in in_use(Step.LINK)}
        for pk, link in self._links.items():
            if wanted.get(pk, (None, False))[0] != link.server.version:
                link.stop()
        if any(is_due and pk not in self._links for pk, (_, is_due) in wanted.items()):
            self._forwarder = self._forwarder or Forwarder(self._url)
            for server in due(Step.LINK).exclude(pk__in=self._links):
                link = self._links[server.pk] = Link(server, self._forwarder, self._connecting)
                link.start()

    def _is_alone(self) -> bool:
        """Whether this process has the lock; a second one waits for the first to end, and then goes on in its place."""
        if self._lock.held:
            return True
        if not self._lock.take():
            if self._alone:
                log.warning("another process keeps the links now")
                for link in self._links.values():
                    link.stop()
            self._alone = False
            return False
        if not self._links:
            forget_open_links()
        self._alone = True
        return True
