"""The judgement on the end of an attempt, from plain facts."""

from __future__ import annotations

from typing import Any

import pytest

from muster.jobs.attempt.outcome import BACK_OFF_S, FREE_CHECKS, EndFacts, judge_end
from muster.jobs.spec.spec import Retry
from scheduler.diagnosis.screening import ScreeningVerdict
from scheduler.model.lifecycle import AttemptState, Desired, JobState
from scheduler.model.reasons import Reason, Retried, reasons_where


def facts(reason: Reason, **changes: Any) -> EndFacts:
    """The facts of a full run that failed for this reason, of a job whose owner wants every failure retried twice."""
    values = {"ended_as": AttemptState.FAILED, "desired": Desired.RUN, "retries_used": 0} | changes
    return EndFacts(reason=reason, retry=values.pop("retry", Retry(max=2, on=["anything"])), **values)


@pytest.mark.parametrize("reason", sorted(Reason))
def test_a_job_is_tried_again_as_the_table_says(reason: Reason) -> None:
    found = judge_end(facts(reason, failed_so_before=FREE_CHECKS))
    queued = reason.meaning.retry is not Retried.NEVER
    counted = reason.meaning.retry is Retried.COUNTED
    assert (found.state is JobState.QUEUED, found.uses_retry) == (queued, counted)
    assert (found.back_off_s > 0) is (counted and reason.meaning.pauses)


@pytest.mark.parametrize("reason", sorted(reasons_where(lambda meaning: meaning.category is not None)))
def test_a_spec_covers_the_reasons_of_the_words_that_it_names(reason: Reason) -> None:
    named = Retry(max=1, on=[reason.meaning.category])
    assert judge_end(facts(reason, retry=named, failed_so_before=FREE_CHECKS)).state is JobState.QUEUED
    others = Retry(max=1, on=[])
    assert judge_end(facts(reason, retry=others, failed_so_before=FREE_CHECKS)).state is JobState.FAILED


def test_a_job_that_its_owner_stops_is_cancelled_by_its_owner_or_its_sweep() -> None:
    stopped = [judge_end(facts(one, desired=Desired.STOP)) for one in (Reason.PREEMPTED, Reason.STOPPED_EARLY)]
    assert {one.state for one in stopped} == {JobState.CANCELLED}
    assert [one.reason for one in stopped] == [Reason.CANCELLED_BY_USER, Reason.STOPPED_EARLY]


def test_a_screening_run_that_was_preempted_runs_again_at_once_and_one_whose_agent_stopped_elsewhere() -> None:
    again = [judge_end(facts(one, screening_runs=1)) for one in (Reason.PREEMPTED, Reason.AGENT_STOPPED)]
    assert {one.state for one in again} == {JobState.QUEUED}
    assert [(one.back_off_s, one.avoid_nodes) for one in again] == [(0.0, False), (BACK_OFF_S, True)]


def test_a_screening_run_that_fails_by_itself_fails_its_job() -> None:
    found = judge_end(facts(Reason.EXIT_NONZERO, screening_runs=1, retry=Retry(max=0)))
    assert found.state is JobState.FAILED
    assert found.screening is not None
    assert found.screening.verdict is ScreeningVerdict.FAILED
