"""The documents of the repository under /docs, which anyone who reaches the platform may read."""

from __future__ import annotations

import httpx
import pytest

pytestmark = pytest.mark.django_db(transaction=True)


def test_help_is_read_without_a_session_and_runs_nothing_foreign(server: str) -> None:
    answer = httpx.get(f"{server}/docs/reference/glossary")
    assert answer.status_code == 200
    assert '<tr id="finish-time-fairness">' in answer.text
    assert answer.headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'"
    )
    assert "set-cookie" not in answer.headers


def test_an_unknown_page_is_not_found_and_leads_on(server: str) -> None:
    answer = httpx.get(f"{server}/docs/no-such-page")
    assert answer.status_code == 404
    assert 'href="/docs"' in answer.text


def test_the_name_of_a_file_leads_to_its_page(server: str) -> None:
    answer = httpx.get(f"{server}/docs/policies/fifo.md", follow_redirects=True)
    assert answer.status_code == 200
    assert str(answer.url).endswith("/docs/policies/fifo")


def test_a_search_shows_words_as_text(server: str) -> None:
    answer = httpx.get(f"{server}/docs", params={"q": "<b>checkpoint</b>"})
    assert answer.status_code == 200
    assert "<b>" not in answer.text


def test_images_of_documents_are_served_and_nothing_else(server: str) -> None:
    assert httpx.get(f"{server}/docs/images/job.png").headers["content-type"] == "image/png"
    assert httpx.get(f"{server}/docs/images/no.svg").status_code == 404
