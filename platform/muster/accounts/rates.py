"""Counters of attempts in Postgres, so that limits hold without a cache and over all web processes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection, transaction

from muster.accounts.models import RateLimit
from muster.common.errors import TooMany
from muster.common.models import DatabaseNow

# One attempt moves `drained_at` by %(every)s, unless it would then be more than `burst` attempts ahead of the clock.
_TAKE = """
INSERT INTO accounts_ratelimit AS bucket (key, drained_at) VALUES (%(key)s, clock_timestamp() + %(every)s)
ON CONFLICT (key) DO UPDATE SET drained_at = GREATEST(bucket.drained_at, clock_timestamp()) + %(every)s
WHERE GREATEST(bucket.drained_at, clock_timestamp()) + %(every)s <= clock_timestamp() + %(every)s * %(burst)s
RETURNING key
"""
_WAIT = """
SELECT extract(epoch FROM drained_at + %(every)s * (1 - %(burst)s) - clock_timestamp())::float8
FROM accounts_ratelimit WHERE key = %(key)s
"""
_GIVE_BACK = "UPDATE accounts_ratelimit SET drained_at = drained_at - %(every)s WHERE key = %(key)s"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `burst` attempts at once, and one more per `every`."""

    name: str
    burst: int
    every: timedelta


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter of a limit for one subject, such as a user or an address."""

    limit: Limit
    subject: str

    def parameters(self) -> dict[str, Any]:
        """The parameters of the statements above. The key is a digest: people type passwords as user names."""
        key = hashlib.sha256(f"{self.limit.name}\0{self.subject}".encode()).hexdigest()
        return {"key": key, "every": self.limit.every, "burst": self.limit.burst}


class Exceeded(TooMany):
    """A counter is full; `limit` says of which limit."""

    def __init__(self, limit: Limit, *, retry_after_s: int) -> None:
        super().__init__(f"Too many attempts. Try again in {in_words(retry_after_s)}.", retry_after_s=retry_after_s)
        self.limit = limit


def take(counters: Sequence[Counter]) -> None:
    """Count one attempt in all counters, or in none.

    Callers give the counters in one order of limits, so that two attempts never wait for each other's rows.

    Raises:
        Exceeded: one of the counters is full.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        for counter in counters:
            cursor.execute(_TAKE, counter.parameters())
            if cursor.fetchone() is None:
                cursor.execute(_WAIT, counter.parameters())
                row = cursor.fetchone()
                raise Exceeded(counter.limit, retry_after_s=max(1, math.ceil(row[0] if row else 0)))


def give_back(counters: Sequence[Counter]) -> None:
    """Take one attempt out of each counter again."""
    with transaction.atomic(), connection.cursor() as cursor:
        for counter in counters:
            cursor.execute(_GIVE_BACK, counter.parameters())


def remove_drained() -> int:
    """Remove counters that count nothing any more; returns how many."""
    return RateLimit.objects.filter(drained_at__lt=DatabaseNow()).delete()[0]


def in_words(seconds: int) -> str:
    """The time as a person would say it, in whole minutes from two minutes on."""
    if seconds < 120:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    return f"{math.ceil(seconds / 60)} minutes"
