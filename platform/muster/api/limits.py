"""Rate limits: a token bucket for each user, kept in Redis. Without Redis there is no limit."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from typing import cast

import redis

from muster.common.errors import TooMany
from muster.events.redis import client

log = logging.getLogger(__name__)

# Takes ARGV[3] tokens from a bucket of ARGV[2] that fills by ARGV[1] a second, on the server's clock; answers the
# seconds to wait, as text because Redis would cut a fraction off, and 0 if they were taken.
_TAKE = """
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = math.min(burst, tonumber(bucket[1] or burst) + math.max(0, now - tonumber(bucket[2] or now)) * rate)
local wait = 0
if tokens >= cost then tokens = tokens - cost else wait = (cost - tokens) / rate end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('EXPIRE', KEYS[1], math.ceil(burst / rate) + 1)
return tostring(wait)
"""

# After a failure Redis is left alone for so long: a server that hangs must not delay every request.
_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """The calls that are allowed each second in the long run, and at once."""

    name: str
    per_s: float
    burst: int


SUBMIT = Bucket("submit", per_s=200, burst=2000)
# Each leaves a row and an entry in the audit log.
SHELL = Bucket("shell", per_s=0.5, burst=30)
# Each is looked through, which takes the interpreter up to a few seconds.
UPLOAD = Bucket("upload", per_s=0.5, burst=60)

# Guessing the current password is slow, mistyping it a few times is not.
PASSWORD = Bucket("password", per_s=0.2, burst=10)


class _Health:
    broken_until: float = 0.0


def take(bucket: Bucket, whose: str | int, *, cost: int = 1) -> None:
    """Return if the caller may go on, and raise `TooMany` with the time to wait if not."""
    if time.monotonic() < _Health.broken_until:
        return
    try:
        answer = client().eval(_TAKE, 1, _key(bucket, whose), bucket.per_s, bucket.burst, cost)
    except redis.RedisError as error:
        _Health.broken_until = time.monotonic() + _PAUSE_S
        log.warning("limit_not_checked bucket=%s error=%s", bucket.name, error)
        return
    wait_s = float(cast(bytes, answer))
    if wait_s > 0:
        raise TooMany(
            f"at most {bucket.burst} at once and {bucket.per_s:g} a second", retry_after_s=max(1, math.ceil(wait_s))
        )


def _key(bucket: Bucket, whose: str | int) -> str:
    return f"muster:limit:{bucket.name}:{whose}"
