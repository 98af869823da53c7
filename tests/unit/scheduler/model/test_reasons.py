"""The table of end reasons, held against what agents and the classifier of failures say."""

from __future__ import annotations

from nodeagent.protocol.terms import EndReason
from scheduler.diagnosis.failures.evidence import Category
from scheduler.model.reasons import Retried, RetryOn, reasons_where


def test_agents_report_the_reasons_that_the_table_says() -> None:
    assert reasons_where(lambda meaning: meaning.by_agent) == {one.value for one in EndReason}


def test_a_failure_is_blamed_on_a_category_of_failures() -> None:
    assert reasons_where(lambda meaning: meaning.blames not in set(Category)) == set()


def test_only_an_end_that_uses_up_a_retry_has_a_word_in_the_spec() -> None:
    assert reasons_where(lambda one: one.category is RetryOn.ANYTHING) == set()
    assert reasons_where(lambda one: one.category is not None and one.retry is not Retried.COUNTED) == set()
