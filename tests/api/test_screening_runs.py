"""Screening runs over REST: the plan for one, the wait for it, and its result."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.api.jobs.render import job_document, job_list
from muster.dispatch.explain.forecast import dry_run
from muster.dispatch.explain.selectors import why
from muster.events.models import Event
from muster.jobs.models import Job
from muster.jobs.spec.notify import Kind
from muster.notices.reading import _names_of, kind_of
from muster.screening.services import go_on_unscreened
from tests.db.jobs.test_verdicts import BROKEN_CODE
from tests.db.screening.test_screening import GANG, Screened, fail, over, running
from tests.db.stories import cycle, live_attempt, now_of
from tests.factories import make_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def pools() -> Screened:
    return Screened()


def kinds_told(job: Job) -> list[set[Kind]]:
    """By which kinds the owner hears of the job's events, in their order."""
    events = [(event, kind_of(event)) for event in Event.objects.filter(job_id=job.pk).order_by("pk")]
    return [_names_of(event, kind) for event, kind in events if kind is not None]


def dry(pools: Screened, **spec: Any) -> Any:
    user: User = pools.main.user
    return dry_run(user=user, data={"command": "true", "vc": pools.main.vc.name, **GANG, **spec})


class TestBefore:
    def test_a_dry_run_tells_of_the_screening_run_and_stores_nothing(self, pools: Screened) -> None:
        answer = dry(pools)
        assert answer.outlook.run is not None
        assert answer.outlook.why == f"on 2 GPUs of pool {pools.small.pool.name}, for 5 min at most"
        assert (answer.starts_now, answer.hold, Job.objects.count()) == (False, None, 0)
        assert answer.screening.starts_now

    def test_and_why_the_screening_run_would_wait(self, pools: Screened, client: Client) -> None:
        pools.tried()
        said = client.post(
            "/api/v1/jobs:dry-run",
            {"command": "true", "vc": pools.main.vc.name, **GANG},
            content_type="application/json",
            headers={"Authorization": f"Bearer {make_token(pools.main.user)}"},
        ).json()
        assert (said["starts_now"], said["hold"]) == (False, None)
        result = said["screening"]
        assert (result["tried"], result["starts_now"], result["hold"]["reason"]) == (True, False, "quota")
        assert "screening of" in result["hold"]["detail"]

    @pytest.mark.parametrize(
        ("spec", "words"),
        [
            ({"screening": "never"}, "its spec says that it is not screened"),
            ({"nodes": 1, "gpus": 1}, "no larger than a screening run"),
            ({"nodes": 1, "gpus": 2}, "no more than 2 GPUs"),
        ],
        ids=str,
    )
    def test_or_of_why_there_is_none(self, pools: Screened, spec: dict[str, Any], words: str) -> None:
        answer = dry(pools, **spec)
        assert words in answer.outlook.why
        assert answer.starts_now


class TestMeanwhile:
    def test_it_says_that_it_waits_for_its_screening_run_and_that_its_place_is_kept(self, pools: Screened) -> None:
        job = pools.submit()
        answer = why(now_of(job))
        assert (answer["reason"], answer["position"]) == ("screening", 1)
        assert f"on 2 GPUs of pool {pools.small.pool.name}" in answer["detail"]
        assert f"its place in the queue of {job.vc.name} is kept" in answer["detail"]
        assert answer["evidence"]["goes_on_unscreened_in_s"] == pytest.approx(600, abs=60)

    def test_what_it_waits_for_is_told_with_it(self, pools: Screened) -> None:
        pools.tried()
        job = pools.submit(command="other")
        cycle(pools.small)
        answer = why(now_of(job))
        assert "screening of" in answer["detail"]
        assert answer["helps"]

    def test_it_says_that_it_is_in_its_screening_run(self, pools: Screened) -> None:
        job = pools.tried().job
        assert "it is in its screening run on 2 GPUs" in why(now_of(job))["detail"]
        (shown,) = job_list([now_of(job)])
        assert (shown["state"], shown["stage"], shown["started_at"]) == ("active", "screening", None)


class TestAfter:
    def test_the_job_has_what_its_screening_runs_said(self, pools: Screened) -> None:
        job = fail(pools.tried(), BROKEN_CODE)
        (result,) = job_document(job)["screening_runs"]
        assert (result["verdict"], result["attempt"], result["gpus"], result["gpus_asked"]) == ("failed", 1, 2, 8)
        assert result["line"] == "ModuleNotFoundError: No module named 'nowhere'"
        assert job_document(job)["failure"]["class"] == "import_error"

    def test_a_verdict_is_told_and_a_screening_run_is_no_start(self, pools: Screened) -> None:
        passed = over(pools.tried()).job
        assert kinds_told(passed)[-1:] == [{Kind.SCREENING}]
        assert Kind.REQUEUED not in set().union(*kinds_told(passed))
        cycle(pools.main)
        running(live_attempt(passed))
        assert kinds_told(passed)[-1:] == [{Kind.STARTED}]
        failed = fail(pools.tried(command="other"), BROKEN_CODE)
        assert kinds_told(failed)[-1:] == [{Kind.FAILED, Kind.ENDED, Kind.SCREENING}]

    def test_who_goes_on_untried_reads_why(self, pools: Screened) -> None:
        job = pools.submit()
        go_on_unscreened(job_id=job.pk, why="it waited for its screening run for 600 s")
        (result,) = job_document(now_of(job))["screening_runs"]
        assert (result["verdict"], result["attempt"]) == ("untried", None)
        assert result["detail"] == "it waited for its screening run for 600 s"
