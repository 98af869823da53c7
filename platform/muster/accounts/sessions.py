"""The store of browser sessions, for Django's SESSION_ENGINE: rows that hold no usable key and end when unused."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import CreateError, SessionBase, UpdateError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from muster.accounts.models import Session
from muster.common.rows import first_of
from muster.common.secrets import digest
from muster.events.services import access_changed

USE_RECORDED_EVERY = timedelta(minutes=1)


class SessionStore(SessionBase):
    """One session. Its key is in the browser's cookie, and the digest of the key in the table."""

    def load(self) -> dict[str, Any]:
        """The session's data; empty if it does not exist, has expired, or was not used for SESSION_IDLE."""
        row = first_of(unexpired_sessions().filter(key_digest=digest(self.session_key or "")))
        if row is None:
            self._session_key = None
            return {}
        now = timezone.now()
        if now - row.last_used_at > USE_RECORDED_EVERY:
            self._rows().update(last_used_at=now)
        return self.decode(row.data)

    def exists(self, session_key: str) -> bool:
        """Whether a session has this key."""
        return Session.objects.filter(key_digest=digest(session_key)).exists()

    def create(self) -> None:
        """Store an empty session under a new key."""
        self._session_key = self._get_new_session_key()  # type: ignore[attr-defined]
        self.save(must_create=True)
        self.modified = True

    def save(self, must_create: bool = False) -> None:
        """Store the session.

        Raises:
            CreateError: `must_create`, and the key is taken.
            UpdateError: the session was ended meanwhile.
        """
        if self.session_key is None:
            return self.create()
        data = self._get_session(no_load=must_create)  # type: ignore[attr-defined]
        columns = {
            "user_id": data.get(SESSION_KEY),
            "data": self.encode(data),
            "last_used_at": timezone.now(),
            "expires_at": self.get_expiry_date(),
            "address": data.get("address"),
            "user_agent": data.get("user_agent", ""),
        }
        if must_create:
            try:
                with transaction.atomic():
                    Session.objects.create(key_digest=digest(self.session_key), **columns)
            except IntegrityError as error:
                raise CreateError from error
        elif not self._rows().update(**columns):
            raise UpdateError
        return None

    def delete(self, session_key: str | None = None) -> None:
        """End the session with this key, or this one, and its open calls."""
        key = session_key or self.session_key
        if key is not None and Session.objects.filter(key_digest=digest(key)).delete()[0]:
            access_changed()

    def _rows(self) -> QuerySet[Session]:
        return Session.objects.filter(key_digest=digest(self.session_key or ""))


def contents_of(session_keys: Collection[str]) -> dict[str, dict[str, Any]]:
    """The data of those of the sessions that have not ended, by their keys; this is no use of them."""
    keys = {digest(key): key for key in session_keys}
    rows = unexpired_sessions().filter(key_digest__in=keys).values_list("key_digest", "data") if keys else ()
    return {keys[found]: SessionStore().decode(data) for found, data in rows}


def remove_ended() -> int:
    """Remove sessions that have expired or were not used for SESSION_IDLE; returns how many."""
    return Session.objects.exclude(pk__in=unexpired_sessions().values("pk")).delete()[0]


def unexpired_sessions() -> QuerySet[Session]:
    """The sessions that have not expired and were used within SESSION_IDLE."""
    now = timezone.now()
    return Session.objects.filter(expires_at__gt=now, last_used_at__gt=now - settings.SESSION_IDLE)
