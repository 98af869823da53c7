"""Operators' own rules: checked when they are written, previewed on past failures, and in force from then on."""

from __future__ import annotations

from zlib import crc32

import pytest
from django.test import Client
from django.urls import reverse

from muster.common.errors import Conflict, Invalid
from muster.events.models import AuditEntry
from muster.failures.models import RuleBook
from muster.failures.selectors import unknown_failures
from muster.failures.services import draft, put_into_force, with_rule
from muster.jobs.models import Job
from muster.logs.store import Chunk, append
from scheduler.model.reasons import Reason
from tests.db.stories import World, end, make_world, now_of, ranks, start
from tests.factories import make_user

pytestmark = pytest.mark.django_db

SMOKE = """
storage_io_error:
  - name: smoke
    match: 'rack \\d+ smokes'
    line: rack 7 smokes
"""


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


@pytest.fixture
def olga(client: Client) -> Client:
    client.force_login(make_user("olga", operator=True))
    return client


def fail(world: World, words: str) -> Job:
    """A job that was not tried again, with its last words in the log store too."""
    attempt = start(world, retry={"max": 0, "on": []})
    allocation = ranks(attempt)[0]
    append(allocation, Chunk(0, words.encode(), crc32(words.encode())))
    end(allocation, Reason.EXIT_NONZERO, tail=words)
    return now_of(attempt.job)


def test_a_rule_counts_once_it_is_in_force(world: World) -> None:
    book = draft(RuleBook, text=SMOKE, note="smoke", actor="olga")
    assert fail(world, "rack 12 smokes\n").failure["class"] == "no_signature"
    put_into_force(book, actor="olga")
    assert fail(world, "rack 12 smokes\n").failure["class"] == "storage_io_error"
    none = draft(RuleBook, text="", note="", actor="olga")
    put_into_force(none, actor="olga")
    assert fail(world, "rack 12 smokes\n").failure["class"] == "no_signature"


def test_a_draft_says_what_it_changes_for_past_failures(world: World) -> None:
    job = fail(world, "rack 12 smokes\n")
    fail(world, "ModuleNotFoundError: No module named 'nowhere'\n")
    book = draft(RuleBook, text=SMOKE, note="", actor="olga")
    assert (book.preview["tried"], book.preview["changed"]) == (2, 1)
    assert book.preview["changes"] == [
        {"job": job.pk, "before": "no_signature (maybe)", "after": "storage_io_error (yes)", "line": "rack 12 smokes"}
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("smoke: [{name: a, match: b, line: b}]", "class 'smoke'"),
        ("gpu_lost: [{name: a, match: '(b', line: b}]", "rule 'a': match"),
        ("gpu_lost: [{name: a, match: '(a+)+\\1', line: b}]", "rule 'a': match"),
        ("gpu_lost: [{name: a, match: c, line: b}]", "rule 'a': line"),
        ("gpu_lost: {", "the rules"),
    ],
)
def test_rules_that_cannot_be_used_are_refused_by_name(text: str, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint.replace("(", r"\(")):
        draft(RuleBook, text=text, note="", actor="olga")
    assert not RuleBook.objects.exists()


def test_who_put_what_into_force_is_on_record() -> None:
    book = draft(RuleBook, text=SMOKE, note="", actor="olga")
    put_into_force(book, actor="otto")
    entry = AuditEntry.objects.get(action="put_into_force")
    assert (entry.actor, entry.before, entry.after) == ("otto", {"version": None}, {"version": book.pk})
    with pytest.raises(Conflict):
        put_into_force(book, actor="otto")


def test_rules_that_a_newer_platform_refuses_hold_up_no_jobs_end(world: World) -> None:
    book = draft(RuleBook, text=SMOKE, note="", actor="olga")
    put_into_force(book, actor="olga")
    RuleBook.objects.filter(pk=book.pk).update(text="gone: [{name: a, match: b, line: b}]")
    RuleBook.objects.filter(pk=book.pk).update(id=book.pk + 1000)  # another version, as far as anybody remembers
    assert fail(world, "rack 12 smokes\n").failure["class"] == "no_signature"


def test_unknown_failures_are_told_together_by_what_they_said_last(world: World) -> None:
    first, second = fail(world, "rack 12 smokes\n"), fail(world, "hello\nrack 9 smokes\n")
    third = fail(world, "lamp 3 failed\n")
    fail(world, "ModuleNotFoundError: No module named 'nowhere'\n")
    found = {each.template: each.jobs for each in unknown_failures()}
    assert found == {"rack <*> smokes": (second.pk, first.pk), "lamp <*> failed": (third.pk,)}
    assert first.failure["line"] == "rack 12 smokes"


def test_a_cluster_becomes_a_rule_by_one_form(world: World, olga: Client) -> None:
    job = fail(world, "lamp 3 failed\n")
    page = olga.get(reverse("admin:failures_unknown")).content.decode()
    assert "lamp &lt;*&gt; failed" in page
    assert f"job {job.pk}" in page
    (cluster,) = unknown_failures()
    form = {
        "failure": "gpu_lost",
        "name": "lamp",
        "match": cluster.pattern,
        "line": cluster.example,
        "retry": "",
        "hint": "",
    }
    answer = olga.post(reverse("admin:failures_rule"), form, follow=True)
    assert answer.status_code == 200
    book = RuleBook.objects.get()
    assert book.preview["changes"][0]["after"] == "gpu_lost (elsewhere)"
    assert book.in_force_at is None
    olga.post(
        reverse("admin:failures_rulebook_changelist"),
        {"action": "put_in_force", "_selected_action": [book.pk]},
        follow=True,
    )
    assert now_of(book).in_force_at is not None
    assert fail(world, "lamp 8 failed\n").failure["class"] == "gpu_lost"


def test_the_form_names_what_is_wrong(olga: Client) -> None:
    form = {"failure": "gpu_lost", "name": "lamp", "match": "(", "line": "lamp", "retry": "", "hint": ""}
    page = olga.post(reverse("admin:failures_rule"), form).content.decode()
    assert "rule &#x27;lamp&#x27;: match" in page
    assert not RuleBook.objects.exists()


def test_the_admin_stores_a_version_that_nobody_can_change(olga: Client) -> None:
    olga.post(reverse("admin:failures_rulebook_add"), {"note": "first", "text": SMOKE})
    book = RuleBook.objects.get()
    assert (book.author, book.note) == ("olga", "first")
    assert olga.get(reverse("admin:failures_rulebook_change", args=[book.pk])).status_code == 200
    olga.post(reverse("admin:failures_rulebook_change", args=[book.pk]), {"note": "other", "text": ""})
    assert now_of(book).text.strip() == SMOKE.strip()


def test_nobody_else_enters(client: Client) -> None:
    client.force_login(make_user("rita"))
    for name in ("failures_unknown", "failures_rule", "failures_rulebook_add"):
        assert client.get(reverse(f"admin:{name}")).status_code in {302, 403}


def test_a_rule_is_added_beside_those_that_are_there() -> None:
    fire, lamp = ({"name": name, "match": name, "line": name, "hint": ""} for name in ("fire", "lamp"))
    text = with_rule(SMOKE, failure="storage_io_error", rule=fire)
    text = with_rule(text, failure="gpu_lost", rule=lamp | {"hint": "Look."})
    book = draft(RuleBook, text=text, note="", actor="olga")
    assert all(word in book.text for word in ("smoke", "fire", "lamp", "Look."))
