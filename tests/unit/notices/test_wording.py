"""Texts of notices, whatever names and logs hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.jobs.spec.notify import Kind
from muster.notices.wording import (
    MAX_SUBJECT_CHARS,
    Grade,
    Group,
    Story,
    document_of,
    gathered,
    idle_words,
    kept_words,
    signature_of,
    subject_of,
    text_of,
)

URL = "https://muster.example.org"
VERDICT = {
    "class": "out_of_memory",
    "category": "script",
    "retry": "no",
    "confidence": 0.95,
    "line": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB",
    "hint": "Lower the batch size.",
    "rank": 3,
}
STORY = Story(
    kind=Kind.FAILED,
    at=datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    job_id=1042,
    job_name="train",
    vc="vision-vc",
    tenant="vision",
    state="failed",
    attempt=2,
    reason="exit_nonzero",
    detail="exit status 1",
    exit_code=1,
    failure=VERDICT,
)


def test_a_failure_is_told_with_class_line_hint_and_rank() -> None:
    assert subject_of(STORY) == "Job 1042 train failed (out_of_memory)"
    text = text_of(STORY, url=URL)
    for part in ("out_of_memory", VERDICT["line"], "Lower the batch size.", "Rank:      3", f"{URL}/jobs/1042"):
        assert str(part) in text


def test_a_failure_without_a_verdict_is_told_with_the_platforms_reason() -> None:
    story = replace(STORY, failure=None)
    assert subject_of(story) == "Job 1042 train failed (exit_nonzero)"
    assert "exit status 1" in text_of(story, url=URL)
    assert document_of(story, url=URL)["data"]["failure"] is None


@pytest.mark.parametrize(
    ("kind", "state", "subject"),
    [
        (Kind.STARTED, "active", "Job 1042 train has started"),
        (Kind.ENDED, "succeeded", "Job 1042 train succeeded"),
        (Kind.ENDED, "cancelled", "Job 1042 train was cancelled"),
        (Kind.PREEMPTED, "queued", "Job 1042 train was stopped and waits again"),
        (Kind.REQUEUED, "queued", "Job 1042 train failed and is tried again (out_of_memory)"),
        (Kind.IDLE, "active", "Job 1042 train does not use its GPUs"),
        (Kind.KEPT, "active", "Job 1042 train failed and is kept for you to look at"),
    ],
)
def test_each_kind_has_its_words(kind: Kind, state: str, subject: str) -> None:
    assert subject_of(replace(STORY, kind=kind, state=state)) == subject


IDLE = {"since": "2026-05-01T12:03:00Z", "stop_at": None, "below": 5.0, "by": "tenant", "gpus": 4}


def test_an_idle_job_is_told_with_its_limit_and_what_follows() -> None:
    assert idle_words(IDLE) == "each of its 4 GPUs did less than 5 % since 2026-05-01 12:03 UTC"
    stops = {**IDLE, "gpus": 1, "stop_at": "2026-05-01T13:03:00Z"}
    assert idle_words(stops) == (
        "its GPU did less than 5 % since 2026-05-01 12:03 UTC; by its tenant's rule it is stopped at "
        "2026-05-01 13:03 UTC if that goes on"
    )
    assert "by its own `idle` it is stopped" in idle_words({**stops, "by": "job"})


KEPT = {"until": "2026-05-01T12:30:00Z", "rank": 2, "ranks": 1, "reason": "exit_nonzero", "detail": "exit status 3"}


def test_a_job_that_is_kept_is_told_with_the_command_to_get_in() -> None:
    said = "exit status 3; what it ran in is kept until 2026-05-01 12:30 UTC, with its GPUs"
    assert kept_words(KEPT, job_id=1042, shells=True) == f"{said}: muster shell 1042"
    gang = {**KEPT, "ranks": 4}
    assert kept_words(gang, job_id=1042, shells=True) == f"rank 2: {said}: muster shell 1042 --rank 2"
    assert kept_words(KEPT, job_id=1042, shells=False) == f"{said}; shells are switched off in its pool"


def test_every_kind_can_be_told() -> None:
    for kind in Kind:
        story = replace(STORY, kind=kind)
        assert str(story.job_id) in subject_of(story)
        assert document_of(story, url=URL)["type"] == f"job.{kind}"


@given(name=st.text(max_size=300), line=st.text(max_size=900), hint=st.text(max_size=900))
def test_a_subject_is_one_printable_line_whatever_others_wrote(name: str, line: str, hint: str) -> None:
    story = replace(STORY, job_name=name, failure={**VERDICT, "class": line, "line": line, "hint": hint})
    subject = subject_of(story)
    assert subject.isprintable()
    assert len(subject) <= MAX_SUBJECT_CHARS
    assert all(row.isprintable() for row in text_of(story, url=URL).splitlines())


def test_failures_that_differ_in_numbers_only_are_alike() -> None:
    other = {**VERDICT, "line": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB"}
    assert signature_of(replace(STORY, job_id=7, failure=other)) == signature_of(STORY) != ""


@pytest.mark.parametrize(
    "changes",
    [
        {"failure": {**VERDICT, "class": "cpu_out_of_memory"}},
        {"failure": {**VERDICT, "line": "ValueError: other"}},
        {"kind": Kind.REQUEUED},
    ],
)
def test_failures_of_another_class_line_or_kind_are_not_alike(changes: dict[str, object]) -> None:
    assert signature_of(replace(STORY, **changes)) != signature_of(STORY)


def test_an_exit_code_alone_makes_no_two_failures_alike() -> None:
    assert signature_of(replace(STORY, failure=None)) == ""


def test_many_notices_are_one_mail_that_counts_them() -> None:
    groups = [
        Group(998, "Job 3 a failed (x)", "the line", list(range(998)), True),
        Group(1, "Job 1 b succeeded", "", [1], False),
    ]
    subject, body = gathered(groups, count=1005, url=URL)
    assert subject == "1005 notices about your jobs"
    assert "998 more jobs like this: Job 3 a failed (x)\n  the line\n  jobs 0, 1, 2" in body
    assert "and 988 more" in body
    assert "and 6 other notices" in body
    assert len(body) < 2000


GRADE = Grade("poor", 38.24, 4, 1, ("1 of its 4 GPUs was idle; 3 would have been enough.", "It asked for much."))


def test_an_end_is_told_with_the_grade_and_every_advice() -> None:
    story = replace(STORY, kind=Kind.ENDED, state="succeeded", failure=None, grade=GRADE)
    lines = text_of(story, url=URL).splitlines()
    assert "GPUs used: poor: 38 % of the time of its 4 GPUs, 1 of them idle" in lines
    assert [line.split(None, 1)[1] for line in lines if line.startswith("Advice:")] == list(GRADE.advice)
    assert document_of(story, url=URL)["data"]["efficiency"] == {
        "grade": "poor",
        "utilization": 38.24,
        "idle_gpus": 1,
        "advice": list(GRADE.advice),
    }


@pytest.mark.parametrize(
    ("grade", "words"),
    [
        (replace(GRADE, grade="good", utilization=91.0, gpus=1, idle_gpus=0), "good: 91 % of the time of its GPU"),
        (replace(GRADE, grade="idle", utilization=0.4, gpus=1, idle_gpus=1), "idle: 0 % of the time of its GPU"),
        (replace(GRADE, grade="", utilization=None), ""),
    ],
)
def test_a_grade_has_its_words(grade: Grade, words: str) -> None:
    assert grade.words == words


def test_without_a_grade_nothing_is_said_of_gpus() -> None:
    assert "GPUs used" not in text_of(STORY, url=URL)
    assert document_of(STORY, url=URL)["data"]["efficiency"] is None
    only_advice = replace(STORY, grade=replace(GRADE, grade="", utilization=None))
    text = text_of(only_advice, url=URL)
    assert ("GPUs used" in text, "Advice:" in text) == (False, True)
