"""One run of the agent in the eyes of the platform: its epoch, its sequence numbers, the newest timers."""

from __future__ import annotations

import itertools
import logging
import threading
from dataclasses import replace
from typing import Optional

from nodeagent.protocol import messages as protocol
from nodeagent.protocol.messages import HelloRequest, Inventory, RegisterRequest, RegisterResponse, Timers
from nodeagent.state.identity import Identity
from nodeagent.system import clock
from nodeagent.system.backoff import Backoff
from nodeagent.transport.client import Client, Refused, Unauthorized, Unreachable

_log = logging.getLogger("nodeagent")


class Rejected(Exception):
    """The platform will not have this agent; `status` is the exit status that says why."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Session:
    """The values that every message of this run carries. Attributes are replaced whole, so any thread may read them."""

    def __init__(self, boot_id: str, state_id: str, answer: RegisterResponse, registered_at: float) -> None:
        self.boot_id = boot_id
        self.state_id = state_id
        self.epoch = answer.epoch
        self.node_name = answer.node_name
        self.timers: Timers = answer.timers
        self.registered_at = registered_at
        """The send time of the answered registration (CLOCK_BOOTTIME)."""
        self.renewed_at = registered_at
        """The send time of the newest request whose answer renewed the lease (CLOCK_BOOTTIME)."""
        self.unbroken_since = registered_at
        """Since when the lease has not run out (CLOCK_BOOTTIME): GPUs claimed earlier may be given to another job."""
        self._numbers = itertools.count(1)

    def may_start(self, now: float) -> bool:
        """True if enough of the lease is left for a start: without a lease a job would stop itself at once.

        After a long silence the news of a job may be faster than the answer to a beat.
        """
        return now - self.renewed_at < self.timers.stop_after_s / 2

    def renew(self, sent_at: float, now: float) -> None:
        """A request that was sent then has renewed the lease now."""
        if self.has_run_out(now):
            self.unbroken_since = sent_at
        self.renewed_at = sent_at

    def has_run_out(self, now: float) -> bool:
        """True if the platform has been silent for so long that jobs stop themselves."""
        return now - self.renewed_at >= self.timers.stop_after_s

    def seq(self) -> int:
        """The next sequence number."""
        return next(self._numbers)


def register(
    client: Client,
    identity: Identity,
    inventory: Inventory,
    *,
    version: str,
    join_token: str,
    stopping: threading.Event,
) -> Optional[Session]:
    """Say hello and register until the platform answers; None when the agent was asked to end meanwhile."""
    if not (identity.enrolled or join_token or client.vouched_for):
        raise Rejected(protocol.EXIT_UNAUTHORIZED, "a join token is needed for the first registration of this node")
    client.secret = identity.credential if identity.enrolled else join_token
    boot_id = clock.boot_id()
    request = RegisterRequest(
        protocol.PROTOCOL_VERSION, boot_id, version, identity.credential, inventory, nonce="", state_id=identity.name
    )
    backoff = Backoff()
    while not stopping.is_set():
        try:
            nonce = client.hello(HelloRequest(identity.credential)).nonce
            sent_at = clock.boottime()
            answer = client.register(replace(request, nonce=nonce))
        except Unreachable as error:
            _wait_to_try_again(backoff, stopping, error)
            continue
        except Unauthorized as error:
            if identity.enrolled and join_token:
                _log.warning("the platform refused the credential of this node: joining again with the join token")
                identity.renew()
                client.secret = join_token
                request = replace(request, credential=identity.credential)
                continue
            what = "credential" if identity.enrolled else "join token"
            text = "the platform refused the {} of this node: {}".format(what, error.detail)
            raise Rejected(protocol.EXIT_UNAUTHORIZED, text) from error
        except Refused as error:
            if error.status == protocol.STALE_NONCE:  # another hello came in between, perhaps a late one of ours
                _wait_to_try_again(backoff, stopping, error)
                continue
            raise Rejected(protocol.EXIT_REFUSED, "the platform refused this node: {}".format(error)) from error
        identity.enrol(answer.node_id, answer.node_name, answer.cluster_id)
        client.secret = identity.credential
        _log.info("registered as %s, epoch %d", answer.node_name, answer.epoch)
        return Session(boot_id, identity.name, answer, sent_at)
    return None


def _wait_to_try_again(backoff: Backoff, stopping: threading.Event, error: Exception) -> None:
    wait_s = backoff.wait_s()
    _log.warning("cannot register, trying again in %.1f s: %s", wait_s, error)
    stopping.wait(wait_s)
