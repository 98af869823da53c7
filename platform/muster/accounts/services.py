"""Users and their passwords, API tokens and sessions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from muster.accounts.models import ApiToken, Session, User
from muster.accounts.scopes import Scope
from muster.accounts.uids import free_uid
from muster.common.errors import Conflict, Invalid, NotFound
from muster.common.models import DatabaseNow
from muster.common.rows import Whole, require_first
from muster.common.secrets import digest, new_secret
from muster.common.statements import Statement
from muster.common.validation import has_parent_part, invalid_from, require_valid
from muster.events.services import access_changed, audit

log = logging.getLogger(__name__)

MAX_TOKEN_LIFETIME = timedelta(days=366)
DEFAULT_TOKEN_LIFE = timedelta(days=30)
DEFAULT_SCOPES = (Scope.READ, Scope.SUBMIT)
USE_RECORDED_EVERY = timedelta(minutes=1)


def create_user(
    *, username: str, password: str, email: str = "", operator: bool = False, uid: int | None = None, actor: str
) -> User:
    """A new user; operators may enter the admin and see every tenant.

    `uid` None takes a free one from MUSTER_UID_RANGE.

    Raises:
        Invalid: for a field that cannot be used, among them a uid of a system account or of another user.
    """
    user = User(username=username, email=email, is_staff=operator, is_superuser=operator)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise invalid_from(error, field="password") from error
    user.set_password(password)
    with transaction.atomic():
        user.uid = free_uid() if uid is None else uid
        require_valid(user)
        user.save(force_insert=True)
        audit(
            "create", "user", username, actor=actor, after={"username": username, "operator": operator, "uid": user.uid}
        )
    return user


def change_email(*, user: User, current: str, email: str) -> None:
    """Set the address to which the user's mail goes, empty for none; `Invalid` if `current` is not the user's password,
    or `email` is no address."""
    if not user.check_password(current):
        raise Invalid.field("current", "it is not your current password")
    before, user.email = user.email, email
    require_valid(user)
    with transaction.atomic():
        user.save(update_fields=["email"])
        audit("change", "user", user.username, actor=user.username, before={"email": before}, after={"email": email})


def change_password(*, user: User, current: str, new: str) -> None:
    """Set the user's password. Their sessions end, and their tokens but for those that are marked to survive it.

    Raises:
        Invalid: `current` is not the user's password, or `new` is too weak or the same.
    """
    if not user.check_password(current):
        raise Invalid.field("current", "it is not your current password")
    if new == current:
        raise Invalid.field("new", "it is your current password; write another one")
    try:
        validate_password(new, user)
    except ValidationError as error:
        raise Invalid.field("new", " ".join(error.messages)) from error
    with transaction.atomic():
        user.set_password(new)
        user.save(update_fields=["password"])
        audit("set_password", "user", user.username, actor=user.username)
        end_by_new_password(user=user, actor=user.username)


def end_by_new_password(*, user: User, actor: str) -> None:
    """Revoke the user's tokens that do not survive a new password, and end the open calls of their sessions."""
    tokens = ApiToken.objects.filter(user=user, revoked_at__isnull=True, survives_password_change=False)
    for token_id in list(tokens.values_list("pk", flat=True)):
        revoke_token(user=user, token_id=token_id, actor=actor)
    access_changed()


def create_token(
    *,
    user: User,
    name: str,
    expires_in: timedelta | None = None,
    scopes: Collection[Scope] = DEFAULT_SCOPES,
    survives_password_change: bool = False,
    maker: ApiToken | None = None,
) -> tuple[ApiToken, str]:
    """A new token and its secret, which is stored nowhere and can be shown this once only.

    `maker` is the token that the request for the new one carries. The new one has no more scopes and no longer life;
    without `expires_in` it lives for 30 days, or as long as its maker.

    Raises:
        Invalid: a field is wrong, or asks for more than the maker has.
        Conflict: the user has a live token with this name.
    """
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable() or has_parent_part(name):
        raise Invalid.field(
            "name", "give the token a name of 1 to 100 printable characters without `..` between slashes"
        )
    if expires_in is not None and not timedelta(0) < expires_in <= MAX_TOKEN_LIFETIME:
        raise Invalid.field("expires_in", f"it must be between 1s and {MAX_TOKEN_LIFETIME.days}d")
    expires_at = timezone.now() + (expires_in or DEFAULT_TOKEN_LIFE)
    chosen = [scope for scope in Scope if scope in {Scope.READ, *scopes}]
    if maker is not None:
        if expires_in is None:
            expires_at = min(expires_at, maker.expires_at)
        _require_within(maker, expires_at=expires_at, scopes=chosen, survives=survives_password_change)
    secret = new_secret("mst")
    try:
        with transaction.atomic():
            token = ApiToken.objects.create(
                user=user,
                name=name,
                prefix=secret[:8],
                digest=digest(secret),
                expires_at=expires_at,
                scopes=chosen,
                survives_password_change=survives_password_change,
            )
            after = {"name": name, "scopes": chosen, "survives_password_change": survives_password_change}
            audit("create", "token", token.pk, actor=user.username, after=after)
    except IntegrityError as error:
        raise Conflict(f"you have a token called {name!r} already; revoke it or take another name") from error
    token.refresh_from_db()
    return token, secret


