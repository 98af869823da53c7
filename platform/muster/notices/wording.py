"""The words of a notice: its subject, its text, and the document that a webhook gets. Pure.

Names and lines of logs are other people's text: whatever they hold, a subject stays one line, and a body plain.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from muster.jobs.spec.notify import Kind
from scheduler.diagnosis.screening import ScreeningVerdict
from scheduler.model.reasons import Reason

NO_SIGNATURE = "no_signature"
"""The class of what no rule knows: it says less than the platform's own reason."""
MAX_SUBJECT_CHARS, MAX_NAME_CHARS, MAX_LINE_CHARS = 200, 80, 400
MAX_JOBS_NAMED = 10

_NUMBERS = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|[0-9]+(?:\.[0-9]+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Grade:
    """The grade of a job's GPU use, and advice. Where `grade` is empty there is only advice."""

    grade: str
    utilization: float | None
    gpus: int
    idle_gpus: int
    advice: tuple[str, ...]

    @property
    def words(self) -> str:
        """The use of its GPUs in words; empty without a grade."""
        if not self.grade or self.utilization is None:
            return ""
        gpus = "its GPU" if self.gpus == 1 else f"its {self.gpus} GPUs"
        idle = f", {self.idle_gpus} of them idle" if self.idle_gpus and self.gpus > 1 else ""
        return f"{self.grade}: {self.utilization:.0f} % of the time of {gpus}{idle}"


@dataclass(frozen=True, slots=True)
class Story:
    """An event of a job, for its owner."""

    kind: Kind
    at: datetime
    job_id: int
    job_name: str
    vc: str
    tenant: str
    state: str
    attempt: int | None = None
    reason: str = ""
    detail: str = ""
    exit_code: int | None = None
    failure: Mapping[str, Any] | None = field(default=None)
    """The verdict on the attempt: class, category, retry, confidence, line, hint, rank; None without one."""
    until: datetime | None = None
    """The time at which the state ends by itself, such as when an idle job is stopped."""
    grade: Grade | None = None
    """Of a job that has ended."""
    members: Mapping[str, int] | None = None
    """Of an array: its members by state. `job_id` and `job_name` are then the array's."""
    failed: Sequence[int] = ()
    """The first indices of members that failed."""

    @property
    def noun(self) -> str:
        """`job` or `array`."""
        return "job" if self.members is None else "array"

    @property
    def summary(self) -> str:
        """The members of an array by state, in words; empty for a job."""
        return ", ".join(f"{count:,} {state}" for state, count in (self.members or {}).items() if count)

    @property
    def cause(self) -> str:
        """The class of its failure, or else the platform's reason."""
        told = (self.failure or {}).get("class")
        return one_line(str(self.reason if told in {None, "", NO_SIGNATURE} else told), 60) or NO_SIGNATURE

    @property
    def line(self) -> str:
        """The line that tells why it failed; empty if none does."""
        told = (self.failure or {}).get("line")
        # That a command ended with 1 tells nothing of why.
        own = "" if self.reason in _TELLS_NOTHING else self.detail
        return one_line(str(told or own), MAX_LINE_CHARS)


_TELLS_NOTHING = frozenset({Reason.EXIT_NONZERO, Reason.KILLED_BY_SIGNAL})
_SAID = {
    Kind.STARTED: "has started",
    Kind.ENDED: "has ended",
    Kind.FAILED: "failed",
    Kind.PREEMPTED: "was stopped and waits again",
    Kind.REQUEUED: "failed and is tried again",
    Kind.SCREENING: "goes on: screening was inconclusive",
    Kind.ADVICE: "should be looked at",
    Kind.IDLE: "does not use its GPUs",
    Kind.KEPT: "failed and is kept for you to look at",
}


def idle_words(told: Mapping[str, Any]) -> str:
    """The words for an idle job: which GPUs did how little, since when, and what follows."""
    gpus = "its GPU" if told.get("gpus") == 1 else f"each of its {told.get('gpus')} GPUs"
    said = f"{gpus} did less than {told.get('below'):g} % since {_minute(told.get('since'))}"
    if told.get("stop_at") is None:
        return said
    rule = "its own `idle`" if told.get("by") == "job" else "its tenant's rule"
    return f"{said}; by {rule} it is stopped at {_minute(told['stop_at'])} if that goes on"


def kept_words(told: Mapping[str, Any], *, job_id: int, shells: bool) -> str:
    """The words for a failed job that is kept: how it failed, until when it is kept, and how to get in."""
    rank = told.get("rank") if told.get("ranks", 1) > 1 else None
    said = "" if rank is None else f"rank {rank}: "
    said += f"{told.get('detail') or told.get('reason')}; what it ran in is kept until {_minute(told.get('until'))}"
    if not shells:
        return f"{said}, with its GPUs; shells are switched off in its pool"
    return f"{said}, with its GPUs: muster shell {job_id}" + ("" if rank is None else f" --rank {rank}")


def _minute(at: Any) -> str:
    return datetime.fromisoformat(str(at)).strftime("%Y-%m-%d %H:%M UTC")


def one_line(text: str, longest: int) -> str:
    """The text as one printable line of at most `longest` characters."""
    plain = "".join(char if char.isprintable() else " " for char in text[: longest * 4])
    plain = " ".join(plain.split())
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def subject_of(story: Story) -> str:
    """The subject: the job and its event."""
    said = f"was {story.state}" if story.kind is Kind.ENDED and story.state == "cancelled" else _SAID[story.kind]
    if story.kind is Kind.SCREENING and story.reason == ScreeningVerdict.PASSED:
        said = "passed screening"
    if story.kind is Kind.ENDED and story.state == "succeeded":
        said = "succeeded"
    cause = f" ({story.cause})" if story.kind in {Kind.FAILED, Kind.REQUEUED, Kind.ADVICE} and story.cause else ""
    name = one_line(story.job_name, MAX_NAME_CHARS)
    return one_line(f"{story.noun.title()} {story.job_id} {name} {said}{cause}", MAX_SUBJECT_CHARS)


def text_of(story: Story, *, url: str) -> str:
    """The body of the mail about one job."""
    rows = [
        (story.noun.title(), f"{story.job_id} {one_line(story.job_name, MAX_NAME_CHARS)}"),
        ("Tenant", f"{story.tenant}, virtual cluster {story.vc}"),
        ("State", story.state),
        ("Members", story.summary),
        ("Failed", ", ".join(map(str, story.failed)) + (", …" if len(story.failed) < _failures(story) else "")),
        ("Attempt", str(story.attempt or "")),
        ("When", story.at.strftime("%Y-%m-%d %H:%M:%S UTC")),
        ("Reason", one_line(story.reason, 60)),
        ("Detail", "" if (story.failure or {}).get("line") else one_line(story.detail, MAX_LINE_CHARS)),
        ("Exit code", "" if story.exit_code is None else str(story.exit_code)),
    ]
    if story.kind in {Kind.FAILED, Kind.REQUEUED}:
        failure = story.failure or {}
        rank = failure.get("rank")
        rows += [
            ("Failure", one_line(str(failure.get("class") or ""), 60)),
            ("Rank", "" if rank is None else str(rank)[:20]),
            ("Line", one_line(str(failure.get("line") or ""), MAX_LINE_CHARS)),
            ("Hint", one_line(str(failure.get("hint") or ""), MAX_LINE_CHARS)),
        ]
    if story.grade is not None:
        rows += [("GPUs used", story.grade.words), *(("Advice", one) for one in story.grade.advice)]
    told = "\n".join(f"{name + ':':<11}{value}" for name, value in rows if value)
    return f"{subject_of(story)}.\n\n{told}\n\n{page_of(story, url)}\n{footer(url)}"


def document_of(story: Story, *, url: str) -> dict[str, Any]:
    """The document for a webhook."""
    failure = story.failure
    about = {
        "id": story.job_id,
        "name": story.job_name,
        "vc": story.vc,
        "tenant": story.tenant,
        "state": story.state,
        "url": page_of(story, url),
    }
    if story.members is not None:
        about |= {"members": dict(story.members), "failed_indices": list(story.failed)}
    return {
        "type": f"{story.noun}.{story.kind}",
        "timestamp": story.at.isoformat().replace("+00:00", "Z"),
        "data": {
            "kind": str(story.kind),
            story.noun: about,
            "attempt": story.attempt,
            "reason": story.reason or None,
            "detail": one_line(story.detail, MAX_LINE_CHARS) or None,
            "until": None if story.until is None else story.until.isoformat().replace("+00:00", "Z"),
            "exit_code": story.exit_code,
            "failure": None
            if failure is None or story.kind not in {Kind.FAILED, Kind.REQUEUED}
            else {name: failure.get(name) for name in ("class", "category", "retry", "line", "hint", "rank")},
            "efficiency": None if story.grade is None else _efficiency(story.grade),
        },
    }


def _failures(story: Story) -> int:
    return (story.members or {}).get("failed", 0)


def _efficiency(grade: Grade) -> dict[str, Any]:
    return {
        "grade": grade.grade or None,
        "utilization": None if grade.utilization is None else round(grade.utilization, 2),
        "idle_gpus": grade.idle_gpus,
        "advice": list(grade.advice),
    }


def signature_of(story: Story) -> str:
    """The signature of equal failures: the kind, the class, and the line without its numbers.

    Empty where nothing but an exit code is known: by that alone two failures are not alike.
    """
    if story.kind not in {Kind.FAILED, Kind.REQUEUED} or not story.line:
        return ""
    template = _NUMBERS.sub("#", story.line)
    return hashlib.sha256(f"{story.kind}\0{story.cause}\0{template}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Group:
    """Notices that are told together: how many, the first of them, and some of their jobs."""

    count: int
    subject: str
    line: str
    jobs: Sequence[int]
    alike: bool


def gathered(groups: Sequence[Group], *, count: int, url: str) -> tuple[str, str]:
    """The subject and the body of one mail for `count` notices, of which the groups are those that it names."""
    parts = []
    for group in groups:
        if group.count == 1:
            parts.append(group.subject)
        else:
            words = "more jobs like this" if group.alike else "notices such as"
            parts.append(f"{group.count} {words}: {group.subject}")
        if group.line:
            parts.append(f"  {group.line}")
        named = ", ".join(str(job) for job in group.jobs[:MAX_JOBS_NAMED])
        rest = group.count - len(group.jobs[:MAX_JOBS_NAMED])
        parts.append(f"  jobs {named}" + (f" and {rest} more" if rest > 0 else "") + "\n")
    unnamed = count - sum(group.count for group in groups)
    if unnamed:
        parts.append(f"and {unnamed} other notices\n")
    body = "\n".join(parts)
    return f"{count} notices about your jobs", f"{body}\n{url}/jobs\n{footer(url)}"


def page_of(story: Story, url: str) -> str:
    """The address of the page of its job or array."""
    return f"{url}/{story.noun}s/{story.job_id}"


def footer(url: str) -> str:
    """The last lines of a mail, with the address of the settings."""
    return f"\nWhat you are told of: {url}/settings\n"
