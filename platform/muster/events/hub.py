"""One Redis subscriber for a whole process; it wakes the waiters of a channel at each message."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

PATTERN = "muster:*"
MAX_PAUSE_S = 2.0


class Waiter:
    """Waits for any of several channels. A message between two waits is not missed."""

    def __init__(self) -> None:
        self._spoken = asyncio.Event()

    def wake(self) -> None:
        """Let the present or the next wait return at once."""
        self._spoken.set()

    async def wait(self, timeout_s: float) -> bool:
        """Whether a channel spoke within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._spoken.wait()
        except TimeoutError:
            return False
        self._spoken.clear()
        return True


class Hub:
    """The subscriber. Run `listen` for the life of the process."""

    def __init__(self) -> None:
        self._waiters: defaultdict[str, set[Waiter]] = defaultdict(set)

    @contextmanager
    def waiter(self, *channels: str) -> Iterator[Waiter]:
        """A waiter for the channels. Subscribe first, then read, then wait: so nothing falls between."""
        waiter = Waiter()
        for channel in channels:
            self._waiters[channel].add(waiter)
        try:
            yield waiter
        finally:
            for channel in channels:
                self._waiters[channel].discard(waiter)
                if not self._waiters[channel]:
                    del self._waiters[channel]

    async def listen(self) -> None:
        """Listen until cancelled, through every loss of the connection."""
        failures = 0
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._listen_once()
            except (RedisError, OSError) as error:
                log.warning("hub_lost_redis error=%s", error)
            # Waiters may have missed a message: wake all of them to read the database.
            self._wake_all()
            lasted_s = asyncio.get_running_loop().time() - began
            failures = 0 if lasted_s > MAX_PAUSE_S else failures + 1
            await asyncio.sleep(min(0.1 * 2**failures, MAX_PAUSE_S))

    async def _listen_once(self) -> None:
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, health_check_interval=10)
        async with client, client.pubsub() as subscription:
            await subscription.psubscribe(PATTERN)
            self._wake_all()
            while True:
                message = await subscription.get_message(ignore_subscribe_messages=True, timeout=5)
                if message:
                    for waiter in tuple(self._waiters.get(message["channel"].decode(), ())):
                        waiter.wake()

    def _wake_all(self) -> None:
        for waiters in tuple(self._waiters.values()):
            for waiter in tuple(waiters):
                waiter.wake()


hub = Hub()
