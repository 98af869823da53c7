"""Cursors of lists: opaque to clients, the key of the last row to us."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from django.db.models import QuerySet

from muster.common.errors import Invalid
from muster.common.rows import M, R

_MAX_KEY = (1 << 63) - 1


def encode_cursor(*key: int) -> str:
    """The cursor behind the row with this key."""
    return base64.urlsafe_b64encode("-".join(map(str, key)).encode()).decode().rstrip("=")


def page_of(rows: QuerySet[M, R], limit: int, key: Callable[[R], tuple[int, ...]]) -> tuple[list[R], str | None]:
    """The first `limit` of the rows, and if there are more the cursor behind the last of these, by its key."""
    found = list(rows[: limit + 1])
    page = found[:limit]
    return page, encode_cursor(*key(page[-1])) if len(found) > limit else None


def decode_cursor(cursor: str, *, parts: int = 1) -> tuple[int, ...]:
    """The key that a cursor stands for; `Invalid` if it is none of ours."""
    try:
        words = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode().split("-")
        key = tuple(int(word) for word in words if word.isascii() and word.isdigit())
    except (binascii.Error, ValueError) as error:
        raise _unknown() from error
    if len(key) != parts or len(words) != parts or max(key) > _MAX_KEY:
        raise _unknown()
    return key


def _unknown() -> Invalid:
    return Invalid.field("cursor", "take it from `next` of the page before")
