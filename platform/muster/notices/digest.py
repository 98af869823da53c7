"""The digest of a week: how many jobs ended how, their GPU-hours, and what they failed of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, Sum
from django.utils import timezone

from muster.accounts.models import User
from muster.jobs.models import Job
from muster.notices.mails import can_have_mail, store_mail
from muster.notices.models import Preferences
from muster.notices.preferences import monday_of
from muster.notices.wording import NO_SIGNATURE, footer, one_line
from scheduler.model.lifecycle import JOB_TERMINAL, JobState

WEEK = timedelta(days=7)
SENT_FROM = time(hour=6, tzinfo=UTC)
"""On Mondays: when the people of most places start to read."""
MAX_CLASSES = 10


@dataclass(frozen=True, slots=True)
class Week:
    """The results of a user's jobs in the week from a Monday."""

    monday: date
    submitted: int
    ended: dict[str, int]
    gpu_h: float
    failures: list[tuple[str, int]]
    """Classes of failure and how many jobs ended so, the most frequent first."""


def send_digests(*, now: datetime | None = None) -> int:
    """Store the digest of the last week for each user who wants one and has not had it, and return how many."""
    now = now or timezone.now()
    this_monday = monday_of(now)
    if now < datetime.combine(this_monday, SENT_FROM):
        return 0
    due = Preferences.objects.filter(weekly_digest=True).exclude(digest_through__gte=this_monday).order_by("pk")
    sent = 0
    for user_id in list(due.values_list("pk", flat=True)):
        sent += _send(user_id, this_monday)
    return sent


def week_of(user: User, monday: date) -> Week:
    """The user's week that begins on that Monday. The GPU-hours are those of jobs that ended in it."""
    begin = datetime.combine(monday, time(tzinfo=UTC))
    within = Q(ended_at__gte=begin, ended_at__lt=begin + WEEK)
    jobs = Job.objects.filter(owner=user)
    ended = jobs.filter(within, state__in=JOB_TERMINAL)
    failed = Counter(_cause(job) for job in ended.filter(state=JobState.FAILED))
    return Week(
        monday=monday,
        submitted=jobs.filter(submitted_at__gte=begin, submitted_at__lt=begin + WEEK).count(),
        ended=dict(Counter(ended.values_list("state", flat=True))),
        gpu_h=(ended.aggregate(gpu_s=Sum("attained_gpu_s"))["gpu_s"] or 0.0) / 3600,
        failures=sorted(failed.items(), key=lambda item: (-item[1], item[0])),
    )


def text_of(week: Week, *, url: str) -> tuple[str, str]:
    """The subject and the body of the week's digest."""
    ended = sum(week.ended.values())
    lines = [
        f"Your week from {week.monday} to {week.monday + WEEK - timedelta(days=1)} (UTC).",
        "",
        f"Jobs submitted:   {week.submitted}",
        f"Jobs ended:       {ended}",
        *(f"  {state + ':':<16}{week.ended[state]}" for state in sorted(week.ended)),
        f"GPU-hours of these: {week.gpu_h:.1f}",
    ]
    if week.failures:
        lines += ["", "Failures by class:"]
        lines += [f"  {count:>6}  {name}" for name, count in week.failures[:MAX_CLASSES]]
        rest = week.failures[MAX_CLASSES:]
        if rest:
            lines.append(f"  {sum(count for _, count in rest):>6}  of {len(rest)} other classes")
    return f"Your week: {ended} jobs, {week.gpu_h:.1f} GPU-hours", "\n".join([*lines, "", f"{url}/jobs", footer(url)])


def _send(user_id: int, this_monday: date) -> bool:
    with transaction.atomic():
        # Of two workers one changes the row, and only that one sends.
        mine = Preferences.objects.filter(pk=user_id, weekly_digest=True).exclude(digest_through__gte=this_monday)
        if not mine.update(digest_through=this_monday):
            return False
        user = User.objects.get(pk=user_id)
        week = week_of(user, this_monday - WEEK)
        if not (week.submitted or week.ended) or not user.is_active or not can_have_mail(user):
            return False
        store_mail(user, *text_of(week, url=settings.PUBLIC_URL))
    return True


def _cause(job: Job) -> str:
    verdict = getattr(job, "failure", None)
    told = verdict.get("class") if isinstance(verdict, dict) else None
    return one_line(str((None if told == NO_SIGNATURE else told) or job.reason or NO_SIGNATURE), 60)
