"""The one Redis client of a process. Nothing is promised by Redis: a failure here delays and loses nothing."""

from __future__ import annotations

import json
import logging
from functools import cache

import redis
from django.conf import settings

log = logging.getLogger(__name__)

EVENTS_CHANNEL = "muster:events"
ACCESS_CHANNEL = "muster:access"


@cache
def client() -> redis.Redis:
    """A client with persistent connections, and timeouts short enough that a dead server does not block callers."""
    connection: redis.Redis = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=1, health_check_interval=30
    )
    return connection


def node_channel(node_id: int) -> str:
    """The channel for changes of a node's desired set."""
    return f"muster:node:{node_id}"


def log_channel(attempt_id: int) -> str:
    """The channel for newly stored log bytes of an attempt."""
    return f"muster:log:{attempt_id}"


def offers_channel(user_id: int) -> str:
    """The channel for new offers to a user's frameworks."""
    return f"muster:offers:{user_id}"


def publish(channel: str, message: dict[str, object] | None = None) -> None:
    """Announce a change on a channel. Waiters that miss the message look again by themselves."""
    try:
        client().publish(channel, json.dumps(message or {}))
    except redis.RedisError as error:
        log.warning("redis_publish_failed channel=%s error=%s", channel, error)
