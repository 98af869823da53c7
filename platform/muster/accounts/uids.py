"""The Unix ids of users' jobs: a free uid for each new user, and ids that no user may have."""

from __future__ import annotations

import pwd
from collections.abc import Collection
from itertools import chain

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import connection

from muster.common.errors import Invalid
from muster.events.models import Restore
from nodeagent.protocol.unixids import gids_problem, uid_problem

_LOCK = 7_185_102
"""The key of the advisory lock under which a transaction chooses a uid."""


def free_uid() -> int:
    """A uid for a user whom the running transaction stores, until whose end other callers wait; `Invalid` if
    MUSTER_UID_RANGE is exhausted."""
    users = get_user_model().objects
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    taken = set(users.values_list("uid", flat=True))
    # Users who were added after a backup and are lost had uids, too, and their files may be on the nodes.
    restored = Restore.objects.order_by("-pk").values_list("last_uid", flat=True).first()
    uid = next_uid(taken if restored is None else taken | {restored})
    if uid is None:
        first, last = settings.UID_RANGE[0], settings.UID_RANGE[-1]
        raise Invalid.field("uid", f"MUSTER_UID_RANGE {first}-{last} is exhausted: set a larger range, and restart")
    return uid


def next_uid(taken: Collection[int]) -> int | None:
    """The uid of MUSTER_UID_RANGE behind the highest one that is taken, else the lowest free one, else None.

    A uid that became free lies behind only when the range ends: files with it may still be on the nodes.
    """
    uids: range = settings.UID_RANGE
    behind: int = max((uid for uid in taken if uid in uids), default=uids[0] - 1) + 1
    accounts = {account.pw_uid for account in pwd.getpwall()}
    for uid in chain(range(behind, uids.stop), range(uids.start, behind)):
        if uid not in taken and uid not in accounts and not (uid_problem(uid) or gids_problem([uid])):
            return uid
    return None


def validate_uid(uid: int) -> None:
    """Raise `ValidationError` for a uid that no job may have."""
    problem = uid_problem(uid)
    if problem:
        raise ValidationError(problem)


def validate_gids(gids: object) -> None:
    """Raise `ValidationError` unless these are numbers of groups that a job may have."""
    if not isinstance(gids, list) or not all(type(gid) is int for gid in gids):
        raise ValidationError("Write a list of group numbers, such as [1000, 1001].")
    problem = gids_problem(gids)
    if problem:
        raise ValidationError(problem)