def _require_within(maker: ApiToken, *, expires_at: datetime, scopes: Sequence[Scope], survives: bool) -> None:
    """Return if a token that `maker` makes may have this, and raise `Invalid` if it is more than the maker has."""
    more = [scope for scope in scopes if scope not in maker.scopes]
    if more:
        raise Invalid.field("scopes", f"the token that you use lacks {', '.join(more)}; leave it out or sign in")
    if expires_at > maker.expires_at:
        left = maker.expires_at.isoformat(timespec="seconds")
        raise Invalid.field("expires_in", f"the token that you use ends at {left}; a token made by it ends no later")
    if survives and not maker.survives_password_change:
        raise Invalid.field("survives_password_change", "the token that you use ends with the password; sign in")


def set_token_survival(*, user: User, token_id: int, survives: bool) -> ApiToken:
    """Set whether one of the user's tokens stays when their password changes, and return it; `NotFound` if they have no
    live token with this id."""
    with transaction.atomic():
        live = ApiToken.objects.filter(pk=token_id, user=user, revoked_at__isnull=True)
        token = require_first(live.select_for_update(), "there is no such token")
        if token.survives_password_change != survives:
            live.update(survives_password_change=survives)
            audit(
                "edit",
                "token",
                token_id,
                actor=user.username,
                before={"survives_password_change": not survives},
                after={"survives_password_change": survives},
            )
            token.survives_password_change = survives
    return token


def revoke_token(*, user: User, token_id: int, actor: str | None = None) -> None:
    """End one of the user's tokens; the actor is the user, unless an operator does it."""
    with transaction.atomic():
        ended = ApiToken.objects.filter(pk=token_id, user=user, revoked_at__isnull=True).update(
            revoked_at=DatabaseNow()
        )
        if not ended:
            raise NotFound("there is no such token")
        audit("revoke", "token", token_id, actor=actor or user.username)
        access_changed()


def end_session(*, user: User, session_id: int) -> None:
    """End one of the user's sessions, and its open calls; `NotFound` if the user has no session with this id."""
    if not _end_sessions(Session.objects.filter(pk=session_id, user=user), user):
        raise NotFound("there is no such session")


def end_other_sessions(*, user: User, session_key: str | None) -> None:
    """End all sessions of the user, and their open calls, except the session with this key; None excepts no session."""
    _end_sessions(Session.objects.filter(user=user).exclude(key_digest=digest(session_key or "")), user)


def _end_sessions(sessions: QuerySet[Session], user: User) -> int:
    with transaction.atomic():
        ids = list(sessions.select_for_update().order_by("pk").values_list("pk", flat=True))
        for session_id in ids:
            audit("end", "session", session_id, actor=user.username)
        Session.objects.filter(pk__in=ids).delete()
        access_changed()
    return len(ids)


def user_of_token(secret: str) -> User | None:
    """The active user whose live token this is, or None."""
    token = token_of_secret(secret)
    return token.user if token else None


_TOKEN, _OWNER = Whole(ApiToken, alias="token"), Whole(User, alias="owner")
_LIVE_TOKEN = Statement(
    f"SELECT {_TOKEN.columns}, {_OWNER.columns}"  # noqa: S608 (the models' own columns)
    " FROM accounts_apitoken token JOIN accounts_user owner ON owner.id = token.user_id"
    " WHERE token.digest = %s AND token.revoked_at IS NULL AND token.expires_at > clock_timestamp()"
    " AND owner.is_active"
)


def token_of_secret(secret: str) -> ApiToken | None:
    """The live token of an active user with this secret, or None."""
    rows = _LIVE_TOKEN.rows(digest(secret))
    if not rows:
        return None
    values = iter(rows[0])
    token = _TOKEN.take(values)
    token.user = _OWNER.take(values)
    now = timezone.now()
    # Once a minute is enough to find unused tokens, and keeps a write out of nearly every request.
    if token.last_used_at is None or now - token.last_used_at > USE_RECORDED_EVERY:
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - USE_RECORDED_EVERY)
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    return token
