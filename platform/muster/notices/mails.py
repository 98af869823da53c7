"""Mail to users: limited per hour, with like notices counted in one mail and the rest collected in another."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Count, Max, Min
from django.utils import timezone

from muster.accounts.models import User
from muster.events.models import Outbox
from muster.notices.models import Notice
from muster.notices.wording import MAX_JOBS_NAMED, Group, Story, gathered, signature_of, subject_of, text_of

log = logging.getLogger(__name__)

WINDOW = timedelta(hours=1)
ALIKE_FOR = timedelta(days=1)
GIVEN_UP_AFTER = timedelta(days=3)
KEPT_FOR = timedelta(days=2)
MAX_GROUPS = 50


@dataclass(frozen=True, slots=True)
class Told:
    """Something that a user is to be told by mail."""

    user: User
    story: Story


def can_have_mail(user: User) -> bool:
    """Whether mail reaches the user: the platform has a mail server, and the user an address."""
    return not why_no_mail(user)


def why_no_mail(user: User) -> str:
    """The reason why the user gets no mail; empty if they do."""
    if not settings.MAIL_TO_USERS:
        return "E-mail is not set up here. Ask an operator."
    try:
        validate_email(user.email)
    except ValidationError:
        return "Your account has no valid e-mail address. Ask an operator to enter one."
    return ""


def tell(told: Sequence[Told], *, now: datetime) -> None:
    """Store a mail for each, or a line for a later one. Inside the transaction of the one reader of events.

    1. A failure that is like one that the user was told of within a day is counted, and told a day after that one.
    2. Who has had as many mails within an hour as are allowed gets the rest an hour later in one.
    3. Anything else is a mail at once.
    """
    users = {one.user.pk for one in told}
    mails = _mails_within_the_hour(users, now)
    alike = _told_alike(users, {signature_of(one.story) for one in told} - {""}, now)
    waits_until = _waiting(users, now)
    notices = []
    for one in told:
        user, story, signature = one.user, one.story, signature_of(one.story)
        notice = Notice(
            user=user,
            at=now,
            kind=story.kind,
            job_id=story.job_id,
            subject=subject_of(story),
            line=story.line if signature else "",
            signature=signature,
        )
        if signature and (user.pk, signature) in alike:
            notice.due_at = alike[user.pk, signature] + ALIKE_FOR
        elif mails.get(user.pk, 0) >= settings.MAILS_PER_HOUR:
            notice.due_at = waits_until.setdefault(user.pk, now + WINDOW)
            if signature:
                alike[user.pk, signature] = notice.due_at - ALIKE_FOR
        else:
            notice.mail_id = store_mail(user, notice.subject, text_of(story, url=settings.PUBLIC_URL))
            notice.told_at = now
            mails[user.pk] = mails.get(user.pk, 0) + 1
            if signature:
                alike[user.pk, signature] = now
        notices.append(notice)
    Notice.objects.bulk_create(notices, batch_size=500)


def store_mail(user: User, subject: str, body: str) -> uuid.UUID:
    """A mail to the user in the outbox of the running transaction, and its id."""
    mail_id = uuid.uuid4()
    payload = {
        "to": [user.email],
        "subject": f"[Muster] {subject}",
        "body": body,
        "id": f"<{mail_id}@{urlsplit(settings.PUBLIC_URL).hostname or 'muster'}>",
    }
    Outbox.objects.create(topic="mail", payload=payload, give_up_at=timezone.now() + GIVEN_UP_AFTER)
    return mail_id


def gather(*, now: datetime | None = None) -> int:
    """Send each user what was waiting for now in one mail, and return how many mails that are."""
    now = now or timezone.now()
    users = Notice.objects.filter(due_at__lte=now).order_by().values_list("user_id", flat=True).distinct()
    return sum(_gather_for(user_id, now) for user_id in list(users))


def forget_told(*, now: datetime | None = None) -> int:
    """Remove notices that decide nothing any more, and return how many."""
    before = (now or timezone.now()) - KEPT_FOR
    return Notice.objects.filter(told_at__lt=before).delete()[0]


def _gather_for(user_id: int, now: datetime) -> bool:
    with transaction.atomic():
        user = User.objects.get(pk=user_id)
        rows = Notice.objects.filter(user_id=user_id, due_at__lte=now)
        # The user's rows are taken by one at a time: who comes second finds none.
        ids = list(rows.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
        if not ids:
            return False
        taken = Notice.objects.filter(pk__in=ids)
        mail_id = uuid.uuid4()
        if user.is_active and can_have_mail(user):
            mail_id = store_mail(user, *gathered(_groups(ids), count=len(ids), url=settings.PUBLIC_URL))
        taken.update(told_at=now, due_at=None, mail_id=mail_id)
    return True


def _groups(ids: Sequence[int]) -> list[Group]:
    """The notices by what they have in common, those that are most first."""
    found = (
        Notice.objects.filter(pk__in=ids)
        .values("kind", "signature")
        .annotate(count=Count("pk"), first=Min("pk"), last=Max("pk"))
        .order_by("-count", "first")
    )
    shown = list(found[:MAX_GROUPS])
    firsts = Notice.objects.in_bulk([row["first"] for row in shown])
    groups = []
    for row in shown:
        same = Notice.objects.filter(pk__in=ids, kind=row["kind"], signature=row["signature"]).order_by("pk")
        jobs = list(same.values_list("job_id", flat=True)[:MAX_JOBS_NAMED])
        first = firsts[row["first"]]
        groups.append(Group(row["count"], first.subject, first.line, jobs, bool(row["signature"])))
    return groups


def _mails_within_the_hour(users: set[int], now: datetime) -> dict[int, int]:
    rows = Notice.objects.filter(user_id__in=users, told_at__gt=now - WINDOW).order_by()
    counted = rows.values("user_id").annotate(mails=Count("mail_id", distinct=True))
    return {row["user_id"]: row["mails"] for row in counted}


def _told_alike(users: set[int], signatures: set[str], now: datetime) -> dict[tuple[int, str], datetime]:
    """The time at which the user was first notified of each signature within the last day, or will be."""
    rows = Notice.objects.filter(user_id__in=users, signature__in=signatures).order_by()
    told = rows.filter(told_at__gt=now - ALIKE_FOR).values("user_id", "signature").annotate(at=Max("told_at"))
    found = {(row["user_id"], row["signature"]): row["at"] for row in told}
    # What waits is told when the first of it is due; what is like it joins it.
    waiting = rows.filter(due_at__isnull=False).values("user_id", "signature").annotate(at=Min("due_at"))
    return found | {(row["user_id"], row["signature"]): row["at"] - ALIKE_FOR for row in waiting}


def _waiting(users: set[int], now: datetime) -> dict[int, datetime]:
    """The time at which the next gathered mail of each user is due, if it is within the hour."""
    rows = Notice.objects.filter(user_id__in=users, due_at__gt=now, due_at__lte=now + WINDOW).order_by()
    return {row["user_id"]: row["at"] for row in rows.values("user_id").annotate(at=Min("due_at"))}
