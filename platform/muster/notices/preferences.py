"""The notices that a user wants, by channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from muster.accounts.models import User
from muster.common.errors import Invalid
from muster.jobs.spec.notify import Channel, Kind, read_kinds
from muster.notices.models import Preferences


@dataclass(frozen=True, slots=True)
class Choice:
    """The kinds that go over each channel, and whether there is a digest each week."""

    mail: frozenset[str]
    webhook: frozenset[str]
    weekly_digest: bool = False

    def of(self, channel: Channel) -> frozenset[str]:
        """The kinds that go over this channel."""
        return self.mail if channel is Channel.MAIL else self.webhook


# A webhook gets all kinds by default, because its owner asked for it; mail gets the important ones.
DEFAULT = Choice(mail=frozenset({Kind.FAILED, Kind.ADVICE, Kind.IDLE, Kind.KEPT}), webhook=frozenset(Kind))


def choice_of(user: User) -> Choice:
    """The user's choice, or the default."""
    return choices_of([user.pk]).get(user.pk, DEFAULT)


def choices_of(user_ids: Iterable[int]) -> dict[int, Choice]:
    """The choices of these users; users without one are left out."""
    rows = Preferences.objects.filter(pk__in=list(user_ids))
    return {row.pk: Choice(frozenset(row.mail), frozenset(row.webhook), row.weekly_digest) for row in rows}


def choice_in_spec(choice: Choice, stored: Mapping[str, Any] | None) -> Choice:
    """The choice for one job: its spec's `notify` if it has one, else the user's."""
    if not stored:
        return choice
    return replace(choice, mail=frozenset(stored.get("mail", ())), webhook=frozenset(stored.get("webhook", ())))


def choose(*, user: User, changes: Mapping[str, Any]) -> Choice:
    """The user's choice with these changes: lists of kinds as `mail` and `webhook`, and `weekly_digest`."""
    read: dict[str, Any] = {}
    for channel in Channel:
        if channel.value in changes:
            try:
                read[channel.value] = read_kinds(changes[channel.value])
            except ValueError as error:
                raise Invalid.field(channel.value, str(error)) from error
    with transaction.atomic():
        default = {"mail": ordered(DEFAULT.mail), "webhook": ordered(DEFAULT.webhook)}
        Preferences.objects.get_or_create(user=user, defaults=default)
        row = Preferences.objects.select_for_update(no_key=True).get(pk=user.pk)
        if "weekly_digest" in changes:
            read["weekly_digest"] = bool(changes["weekly_digest"])
            if read["weekly_digest"] and not row.weekly_digest:
                # The first digest is that of the week in which it was asked for.
                read["digest_through"] = monday_of(timezone.now())
        if read:
            Preferences.objects.filter(pk=user.pk).update(**read)
    return choice_of(user)


def monday_of(moment: datetime) -> date:
    """The Monday of the week that the moment lies in, by UTC."""
    day = moment.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def ordered(kinds: Iterable[str]) -> list[str]:
    """The kinds in the order of their list."""
    named = set(kinds)
    return [kind.value for kind in Kind if kind in named]
