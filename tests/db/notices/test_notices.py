"""Notices: from what happens to jobs to mails and webhooks, each once, and never too many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

import pytest
from django.db import transaction
from django.utils import timezone

from muster.common.errors import Invalid
from muster.events.delivery import deliver_due, waiting
from muster.events.models import Outbox
from muster.events.services import record
from muster.jobs.attempt.ending import cancel_for, pause_job
from muster.jobs.models import Attempt, Job
from muster.jobs.services import cancel_job
from muster.monitoring.services import look_at_losses
from muster.monitoring.store import keep_points
from muster.notices import digest, mails
from muster.notices.mails import forget_told, gather
from muster.notices.models import Notice, Preferences, Reader
from muster.notices.posting import deliver_webhooks
from muster.notices.preferences import DEFAULT, choice_of, choose
from muster.notices.reading import read_events
from muster.notices.tasks import read_events as read_all
from muster.notices.webhooks import add_webhook
from muster.notices.wording import Story
from muster.screening.models import PoolScreening
from muster.sweeps.services import submit_sweep
from scheduler.model.lifecycle import AttemptState, JobState
from scheduler.model.reasons import Reason
from tests.db.receivers import Hook, MailServer, hook_server, mail_server
from tests.db.stories import (
    Other,
    World,
    claim,
    cycle,
    end,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    ranks,
    run,
    start,
    submit,
    until_settled,
)
from tests.factories import make_job, make_node, make_pool, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("settled_at_once")]

SWEEP = {"command": "true", "gpus": 1, "sweep": {"method": "grid", "metric": "loss", "params": {"lr": [0.1]}}}
EVERY_KIND = ["started", "ended", "failed", "preempted", "requeued", "screening", "idle", "kept"]


@pytest.fixture
def mail(settings: Any) -> Iterator[MailServer]:
    with mail_server(settings) as running:
        yield running


@pytest.fixture
def hook(settings: Any) -> Iterator[Hook]:
    with hook_server(settings) as running:
        yield running


@pytest.fixture
def world(db: None) -> World:
    world = make_world(gpus=8)
    world.user.email = "olivia@example.org"
    world.user.save(update_fields=["email"])
    read_events()  # notes where it stands
    assert Reader.objects.count() == 1
    return world


def deliver() -> None:
    """Read what happened, and carry it out."""
    until_settled()
    read_all()
    while deliver_due() or deliver_webhooks():
        pass


def fail(attempt: Attempt, detail: str = "exit status 1") -> None:
    for allocation in ranks(attempt):
        end(allocation, Reason.EXIT_NONZERO, detail=detail)


def kinds_posted(hook: Hook) -> list[str]:
    return sorted(document["data"]["kind"] for document in hook.documents)


class TestIdle:
    TOLD: ClassVar[dict[str, Any]] = {
        "attempt": 1,
        "since": "2026-05-01T12:03:00Z",
        "stop_at": "2026-05-01T12:33:00Z",
        "below": 5.0,
        "by": "job",
        "gpus": 1,
    }

    def test_the_owner_of_an_idle_job_has_mail_and_webhook_that_say_when_it_is_stopped(
        self, world: World, mail: MailServer, hook: Hook
    ) -> None:
        add_webhook(user=world.user, url=hook.url)
        choose(user=world.user, changes={"webhook": ["idle"]})
        attempt = start(world, name="train")
        record("attempt.idle", actor="platform", tenant_id=world.tenant.pk, job_id=attempt.job_id, data=dict(self.TOLD))
        deliver()
        (came,) = mail.mails
        assert came["Subject"] == f"[Muster] Job {attempt.job_id} train does not use its GPUs"
        assert "it is stopped at 2026-05-01 12:33 UTC if that goes on" in " ".join(came.get_content().split())
        (document,) = hook.documents
        assert (document["type"], document["data"]["job"]["state"]) == ("job.idle", "active")
        assert document["data"]["until"] == "2026-05-01T12:33:00Z"
        assert document["data"]["reason"] is None


class TestKinds:
    def test_a_job_that_starts_and_ends_well_is_told_by_webhook(self, world: World, hook: Hook) -> None:
        add_webhook(user=world.user, url=hook.url)
        attempt = start(world, name="train")
        deliver()
        assert kinds_posted(hook) == ["started"]
        end(ranks(attempt)[0])
        deliver()
        assert kinds_posted(hook) == ["ended", "started"]
        ended = next(one for one in hook.documents if one["type"] == "job.ended")
        assert ended["data"]["job"]["name"] == "train"
        assert ended["data"]["job"]["state"] == "succeeded"
        assert ended["data"]["job"]["url"].endswith(f"/jobs/{attempt.job_id}")
        assert (ended["data"]["attempt"], ended["data"]["exit_code"], ended["data"]["failure"]) == (1, 0, None)

    def test_a_screening_run_is_no_start_and_its_result_is_told(self, world: World, hook: Hook) -> None:
        add_webhook(user=world.user, url=hook.url)
        small = make_pool()
        make_node(small, gpus=2)
        PoolScreening.objects.create(pool=world.pool, screening_pool=small)
        job = submit(world, gpus=4, name="train")
        cycle(replace(world, pool=small))
        for allocation in ranks(live_attempt(job)):
            run(claim(allocation))
        end(ranks(live_attempt(job))[0], Reason.TIME_LIMIT)
        deliver()
        assert kinds_posted(hook) == ["screening"]
        (told,) = hook.documents
        assert (told["type"], told["data"]["job"]["state"], told["data"]["reason"]) == (
            "job.screening",
            "queued",
            "passed",
        )

    def test_a_failure_is_told_by_mail_though_nobody_chose_anything(self, world: World, mail: MailServer) -> None:
        attempt = start(world, name="train")
        fail(attempt)
        deliver()
        (came,) = mail.mails
        assert came["To"] == "olivia@example.org"
        assert came["Subject"] == f"[Muster] Job {attempt.job_id} train failed (exit_nonzero)"
        assert came["Auto-Submitted"] == "auto-generated"
        assert came["Message-ID"].startswith("<")
        assert f"/jobs/{attempt.job_id}" in came.get_content()
        assert "exit status 1" in came.get_content()

    def test_a_job_that_is_tried_again_says_so(self, world: World, mail: MailServer) -> None:
        choose(user=world.user, changes={"mail": EVERY_KIND})
        fail(start(world, name="train", retry={"max": 1, "on": ["failed"]}))
        deliver()
        assert [subject.rpartition("train ")[2] for subject in mail.subjects] == [
            "has started",
            "failed and is tried again (exit_nonzero)",
        ]

    def test_a_job_that_its_owner_stops_has_ended_and_was_not_requeued(self, world: World, hook: Hook) -> None:
        add_webhook(user=world.user, url=hook.url)
        job = submit(world)
        cancel_job(user=world.user, job=job)
        deliver()
        assert kinds_posted(hook) == ["ended"]
        assert hook.documents[0]["data"]["job"]["state"] == "cancelled"

    def test_a_preempted_job_is_told_as_that(self, world: World, hook: Hook) -> None:
        from muster.jobs.attempt.attempts import stop_attempt

        add_webhook(user=world.user, url=hook.url)
        attempt = start(world)
        stop_attempt(attempt_id=attempt.pk, outcome=AttemptState.PREEMPTED, reason=Reason.PREEMPTED, actor="platform")
        end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        deliver()
        assert kinds_posted(hook) == ["preempted", "started"]
        assert hook.documents[-1]["data"]["job"]["state"] in {"queued", "active"}

    @pytest.mark.parametrize("act", [pause_job, partial(cancel_for, reason=Reason.STOPPED_EARLY)])
    def test_what_a_sweep_does_to_its_members_is_not_told(self, act: Any, world: World, hook: Hook) -> None:
        add_webhook(user=world.user, url=hook.url)
        group = submit_sweep(user=world.user, data=SWEEP | {"vc": world.vc.name})[0]
        cycle(world)
        job = Job.objects.get(group=group)
        (rank,) = ranks(live_attempt(job))
        run(claim(rank))
        act(job_id=job.pk, detail="loss 0.9", actor="platform")
        end(rank, Reason.KILLED_BY_SIGNAL, exit_code=143)
        deliver()
        assert kinds_posted(hook) == ["started"]

    def test_a_verdict_on_the_log_is_told_with_the_failure(
        self, world: World, hook: Hook, mail: MailServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        verdict = {
            "class": "out_of_memory",
            "category": "script",
            "retry": "no",
            "confidence": 0.9,
            "line": "torch.OutOfMemoryError: CUDA out of memory",
            "hint": "Lower the batch size.",
            "rank": 0,
        }
        add_webhook(user=world.user, url=hook.url)
        attempt = start(world)
        fail(attempt)
        if "failure" in {field.name for field in Attempt._meta.get_fields()}:
            Attempt.objects.filter(pk=attempt.pk).update(failure=verdict)
        else:
            monkeypatch.setattr(Attempt, "failure", verdict, raising=False)
        deliver()
        told = next(one for one in hook.documents if one["type"] == "job.failed")["data"]["failure"]
        assert told == {name: value for name, value in verdict.items() if name != "confidence"}
        (came,) = mail.mails
        assert "(out_of_memory)" in came["Subject"]
        assert "Lower the batch size." in came.get_content()


class TestChoices:
    def test_who_never_chose_has_the_default(self, world: World) -> None:
        assert choice_of(world.user) == DEFAULT
        assert not Preferences.objects.exists()

    def test_what_is_changed_leaves_the_rest(self, world: World) -> None:
        choose(user=world.user, changes={"webhook": ["failed"]})
        chosen = choose(user=world.user, changes={"weekly_digest": True})
        assert (chosen.mail, chosen.webhook, chosen.weekly_digest) == (DEFAULT.mail, {"failed"}, True)

    @pytest.mark.parametrize("field", ["mail", "webhook"])
    def test_an_unknown_kind_is_refused_with_its_field(self, world: World, field: str) -> None:
        with pytest.raises(Invalid) as refused:
            choose(user=world.user, changes={field: ["faild"]})
        assert [error.field for error in refused.value.errors] == [field]
        assert not Preferences.objects.exists()

    def test_who_wants_nothing_gets_nothing(self, world: World, mail: MailServer, hook: Hook) -> None:
        add_webhook(user=world.user, url=hook.url)
        choose(user=world.user, changes={"mail": [], "webhook": []})
        fail(start(world))
        deliver()
        assert (mail.mails, hook.calls) == ([], [])

    def test_who_asked_for_ends_hears_of_failures_once(self, world: World, mail: MailServer) -> None:
        choose(user=world.user, changes={"mail": ["ended", "failed"]})
        fail(start(world))
        choose(user=world.user, changes={"mail": ["ended"]})
        deliver()
        assert len(mail.mails) == 1

    def test_the_spec_of_a_job_takes_the_place_of_the_settings(
        self, world: World, mail: MailServer, hook: Hook
    ) -> None:
        add_webhook(user=world.user, url=hook.url)
        end(ranks(start(world, name="one", notify={"mail": ["ended"]}))[0])
        fail(start(world, name="two", notify=[]))
        deliver()
        assert len(mail.mails) == 1
        assert "one succeeded" in mail.subjects[0]
        assert hook.calls == []

    def test_who_has_left_hears_nothing(self, world: World, mail: MailServer) -> None:
        fail(start(world))
        world.user.is_active = False
        world.user.save(update_fields=["is_active"])
        deliver()
        assert mail.mails == []

    @pytest.mark.parametrize("address", ["", "nonsense", "a@b.org\r\nBcc: c@d.org"])
    def test_without_an_address_nothing_waits_for_ever(self, world: World, mail: MailServer, address: str) -> None:
        world.user.email = address
        world.user.save(update_fields=["email"])
        fail(start(world))
        deliver()
        assert not Outbox.objects.exists()

    def test_without_a_mail_server_nothing_waits_for_ever(self, world: World, settings: Any) -> None:
        settings.MAIL_TO_USERS = False
        fail(start(world))
        deliver()
        assert not Outbox.objects.exists()
        assert "E-mail is not set up here" in mails.why_no_mail(world.user)


class TestReading:
    def test_what_was_before_the_first_reading_is_not_told(self, world: World, mail: MailServer) -> None:
        Reader.objects.all().delete()
        fail(start(world))
        deliver()
        assert mail.mails == []
        fail(start(world))
        deliver()
        assert len(mail.mails) == 1

    def test_each_event_is_read_once_whatever_the_size_of_a_batch(self, world: World, hook: Hook) -> None:
        add_webhook(user=world.user, url=hook.url)
        for _ in range(4):
            end(ranks(start(world))[0])
        until_settled()
        while read_events(most=3):
            pass
        while deliver_webhooks():
            pass
        assert kinds_posted(hook) == ["ended"] * 4 + ["started"] * 4

    def test_a_reader_that_dies_in_the_middle_has_told_nothing_and_passed_nothing(
        self, world: World, mail: MailServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fail(start(world))
        before = Reader.objects.get()
        until_settled()

        def die(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(mails, "tell", die)
            with pytest.raises(KeyboardInterrupt):
                read_events()
        assert not Outbox.objects.exists()
        assert (now_of(before).tx, now_of(before).event_id) == (before.tx, before.event_id)
        deliver()
        assert len(mail.mails) == 1

    @pytest.mark.django_db(transaction=True)
    def test_of_two_readers_one_reads(self, world: World, mail: MailServer) -> None:
        fail(start(world))
        with transaction.atomic():
            Reader.objects.select_for_update().get()
            assert Other(read_events).result() == 0
        deliver()
        assert len(mail.mails) == 1

    @pytest.mark.django_db(transaction=True)
    def test_an_event_that_becomes_visible_late_is_not_passed_by(self, world: World, hook: Hook) -> None:
        add_webhook(user=world.user, url=hook.url)
        slow, quick = submit(world), submit(world)
        with transaction.atomic():
            cancel_job(user=world.user, job=slow)
            Other(lambda: cancel_job(user=world.user, job=quick)).result()
            Other(read_events).result()
        deliver()
        assert {one["data"]["job"]["id"] for one in hook.documents} == {slow.pk, quick.pk}


def make_failure(world: World, number: int, line: str) -> mails.Told:
    return mails.Told(
        world.user,
        Story(
            kind=mails_kind("failed"),
            at=timezone.now(),
            job_id=number,
            job_name=f"sweep-{number}",
            vc=world.vc.name,
            tenant=world.tenant.name,
            state="failed",
            failure={"class": "python_error", "line": line},
        ),
    )


def mails_kind(name: str) -> Any:
    from muster.jobs.spec.notify import Kind

    return Kind(name)


def tell(told: list[mails.Told], now: datetime | None = None) -> None:
    with transaction.atomic():
        mails.tell(told, now=now or timezone.now())


class TestManyMails:
    def test_a_sweep_of_a_thousand_failures_alike_is_two_mails(self, world: World, mail: MailServer) -> None:
        now = timezone.now()
        tell([make_failure(world, number, f"KeyError: 'lr' at step {number}") for number in range(1000)], now)
        deliver()
        assert len(mail.mails) == 1
        assert gather(now=now + timedelta(hours=23)) == 0
        assert gather(now=now + timedelta(hours=24, seconds=1)) == 1
        deliver()
        assert len(mail.mails) == 2
        text = mail.mails[1].get_content()
        assert mail.subjects[1] == "[Muster] 999 notices about your jobs"
        assert "999 more jobs like this: Job 1 sweep-1 failed (python_error)" in text
        assert "KeyError: 'lr' at step 1" in text
        assert gather(now=now + timedelta(days=3)) == 0

    def test_a_thousand_different_failures_are_ten_mails_and_one(self, world: World, mail: MailServer) -> None:
        now = timezone.now()
        words = [
            f"{chr(97 + number % 26)}{chr(97 + number // 26 % 26)}{chr(97 + number // 676)}" for number in range(1000)
        ]
        tell([make_failure(world, number, f"NameError: {word}") for number, word in enumerate(words)], now)
        deliver()
        assert len(mail.mails) == 10
        assert gather(now=now + timedelta(minutes=59)) == 0
        assert gather(now=now + timedelta(hours=1, seconds=1)) == 1
        deliver()
        assert mail.subjects[10] == "[Muster] 990 notices about your jobs"
        assert len(mail.mails[10].get_content()) < 20_000

    def test_the_gathered_mail_counts_as_one_of_the_next_hour(
        self, world: World, mail: MailServer, settings: Any
    ) -> None:
        settings.MAILS_PER_HOUR = 2
        now = timezone.now()
        tell([make_failure(world, number, f"E: {chr(97 + number)}") for number in range(5)], now)
        later = now + timedelta(hours=1, seconds=1)
        assert gather(now=later) == 1
        tell([make_failure(world, number, f"F: {chr(97 + number)}") for number in range(5)], later)
        deliver()
        assert len(mail.mails) == 2 + 1 + 1

    def test_one_users_sweep_delays_no_other_user(self, world: World, mail: MailServer, settings: Any) -> None:
        settings.MAILS_PER_HOUR = 1
        other = World(world.pool, world.tenant, make_user(email="otto@example.org"), world.vc, world.nodes)
        tell([make_failure(world, 1, "a"), make_failure(world, 2, "b"), make_failure(other, 3, "c")])
        deliver()
        assert sorted(str(one["To"]) for one in mail.mails) == ["olivia@example.org", "otto@example.org"]

    def test_a_limit_of_nothing_gathers_everything(self, world: World, mail: MailServer, settings: Any) -> None:
        settings.MAILS_PER_HOUR = 0
        now = timezone.now()
        tell([make_failure(world, 1, "a")], now)
        deliver()
        assert mail.mails == []
        assert gather(now=now + timedelta(hours=1)) == 1

    @pytest.mark.django_db(transaction=True)
    def test_two_that_gather_at_once_send_one_mail(self, world: World, mail: MailServer, settings: Any) -> None:
        settings.MAILS_PER_HOUR = 0
        tell([make_failure(world, 1, "a")])
        late = timezone.now() + timedelta(hours=2)
        with transaction.atomic():
            assert gather(now=late) == 1
            assert Other(lambda: gather(now=late)).result() == 0
        deliver()
        assert len(mail.mails) == 1

    def test_what_was_told_is_forgotten_once_it_decides_nothing(self, world: World, settings: Any) -> None:
        settings.MAIL_TO_USERS = True
        tell([make_failure(world, 1, "a"), make_failure(world, 2, "a")])
        assert forget_told() == 0
        assert forget_told(now=timezone.now() + timedelta(days=3)) == 1
        assert Notice.objects.get().due_at is not None

    def test_hostile_names_and_lines_change_no_header(self, world: World, mail: MailServer) -> None:
        line = "Boom\r\nBcc: victim@example.org\r\n\r\nHello"
        told = make_failure(world, 1, line)
        story = Story(
            **{name: getattr(told.story, name) for name in told.story.__slots__ if name not in {"job_name", "failure"}},
            job_name="x\r\nBcc: victim@example.org",
            failure={"class": line, "line": line, "hint": line},
        )
        tell([mails.Told(world.user, story)])
        deliver()
        (came,) = mail.mails
        assert came["Bcc"] is None
        assert "\n" not in came["Subject"]
        assert came["To"] == "olivia@example.org"


class TestMailServers:
    def test_an_address_that_the_server_does_not_know_is_given_up(self, world: World, mail: MailServer) -> None:
        mail.unknown.add("olivia@example.org")
        fail(start(world))
        deliver()
        row = Outbox.objects.get()
        assert row.dropped_at is not None
        assert "no such user" in row.last_error

    def test_one_that_is_down_delays_mail_and_after_three_days_it_is_given_up(
        self, world: World, mail: MailServer, settings: Any
    ) -> None:
        settings.EMAIL_PORT = 1
        fail(start(world))
        deliver()
        row = waiting().get()
        assert row.tries == 1
        let_pass(10, row, "due_at")
        let_pass(3 * 86_400, row, "give_up_at")
        deliver()
        assert now_of(row).dropped_at is not None
        assert mail.mails == []


MONDAY = datetime(2026, 3, 9, 7, tzinfo=UTC)
"""A Monday on which digests are sent; the week before it begins on March 2."""


class TestDigests:
    @pytest.fixture
    def week(self, world: World) -> World:
        choose(user=world.user, changes={"weekly_digest": True})
        Preferences.objects.update(digest_through="2026-03-02")
        within = datetime(2026, 3, 4, tzinfo=UTC)
        for state, reason, gpu_s in (
            (JobState.SUCCEEDED, Reason.COMPLETED, 7200),
            (JobState.FAILED, Reason.EXIT_NONZERO, 3600),
            (JobState.FAILED, Reason.EXIT_NONZERO, 0),
            (JobState.FAILED, Reason.NODE_LOST, 0),
        ):
            job = make_job(world.vc, world.user, state=state, ended_at=within, reason=reason, attained_gpu_s=gpu_s)
            Job.objects.filter(pk=job.pk).update(submitted_at=within)
        # Neither of this week nor this user's.
        make_job(world.vc, world.user, state=JobState.FAILED, ended_at=MONDAY, attained_gpu_s=9e9)
        make_job(world.vc, make_user(), state=JobState.FAILED, ended_at=within, attained_gpu_s=9e9)
        return world

    def test_it_counts_jobs_gpu_hours_and_failures_by_class(self, week: World, mail: MailServer) -> None:
        assert digest.send_digests(now=MONDAY) == 1
        deliver()
        (came,) = mail.mails
        assert came["Subject"] == "[Muster] Your week: 4 jobs, 3.0 GPU-hours"
        text = came.get_content().replace("\r\n", "\n")
        assert "Your week from 2026-03-02 to 2026-03-08 (UTC)." in text
        assert "Jobs submitted:   4" in text
        assert "       2  exit_nonzero\n       1  node_lost" in text

    def test_it_is_sent_once_a_week_and_not_before_its_hour(self, week: World, mail: MailServer) -> None:
        assert digest.send_digests(now=MONDAY - timedelta(hours=2)) == 0
        assert digest.send_digests(now=MONDAY) == 1
        assert digest.send_digests(now=MONDAY + timedelta(days=6)) == 0

    @pytest.mark.django_db(transaction=True)
    def test_two_workers_send_one(self, week: World, mail: MailServer) -> None:
        others = [Other(lambda: digest.send_digests(now=MONDAY)) for _ in range(2)]
        assert sum(other.result() for other in others) == 1

    def test_a_week_without_jobs_is_not_told(self, week: World, mail: MailServer) -> None:
        assert digest.send_digests(now=MONDAY + timedelta(days=14)) == 0
        assert not Outbox.objects.exists()

    def test_who_asks_for_it_gets_the_next_one_first(self, world: World) -> None:
        choose(user=world.user, changes={"weekly_digest": True})
        assert digest.send_digests() == 0
        assert Preferences.objects.get().digest_through is not None

    def test_nobody_gets_it_unasked(self, world: World, mail: MailServer) -> None:
        make_job(world.vc, world.user, state=JobState.FAILED, ended_at=MONDAY - timedelta(days=3))
        assert digest.send_digests(now=MONDAY) == 0


def test_a_job_of_a_gang_that_runs_is_told_to_have_started_once(world: World, hook: Hook) -> None:
    big = make_world(nodes=2, gpus=2)
    add_webhook(user=big.user, url=hook.url)
    attempt = start(big, gpus=2, nodes=2)
    cycle(big)
    deliver()
    assert [one["data"]["job"]["id"] for one in hook.documents] == [attempt.job_id]


class TestAdvice:
    def test_of_a_loss_that_is_no_number_the_owner_is_told_while_the_job_runs(self, world: World, hook: Hook) -> None:
        webhook, _ = add_webhook(user=world.user, url=hook.url)
        attempt = start(world)
        keep_points({attempt.pk: [("loss", float(step), math.nan) for step in range(1, 4)]})
        look_at_losses()
        until_settled()
        read_events()
        rows = Outbox.objects.filter(topic="webhook", payload__webhook=webhook.pk).order_by("pk")
        documents = [row.payload["document"] for row in rows]
        (told,) = [one for one in documents if one["type"] == "job.advice"]
        assert (told["data"]["reason"], told["data"]["job"]["state"]) == ("nan", "active")
        assert told["data"]["detail"].startswith("the last 3 losses are not finite")
        assert told["data"]["failure"] is None
