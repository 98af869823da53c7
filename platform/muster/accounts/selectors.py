"""Tokens and sessions that are alive."""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.utils.crypto import constant_time_compare

from muster.accounts.models import ApiToken, Session, User
from muster.accounts.sessions import SessionStore, contents_of, unexpired_sessions
from muster.common.models import DatabaseNow


def live_tokens(token_ids: Collection[int]) -> set[int]:
    """Those of the tokens that are neither revoked nor expired."""
    if not token_ids:
        return set()
    tokens = ApiToken.objects.filter(pk__in=token_ids, revoked_at__isnull=True, expires_at__gt=DatabaseNow())
    return set(tokens.values_list("pk", flat=True))


def live_sessions(session_keys: Collection[str]) -> set[str]:
    """Those of the sessions that are not ended, and were begun with the current password of their user."""
    contents = contents_of(session_keys)
    users = User.objects.only("password").in_bulk(
        {int(content[SESSION_KEY]) for content in contents.values() if SESSION_KEY in content}
    )
    hashes = {str(user.pk): user.get_session_auth_hash() for user in users.values()}
    return {
        key
        for key, content in contents.items()
        if constant_time_compare(content.get(HASH_SESSION_KEY, ""), hashes.get(content.get(SESSION_KEY, ""), "-"))
    }


def sessions_of(user: User) -> list[Session]:
    """The user's sessions that were begun with the current password and have not ended, the last used first."""
    auth_hash = user.get_session_auth_hash()
    return [
        session
        for session in unexpired_sessions().filter(user=user).order_by("-last_used_at", "-pk")
        if constant_time_compare(SessionStore().decode(session.data).get(HASH_SESSION_KEY, ""), auth_hash)
    ]
