"""The outbox: what was stored with a write is delivered after it, at least once."""

from __future__ import annotations

import email
import socketserver
import threading
from collections.abc import Iterator
from datetime import timedelta
from email.message import Message
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import transaction
from django.utils import timezone

from muster.events import delivery
from muster.events.delivery import LEASE, deliver_due
from muster.events.models import Outbox
from muster.events.services import mail_operators
from muster.events.tasks import deliver
from tests.db.stories import WAIT_S, Other, let_pass, now_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed")]


@pytest.fixture
def delivered(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The notes given to the handler of the topic `note`."""
    found: list[dict[str, Any]] = []
    monkeypatch.setitem(delivery.HANDLERS, "note", found.append)
    return found


def note(number: int = 1, **fields: Any) -> Outbox:
    return Outbox.objects.create(topic="note", payload={"number": number}, **fields)


def pause_s(row: Outbox) -> float:
    return (now_of(row).due_at - timezone.now()).total_seconds()


def fail(_payload: dict[str, Any]) -> None:
    raise ConnectionRefusedError("port 25")


class TestDelivery:
    def test_a_row_is_delivered_once_it_is_due_and_then_left_alone(self, delivered: list[dict[str, Any]]) -> None:
        row = note()
        assert deliver() == 1
        assert deliver() == 0
        assert delivered == [{"number": 1}]
        assert now_of(row).delivered_at is not None

    def test_a_row_that_is_not_due_yet_waits(self, delivered: list[dict[str, Any]]) -> None:
        row = note(due_at=timezone.now() + timedelta(hours=1))
        assert deliver_due() == 0
        let_pass(3601, row, "due_at")
        assert deliver_due() == 1

    def test_the_oldest_come_first_and_a_limit_holds(self, delivered: list[dict[str, Any]]) -> None:
        for number in (1, 2, 3):
            let_pass(100 - number, note(number), "due_at")
        assert deliver_due(limit=2) == 2
        assert delivered == [{"number": 1}, {"number": 2}]

    def test_nothing_is_delivered_of_what_was_rolled_back(self, delivered: list[dict[str, Any]]) -> None:
        with transaction.atomic():
            note()
            transaction.set_rollback(True)
        assert deliver_due() == 0

    def test_a_worker_that_died_in_the_middle_leaves_the_row_to_the_next(
        self, delivered: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def die(_payload: dict[str, Any]) -> None:
            raise KeyboardInterrupt

        row = note()
        monkeypatch.setitem(delivery.HANDLERS, "note", die)
        with pytest.raises(KeyboardInterrupt):
            deliver_due()
        monkeypatch.setitem(delivery.HANDLERS, "note", delivered.append)
        assert deliver_due() == 0
        let_pass(LEASE.total_seconds() + 1, row, "due_at")
        assert deliver_due() == 1
        assert now_of(row).tries == 2


class TestFailure:
    def test_a_failure_is_noted_and_tried_again_after_a_growing_pause(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(delivery.HANDLERS, "note", fail)
        row, pauses = note(), []
        for _ in range(4):
            assert deliver_due() == 0
            pauses.append(round(pause_s(row)))
            let_pass(4000, row, "due_at")
        assert pauses == [2, 4, 8, 16]
        assert (now_of(row).tries, now_of(row).last_error) == (4, "ConnectionRefusedError('port 25')")

    def test_the_pause_has_an_upper_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(delivery.HANDLERS, "note", fail)
        row = note(tries=60)
        deliver_due()
        assert pause_s(row) == pytest.approx(delivery.MAX_PAUSE_S, abs=30)

    def test_it_is_delivered_when_the_other_side_is_back(
        self, delivered: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = note()
        monkeypatch.setitem(delivery.HANDLERS, "note", fail)
        deliver_due()
        let_pass(10, row, "due_at")
        monkeypatch.setitem(delivery.HANDLERS, "note", delivered.append)
        assert deliver_due() == 1
        assert now_of(row).last_error == ""

    def test_a_row_that_cannot_be_delivered_at_all_stops_no_other(self, delivered: list[dict[str, Any]]) -> None:
        strange = Outbox.objects.create(topic="carrier pigeon", payload={})
        broken = Outbox.objects.create(topic="mail", payload={"to": ["a@b.c"], "subject": "two\nlines", "body": ""})
        note()
        assert deliver_due() == 1
        assert delivered == [{"number": 1}]
        assert "carrier pigeon" in now_of(strange).last_error
        assert now_of(broken).last_error != ""


class TestTwoWorkers:
    @pytest.mark.django_db(transaction=True)
    def test_one_skips_what_the_other_has_in_hand(
        self, delivered: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        in_hand, go_on = threading.Event(), threading.Event()

        def slowly(payload: dict[str, Any]) -> None:
            in_hand.set()
            assert go_on.wait(WAIT_S)
            delivered.append(payload)

        monkeypatch.setitem(delivery.HANDLERS, "note", slowly)
        note(1)
        first = Other(deliver_due)
        assert in_hand.wait(WAIT_S)
        monkeypatch.setitem(delivery.HANDLERS, "note", delivered.append)
        note(2)
        assert deliver_due() == 1
        go_on.set()
        assert first.result() == 1
        assert delivered == [{"number": 2}, {"number": 1}]

    @pytest.mark.django_db(transaction=True)
    def test_a_row_that_is_locked_is_not_waited_for(self, delivered: list[dict[str, Any]]) -> None:
        locked = note(1)
        note(2)
        with transaction.atomic():
            Outbox.objects.select_for_update().get(pk=locked.pk)
            assert Other(deliver_due).result() == 1
        assert delivered == [{"number": 2}]
        assert deliver_due() == 1


class _Smtp(socketserver.StreamRequestHandler):
    """Enough of SMTP to take one mail."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line.split()[0].upper() if line.split() else b""
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = []
                while (text := self.rfile.readline()) != b".\r\n":
                    lines.append(text)
                self.server.mails.append(email.message_from_bytes(b"".join(lines)))  # type: ignore[attr-defined]
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")
            if word == b"QUIT":
                return


class TestMail:
    @pytest.fixture
    def mails(self, settings: Any) -> Iterator[list[Message]]:
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp) as server:
            server.mails = []  # type: ignore[attr-defined]
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            thread.start()
            settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
            settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address
            settings.OPERATORS_MAIL = ["ops@example.org", "boss@example.org"]
            yield server.mails  # type: ignore[attr-defined]
            server.shutdown()

    def test_a_mail_to_the_operators_arrives(self, mails: list[Message]) -> None:
        mail_operators(subject="Node n1 is down", body="The agent of n1 no longer answers.")
        assert deliver_due() == 1
        (mail,) = mails
        assert (mail["Subject"], mail["To"]) == ("Node n1 is down", "ops@example.org, boss@example.org")
        assert mail["From"] == django_settings.DEFAULT_FROM_EMAIL
        assert "no longer answers" in str(mail.get_payload())

    def test_a_mail_server_that_is_down_delays_the_mail(self, mails: list[Message], settings: Any) -> None:
        port = settings.EMAIL_PORT
        settings.EMAIL_PORT = 1
        mail_operators(subject="Node n1 is down", body="")
        assert deliver_due() == 0
        row = Outbox.objects.get()
        assert "refused" in row.last_error
        settings.EMAIL_PORT = port
        let_pass(10, row, "due_at")
        assert deliver_due() == 1
        assert len(mails) == 1

    def test_without_operators_nothing_is_stored(self, settings: Any) -> None:
        settings.OPERATORS_MAIL = []
        mail_operators(subject="Node n1 is down", body="")
        assert not Outbox.objects.exists()
