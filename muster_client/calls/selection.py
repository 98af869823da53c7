"""The selection of jobs for a list, a count or a cancellation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster_client.answers.terms import JsonObject


def selection(
    *,
    state: Sequence[str] = (),
    vc: str | None = None,
    owner: str | None = None,
    tenant: str | None = None,
    tag: Sequence[str] = (),
    search: str | None = None,
    mine: bool = False,
    group: int | None = None,
    members: bool | None = None,
) -> JsonObject:
    """Return the given conditions as fields of a query or a body: any of the states, all of the tags (key:value).

    `members=False` is for lists: one row for each group in the place of its members.
    """
    given = {
        "state": list(state),
        "vc": vc,
        "owner": owner,
        "tenant": tenant,
        "tag": list(tag),
        "search": search,
        "mine": mine or None,
        "group": group,
        "members": members,
    }
    return {name: value for name, value in given.items() if value is not None and value != []}
