"""From events to notices, each exactly once; nothing that jobs do knows of notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone

from muster.events.models import Event, Outbox
from muster.events.reading import read_new
from muster.jobs.models import Attempt, Job, JobGroup
from muster.jobs.spec.notify import Channel, Kind
from muster.notices import mails
from muster.notices.grades import grades_of
from muster.notices.mails import Told, can_have_mail
from muster.notices.models import Reader, Webhook
from muster.notices.preferences import DEFAULT, choice_in_spec, choices_of
from muster.notices.webhooks import outbox_row
from muster.notices.wording import MAX_JOBS_NAMED, Grade, Story, document_of, idle_words, kept_words
from scheduler.diagnosis.screening import ScreeningVerdict
from scheduler.model.lifecycle import JOB_TERMINAL, GroupKind, JobState, Stage
from scheduler.model.reasons import Reason, reasons_where

BATCH = 500

_ENDS = {
    "job.succeeded": (Kind.ENDED, JobState.SUCCEEDED),
    "job.cancelled": (Kind.ENDED, JobState.CANCELLED),
    "job.failed": (Kind.FAILED, JobState.FAILED),
}
_ENDS_OF_ARRAYS = {kind.replace("job", GroupKind.ARRAY): end for kind, end in _ENDS.items()}
# A failed screening run is reported by the end of its job.
_VERDICTS = {
    f"job.screening_{verdict}": verdict for verdict in (ScreeningVerdict.PASSED, ScreeningVerdict.INCONCLUSIVE)
}
# Events of running jobs that their owners should know.
_ADVICE = {"job.advice", "job.log_rule"}
_BY_SWEEP = reasons_where(lambda meaning: meaning.by_sweep)
_WHILE_IT_RUNS = {"attempt.running": Kind.STARTED, "attempt.idle": Kind.IDLE, "attempt.kept": Kind.KEPT}
_KINDS_OF_EVENTS = ["job.queued", *_WHILE_IT_RUNS, *_ENDS, *_ENDS_OF_ARRAYS, *_VERDICTS, *_ADVICE]


def read_events(*, most: int = BATCH) -> int:
    """Store what has to be sent of up to `most` new events, and return how many there were; 0 if another worker
    reads."""
    return read_new(Reader, _KINDS_OF_EVENTS, _tell, most=most)


def kind_of(event: Event) -> Kind | None:
    """The kind of notice for an event; None if people are not told of it, such as of pauses in sweeps."""
    if event.data.get("reason") in _BY_SWEEP:
        return None
    if event.kind in _WHILE_IT_RUNS:
        return _WHILE_IT_RUNS[event.kind]
    if event.kind in _ENDS or event.kind in _ENDS_OF_ARRAYS:
        return (_ENDS | _ENDS_OF_ARRAYS)[event.kind][0]
    if event.kind in _VERDICTS:
        return Kind.SCREENING
    if event.kind in _ADVICE:
        return Kind.ADVICE if event.data.get("tells_owner", True) else None
    if event.kind != "job.queued" or event.data.get("from") != JobState.ACTIVE or _in_screening(event):
        return None
    reason = event.data.get("reason")
    if reason == Reason.REQUEUED_BY_USER:
        return None
    return Kind.PREEMPTED if reason == Reason.PREEMPTED else Kind.REQUEUED


def _names_of(event: Event, kind: Kind) -> set[Kind]:
    """The kinds of subscriptions that an event serves: a failure is also an end, and maybe a result of screening."""
    if kind is not Kind.FAILED:
        return {kind}
    return {kind, Kind.ENDED, Kind.SCREENING} if _in_screening(event) else {kind, Kind.ENDED}


def _in_screening(event: Event) -> bool:
    return bool(event.data.get("stage") == Stage.SCREENING)


def _tell(events: Sequence[Event]) -> None:
    """Write the outbox rows, and the notices of those whose mail has to wait."""
    found = [(event, kind) for event in events if (kind := kind_of(event)) is not None]
    jobs = Job.objects.select_related("owner", "vc", "tenant", "pool").in_bulk([event.job_id for event, _ in found])
    arrays = {event.data[GroupKind.ARRAY] for event, _ in found if event.kind in _ENDS_OF_ARRAYS}
    groups = JobGroup.objects.select_related("owner", "vc", "tenant").in_bulk(arrays) if arrays else {}
    attempts, firsts = _attempts(found), _first_starts(found, jobs)
    owners = {job.owner_id for job in jobs.values()} | {group.owner_id for group in groups.values()}
    choices = choices_of(owners)
    hooks: dict[int, list[int]] = {}
    enabled = Webhook.objects.filter(user_id__in=owners, disabled_at__isnull=True).order_by("pk")
    for user_id, webhook_id in enabled.values_list("user_id", "pk"):
        hooks.setdefault(user_id, []).append(webhook_id)
    ended = {event.job_id for event, _ in found if event.kind in _ENDS}
    grades = grades_of(sorted(pk for pk, job in jobs.items() if pk in ended and job.array_index is None))
    by_mail: list[Told] = []
    rows: list[Outbox] = []
    for event, kind in found:
        about = (
            groups.get(event.data[GroupKind.ARRAY]) if event.kind in _ENDS_OF_ARRAYS else jobs.get(event.job_id or 0)
        )
        if about is None or not about.owner.is_active:
            continue
        if isinstance(about, JobGroup):
            story = _story_of_array(event, kind, about)
        else:
            attempt = attempts.get((about.pk, _attempt_number(event)))
            if kind is Kind.STARTED and attempt is not None and attempt.stage == Stage.SCREENING:
                continue  # the job has not: it is tried
            # The array tells of the ends of all its members at once, and its first start is that of the array.
            if about.array_index is not None and (
                event.kind in _ENDS or (kind is Kind.STARTED and event not in firsts)
            ):
                continue
            story = _story(event, kind, about, attempt, grades.get(about.pk) if event.kind in _ENDS else None)
        names = _names_of(event, kind)
        wanted = choice_in_spec(choices.get(about.owner_id, DEFAULT), about.spec.get("notify"))
        if names & wanted.of(Channel.MAIL) and can_have_mail(about.owner):
            by_mail.append(Told(about.owner, story))
        if names & wanted.of(Channel.WEBHOOK):
            document = document_of(story, url=settings.PUBLIC_URL)
            rows += [outbox_row(webhook_id, document) for webhook_id in hooks.get(about.owner_id, [])]
    Outbox.objects.bulk_create(rows, batch_size=500)
    mails.tell(by_mail, now=timezone.now())


def _attempts(found: Sequence[tuple[Event, Kind]]) -> dict[tuple[int, int], Attempt]:
    named = {(event.job_id, _attempt_number(event)) for event, _ in found if event.job_id and _attempt_number(event)}
    wanted = Q()
    for job_id, number in named:
        wanted |= Q(job_id=job_id, number=number)
    return {(row.job_id, row.number): row for row in Attempt.objects.filter(wanted)} if named else {}


def _first_starts(found: Sequence[tuple[Event, Kind]], jobs: Mapping[int, Job]) -> list[Event]:
    """The events of the first start of an array's first member."""
    starts = {event.job_id: event for event, kind in found if kind is Kind.STARTED and _attempt_number(event) == 1}
    groups = {job.group_id for pk in starts if (job := jobs.get(pk or 0)) and job.array_index is not None}
    if not groups:
        return []
    started = Job.objects.filter(group__in=groups, started_at__isnull=False).order_by("group", "started_at", "pk")
    return [starts[pk] for pk in started.distinct("group").values_list("pk", flat=True) if pk in starts]


