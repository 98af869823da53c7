"""The admin pages of log rules: a version is written, previewed, put into force, and taken out of force again."""

from __future__ import annotations

from html import unescape
from zlib import crc32

import pytest
from django.test import Client, TestCase
from django.urls import reverse

from muster.events.models import AuditEntry
from muster.failures import log_watch
from muster.failures.models import LogMatch, LogRuleBook
from muster.jobs.models import Attempt
from muster.logs.store import Chunk, append
from scheduler.model.reasons import Reason
from tests.db.stories import World, end, make_world, ranks, start
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_rule_is_remembered")]

ADD, LIST = "admin:failures_logrulebook_add", "admin:failures_logrulebook_changelist"
LINE = b"NCCL WARN a timeout\n"


@pytest.fixture
def olga(client: Client) -> Client:
    client.force_login(make_user("olga", operator=True))
    return client


@pytest.fixture
def world() -> World:
    return make_world()


def hang(**changes: str) -> str:
    fields = {"match": "'NCCL WARN .*timeout'", "line": "NCCL WARN a timeout", "actions": "[cancel]"} | changes
    return "hang:\n" + "".join(f"  {name}: {value}\n" for name, value in fields.items() if value)


def write(olga: Client, text: str, note: str = "") -> LogRuleBook:
    assert olga.post(reverse(ADD), {"note": note, "text": text}).status_code == 302
    return LogRuleBook.objects.latest("pk")


def put_into_force(olga: Client, *books: LogRuleBook) -> str:
    form = {"action": "put_in_force", "_selected_action": [book.pk for book in books]}
    # A test's transaction is never committed.
    with TestCase.captureOnCommitCallbacks(execute=True):
        return unescape(olga.post(reverse(LIST), form, follow=True).content.decode())


def prints(world: World, **spec: object) -> Attempt:
    """An attempt that runs, and prints the line."""
    attempt = start(world, **spec)
    (allocation,) = ranks(attempt)
    append(allocation, Chunk(0, LINE, crc32(LINE)))
    log_watch.look_at(allocation, start=0, body=LINE)
    return Attempt.objects.get(pk=attempt.pk)


def test_a_rule_is_written_put_into_force_and_switched_off(olga: Client, world: World) -> None:
    first = write(olga, hang(), "NCCL")
    assert (first.author, first.note, first.in_force_at) == ("olga", "NCCL", None)
    assert prints(world).state == "running", "it is not in force yet"
    assert f"version {first.pk} is in force now" in put_into_force(olga, first)
    stopped = prints(world)
    assert (stopped.state, stopped.reason) == ("stopping", "log_rule")
    assert LogMatch.objects.get().job_id == stopped.job_id

    none = write(olga, "", "without")
    put_into_force(olga, none)
    assert prints(world).state == "running"
    acts = AuditEntry.objects.filter(object_type="log_rules").order_by("pk").values_list("action", "actor", "object_id")
    assert list(acts) == [
        (action, "olga", str(book.pk)) for book in (first, none) for action in ("create", "put_into_force")
    ]


def test_a_version_says_which_past_failures_it_would_have_met(olga: Client, world: World) -> None:
    attempt = prints(world, retry={"max": 0, "on": []}, name="train")
    (allocation,) = ranks(attempt)
    end(allocation, Reason.EXIT_NONZERO, tail=LINE.decode())
    book = write(olga, hang())
    page = unescape(olga.get(reverse("admin:failures_logrulebook_change", args=[book.pk])).content.decode())
    assert "Lines that match: 1, in the ends of the logs of 1 failures." in page
    assert f"<td>{attempt.job_id}</td><td>hang</td>" in page
    assert "1 in 1" in olga.get(reverse(LIST)).content.decode()
    assert not LogMatch.objects.exists(), "a preview acts on no job"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (hang(match="'(a'"), "rule 'hang': match: is not a valid pattern"),
        (hang(match=r"'(a)\1'"), "rule 'hang': match: is not a valid pattern"),
        (hang(match="'.*'"), "rule 'hang': match: matches the empty line"),
        (hang(unless="'['"), "rule 'hang': unless: is not a valid pattern"),
        (hang(line="other"), "rule 'hang': line: the rule does not match it"),
        (hang(line=""), "rule 'hang': line: is missing"),
        (hang(actions="[explode]"), "rule 'hang': actions:"),
        (hang(pool="nowhere"), "rule 'hang': pool: there is no pool 'nowhere'"),
        (hang(tenant="absent"), "rule 'hang': tenant: there is no tenant 'absent'"),
        (hang(colour="red"), "rule 'hang': colour: unknown field"),
        ("hang: [", "the rules: not YAML"),
    ],
)
def test_what_is_wrong_is_said_beside_the_text_by_rule_and_field(olga: Client, text: str, said: str) -> None:
    answer = olga.post(reverse(ADD), {"note": "", "text": text})
    assert answer.status_code == 200
    errors = answer.context["adminform"].form.errors
    assert list(errors) == ["text"]
    assert errors["text"][0].startswith(said)
    assert said in unescape(answer.content.decode())
    assert not LogRuleBook.objects.exists()


def test_a_new_version_begins_with_the_rules_in_force(olga: Client) -> None:
    put_into_force(olga, write(olga, hang()))
    write(olga, "")
    assert olga.get(reverse(ADD)).context["adminform"].form.initial["text"].strip() == hang().strip()


def test_one_version_is_put_into_force_at_a_time_and_once(olga: Client) -> None:
    books = [write(olga, hang()), write(olga, "")]
    assert "Choose one version" in put_into_force(olga, *books)
    assert not LogRuleBook.objects.filter(in_force_at__isnull=False).exists()
    put_into_force(olga, books[0])
    assert f"version {books[0].pk} is in force already" in put_into_force(olga, books[0])


def test_a_stored_version_can_neither_be_changed_nor_removed(olga: Client) -> None:
    book = write(olga, hang())
    change, delete = (reverse(f"admin:failures_logrulebook_{what}", args=[book.pk]) for what in ("change", "delete"))
    assert olga.post(change, {"note": "other", "text": ""}).status_code == 403
    assert olga.post(delete, {"post": "yes"}).status_code == 403
    assert LogRuleBook.objects.get().text.strip() == hang().strip()


def test_nobody_else_enters(client: Client, olga: Client) -> None:
    book = write(olga, hang())
    rita = Client()
    rita.force_login(make_user("rita"))
    pages = [reverse(ADD), reverse(LIST), reverse("admin:failures_logrulebook_change", args=[book.pk])]
    assert {rita.get(page).status_code for page in pages} <= {302, 403}
    rita.post(reverse(LIST), {"action": "put_in_force", "_selected_action": [book.pk]})
    assert LogRuleBook.objects.get().in_force_at is None
