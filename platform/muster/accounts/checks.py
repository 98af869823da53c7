"""Django's system checks of the settings for accounts."""

from __future__ import annotations

from django.conf import settings
from django.core.checks import CheckMessage, Error

from nodeagent.protocol.unixids import FIRST_ORDINARY_ID, MAX_ID, NOBODY_IDS


def check_uid_range(*_: object, **__: object) -> list[CheckMessage]:
    """An error if MUSTER_UID_RANGE has uids that no job may have."""
    uids: range = settings.UID_RANGE
    problems = [
        (uids[0] < FIRST_ORDINARY_ID, f"uids below {FIRST_ORDINARY_ID} belong to root and to system accounts"),
        (uids[-1] > MAX_ID, f"uids end at {MAX_ID}"),
        (any(uid in uids for uid in NOBODY_IDS), f"{NOBODY_IDS[0]} and {NOBODY_IDS[1]} are reserved"),
    ]
    return [
        Error(
            f"MUSTER_UID_RANGE is {uids[0]}-{uids[-1]}: {problem}.",
            hint="Choose uids that no account of the platform and of the nodes has, such as 70000-99999.",
            id="accounts.E001",
        )
        for applies, problem in problems
        if applies
    ]
