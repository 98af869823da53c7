"""Keys that clients send with a submission, so that sending it again stores nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TypeVar

from django.db import IntegrityError

from muster.accounts.models import User
from muster.common.errors import Conflict, Invalid
from muster.common.rows import Whole
from muster.common.statements import Statement
from muster.jobs.models import IdempotencyKey

T = TypeVar("T")

_KEY = Whole(IdempotencyKey, alias="known")
_KNOWN = Statement(
    f"SELECT {_KEY.columns} FROM jobs_idempotencykey known"  # noqa: S608 (the model's own columns)
    " WHERE known.owner_id = %s AND known.key = %s"
)


def once(
    *,
    user: User,
    key: str | None,
    data: object,
    store: Callable[[Callable[..., object]], T],
    known: Callable[[IdempotencyKey], T],
) -> tuple[T, bool]:
    """The object that `store` has stored and True; for data that was sent before with this key, the one that `known`
    finds and False.

    Within its transaction `store` calls its argument with the columns of the key's row by which `known` finds it.

    Raises:
        Invalid: it cannot be a key.
        Conflict: the key was sent with other data.
    """
    if key is None:
        return store(lambda **_: None), True
    digest = check_key(key, data)
    before = known_key(user, key, digest)
    if before is not None:
        return known(before), False
    try:
        return store(
            lambda **columns: IdempotencyKey.objects.create(owner=user, key=key, body_digest=digest, **columns)
        ), True
    except IntegrityError:
        # The same request was sent twice at once, and the other one was first.
        before = known_key(user, key, digest)
        if before is None:
            raise
        return known(before), False


def check_key(key: str, data: object) -> str:
    """The digest of what is submitted; `Invalid` if the key cannot be one."""
    if not (0 < len(key) <= 200 and key.isprintable()):
        raise Invalid.field("Idempotency-Key", "send 1 to 200 printable characters")
    # Compared after parsing: a retry may well write the same spec with other spacing.
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


def known_key(user: User, key: str, digest: str) -> IdempotencyKey | None:
    """The row stored for the key; raises `Conflict` if it was for other data."""
    rows = _KNOWN.rows(user.pk, key)
    known = _KEY.take(iter(rows[0])) if rows else None
    if known and known.body_digest != digest:
        raise Conflict("this Idempotency-Key was used with another body")
    return known
