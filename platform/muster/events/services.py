"""Writing events, audit rows and outbox rows, and waking those who act on them once the transaction has committed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypedDict

import orjson
import redis
from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from kombu.exceptions import KombuError

from muster.common.client_address import current_address
from muster.common.statements import Statement
from muster.events.models import AuditEntry, Outbox
from muster.events.redis import ACCESS_CHANNEL, EVENTS_CHANNEL, client, node_channel, publish

log = logging.getLogger(__name__)

HINT_LIFETIME_S = 5

# A cycle may tell of ten thousand jobs, and for Django to put together as many rows took ten times as long as for
# Postgres to store them. The rows get their ids in the order in which the events were recorded.
STORE_EVENTS = """
INSERT INTO events_event (tx, at, kind, actor, tenant_id, job_id, node_id, data)
SELECT pg_current_xact_id()::text::bigint, clock_timestamp(), kind, actor, tenant_id, job_id, node_id, data
FROM ROWS FROM (jsonb_to_recordset(%s) AS (
    kind text, actor text, tenant_id bigint, job_id bigint, node_id bigint, data jsonb
)) WITH ORDINALITY AS told(kind, actor, tenant_id, job_id, node_id, data, place)
ORDER BY place
"""
_STORE = Statement(STORE_EVENTS)


class _Told(TypedDict):
    """An event that is not stored yet."""

    kind: str
    actor: str
    tenant_id: int | None
    job_id: int | None
    node_id: int | None
    data: dict[str, Any]


_together: ContextVar[list[_Told] | None] = ContextVar("events_together", default=None)


def record(
    kind: str,
    *,
    actor: str,
    tenant_id: int | None = None,
    job_id: int | None = None,
    node_id: int | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    """Store an event in the running transaction, and announce it when that commits."""
    told = _Told(kind=kind, actor=actor, tenant_id=tenant_id, job_id=job_id, node_id=node_id, data=data or {})
    gathered = _together.get()
    if gathered is None:
        _store([told])
    else:
        gathered.append(told)


@contextmanager
def recorded_together() -> Iterator[None]:
    """Within it, events are gathered and stored in one statement at its end; inside a transaction of the caller's."""
    outer = _together.get()
    if outer is not None:
        before = [*outer]
        try:
            yield
        except BaseException:
            outer[:] = before  # what was stored within is rolled back
            raise
        return
    gathered: list[_Told] = []
    token = _together.set(gathered)
    try:
        yield
    finally:
        _together.reset(token)
    if gathered:
        _store(gathered)


def recorded_so_far() -> str | None:
    """The events that `recorded_together` has gathered, from here on the caller's, for a statement that has
    `STORE_EVENTS` in it; None: none."""
    gathered = _together.get()
    if not gathered:
        return None
    text = _text_of(gathered)
    gathered.clear()
    _announce_once()
    return text


def audit(
    action: str,
    object_type: str,
    object_id: object,
    *,
    actor: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    address: str | None = None,
) -> None:
    """Store who did what to which object and from where, in the transaction that does it.

    `address` is the client's IP address; without it, that of the Django request that is being served.
    """
    AuditEntry.objects.create(
        actor=actor,
        action=action,
        object_type=object_type,
        object_id=str(object_id),
        before=before,
        after=after,
        address=address or current_address(),
    )


def wake_pool(pool_id: int) -> None:
    """Ask for a scheduling cycle of the pool once the transaction has committed.

    A burst asks once: the first sets a key, and the cycle removes it before it takes its snapshot.
    """
    transaction.on_commit(lambda: _send_hint(pool_id))


def wake_group(group_id: int) -> None:
    """Have the job group looked after once the transaction has committed; a hint that is lost costs a few seconds."""
    transaction.on_commit(lambda: _send_group_hint(group_id))


def wake_node(node_id: int) -> None:
    """Tell the node's agent that its desired set changed, once the transaction has committed."""
    transaction.on_commit(lambda: publish(node_channel(node_id)))


def access_changed() -> None:
    """Have open streams recheck the access of their callers once the transaction has committed."""
    transaction.on_commit(lambda: publish(ACCESS_CHANNEL))


def forget_hint(pool_id: int) -> None:
    """Let the next change of the pool send a hint again; called before a cycle takes its snapshot."""
    try:
        client().delete(_hint_key(pool_id))
    except redis.RedisError as error:
        log.warning("hint_not_deleted pool=%s error=%s", pool_id, error)


def mail_operators(*, subject: str, body: str) -> None:
    """Store a mail to the operators in the running transaction; nothing is stored where no mail is set up."""
    if settings.OPERATORS_MAIL:
        Outbox.objects.create(topic="mail", payload={"to": settings.OPERATORS_MAIL, "subject": subject, "body": body})


def ask_for_cycle(*args: int) -> None:
    """Ask for a cycle of a pool, or of one of its planners; a request that is lost costs one sweep."""
    with _may_be_lost("cycle", args[0]):
        current_app.send_task(
            "dispatch.run_cycle", args=[*args], queue="schedule", retry=False, expires=HINT_LIFETIME_S * 2
        )


def _send_hint(pool_id: int) -> None:
    with _may_be_lost("hint", pool_id):
        if client().set(_hint_key(pool_id), "1", nx=True, ex=HINT_LIFETIME_S):
            ask_for_cycle(pool_id)


def _send_group_hint(group_id: int) -> None:
    with _may_be_lost("group_hint", group_id):
        current_app.send_task("sweeps.look_at", args=[group_id], retry=False, expires=HINT_LIFETIME_S)


@contextmanager
def _may_be_lost(what: str, about: int) -> Iterator[None]:
    """Logs what could not be sent: sweeps of the workers find the change by themselves, only the delay grows."""
    try:
        yield
    except (redis.RedisError, OSError, KombuError) as error:
        log.warning("%s_not_sent id=%s error=%s", what, about, error)


def _hint_key(pool_id: int) -> str:
    return f"muster:hint:{pool_id}"


def _store(events: Sequence[_Told]) -> None:
    _STORE.run(_text_of(events))
    _announce_once()


def _text_of(events: Sequence[_Told]) -> str:
    return orjson.dumps(events, option=orjson.OPT_NON_STR_KEYS).decode()


def _announce_once() -> None:
    """One message for all events of a transaction."""
    if not any(_announce in entry for entry in connection.run_on_commit):
        transaction.on_commit(_announce)


def _announce() -> None:
    publish(EVENTS_CHANNEL)