def _exit_code_of(event: Event, attempt: Attempt | None, *, runs: bool) -> int | None:
    told = event.data.get("exit_code")
    if runs:
        return told if isinstance(told, int) else None
    return attempt.exit_code if attempt else None


def _moment(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def _attempt_number(event: Event) -> int:
    number = event.data.get("attempt")
    return number if isinstance(number, int) else 0


def _story(event: Event, kind: Kind, job: Job, attempt: Attempt | None, grade: Grade | None) -> Story:
    """The story of the event. The job itself may have moved on since, so what is said of it is that of its attempt."""
    verdict: Any = getattr(attempt, "failure", None)
    state = _ENDS[event.kind][1] if event.kind in _ENDS else JobState.QUEUED
    runs = event.kind in _WHILE_IT_RUNS
    about: dict[str, Any] = {
        "reason": _reason(event) if kind is not Kind.STARTED else "",
        "detail": _detail(event, kind, job, attempt),
        "exit_code": _exit_code_of(event, attempt, runs=runs),
        "failure": verdict if isinstance(verdict, dict) and not runs else None,
    }
    if kind is Kind.ADVICE:
        what = event.data.get("advice") or event.data.get("rule")
        about = {"reason": str(what or ""), "detail": str(event.data.get("detail") or "")}
    return Story(
        kind=kind,
        at=event.at,
        job_id=job.pk,
        job_name=job.name,
        vc=job.vc.name,
        tenant=job.tenant.name,
        state=JobState.ACTIVE if runs or kind is Kind.ADVICE else state,
        attempt=attempt.number if attempt else None,
        grade=grade,
        until=_moment(event.data.get("stop_at") or event.data.get("until")),
        **about,
    )


def _story_of_array(event: Event, kind: Kind, group: JobGroup) -> Story:
    """The story of an array's end, with its members by state."""
    counts = dict(group.members.order_by().values_list("state").annotate(Count("pk")))
    failed = group.members.filter(state=JobState.FAILED, array_index__isnull=False).order_by("array_index")
    return Story(
        kind=kind,
        at=event.at,
        job_id=group.pk,
        job_name=group.name,
        vc=group.vc.name,
        tenant=group.tenant.name,
        state=_ENDS_OF_ARRAYS[event.kind][1],
        reason=str(event.data.get("reason") or ""),
        members={state.value: counts.get(state, 0) for state in sorted(JOB_TERMINAL)},
        failed=[job.array_index or 0 for job in failed.only("array_index")[:MAX_JOBS_NAMED]],
    )


def _reason(event: Event) -> str:
    return str(_VERDICTS.get(event.kind) or event.data.get("reason") or "")


def _detail(event: Event, kind: Kind, job: Job, attempt: Attempt | None) -> str:
    if kind is Kind.IDLE:
        return idle_words(event.data)
    if kind is Kind.KEPT:
        return kept_words(event.data, job_id=job.pk, shells=job.pool.shells)
    if event.kind in _VERDICTS:
        return str(event.data.get("detail") or "")
    detail = attempt.reason_detail if attempt else ""
    return f"found in screening. {detail}".strip() if _in_screening(event) and event.kind == "job.failed" else detail
