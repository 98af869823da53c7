"""When a job starts, and the record of the forecasts, by REST."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.predictions.models import WaitOutcome, WaitRecord
from scheduler.predict.waits.features import NAMES, VERSION
from tests.api.asking import require_described
from tests.api.conftest import World
from tests.factories import make_pool

pytestmark = pytest.mark.django_db

Api = Callable[[User | None], Client]
LIKELY = {"model": [0.83, 5.0, 60.0, 900.0]}
LATE = {"model": [0.1, 600.0, 7200.0, 21_600.0]}


def recorded(job: Any, forecasts: dict[str, list[float]], **fields: Any) -> WaitRecord:
    return WaitRecord.objects.create(
        **{
            "job": job,
            "pool": job.vc.pool,
            "version": VERSION,
            "features": [0.0] * len(NAMES),
            "forecasts": forecasts,
            "eligible_at": timezone.now(),
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("forecasts", "says"),
    [(LIKELY, "likely within 10 minutes (83 %)"), (LATE, "in about 2 h (p50), within 6 h with 90 %")],
)
def test_a_waiting_jobs_start_is_told_in_words_and_numbers(
    forecasts: dict[str, list[float]], says: str, world: World, api: Api
) -> None:
    recorded(world.waiting, forecasts)
    client = api(world.owner)
    answer = client.get(f"/api/v1/jobs/{world.waiting.pk}/when")
    require_described("GET", f"/api/v1/jobs/{world.waiting.pk}/when", answer)
    told = answer.json()
    assert told["submitted"]["says"] == says
    # Some milliseconds have passed since.
    assert told["wait"]["says"].split(" (")[0] == says.split(" (", maxsplit=1)[0]
    assert (told["wait"]["source"], told["wait_unknown"], told["started_at"]) == ("model", "", None)
    assert told["eligible_at"] < told["starts_p50_at"] < told["starts_p90_at"]
    assert client.get(f"/api/v1/jobs/{world.waiting.pk}/why").json()["wait"]["source"] == "model"


def test_a_held_jobs_forecast_counts_from_its_release_and_names_no_moment(world: World, api: Api) -> None:
    recorded(world.waiting, LIKELY, eligible_at=None)
    client = api(world.owner)
    client.post(f"/api/v1/jobs/{world.waiting.pk}:hold")
    told = client.get(f"/api/v1/jobs/{world.waiting.pk}/when").json()
    assert told["wait"]["p90_s"] == pytest.approx(900)
    assert (told["eligible_at"], told["starts_p50_at"], told["waited_s"]) == (None, None, None)


def test_a_started_job_has_its_wait_beside_the_forecast_of_its_submission(world: World, api: Api) -> None:
    recorded(world.running, LIKELY)
    told = api(world.owner).get(f"/api/v1/jobs/{world.running.pk}/when").json()
    assert (told["wait"], told["wait_unknown"]) == (None, "")
    assert told["submitted"]["quick"] == 0.83
    assert told["started_at"] is not None


def test_a_dry_run_of_a_pool_without_starts_says_so(world: World, api: Api) -> None:
    answer = api(world.owner).post(
        "/api/v1/jobs:dry-run", {"command": "true", "gpus": 1, "vc": world.vc.name}, content_type="application/json"
    )
    told = answer.json()
    assert told["wait"] is None
    assert told["wait_unknown"]


def test_the_record_of_a_pool_links_only_jobs_that_the_caller_may_see(world: World, api: Api) -> None:
    since = timezone.now() - timedelta(hours=3)
    recorded(world.running, LIKELY, eligible_at=since, outcome=WaitOutcome.STARTED, over_at=since + timedelta(hours=1))
    path = f"/api/v1/predictions/waits?pool={world.pool.name}&weeks=2"
    answer = api(world.owner).get(path)
    require_described("GET", path, answer)
    told = answer.json()
    assert (told["unknown"], told["total"]["jobs"], told["total"]["p90_coverage"]) == ("", 1, 0.0)
    assert [one["id"] for one in told["worst"]] == [world.running.pk]
    assert told["reliability"] == [{"begins": 0.8, "ends": 0.9, "expected": 0.83, "real": 0.0, "jobs": 1}]
    assert "1 waits" in told["drift"]["says"]
    strangers = api(world.stranger).get(path).json()
    assert (strangers["total"], strangers["worst"]) == (told["total"], [])


@pytest.mark.parametrize(("query", "status"), [("pool=none", 404), ("", 422), ("pool={pool}&weeks=0", 422)])
def test_a_wrong_question_about_the_record_is_refused(query: str, status: int, world: World, api: Api) -> None:
    answer = api(world.owner).get(f"/api/v1/predictions/waits?{query.format(pool=world.pool.name)}")
    assert answer.status_code == status


def test_a_pool_without_a_virtual_cluster_of_the_callers_is_not_found(world: World, api: Api) -> None:
    other = make_pool()
    assert api(world.owner).get(f"/api/v1/predictions/waits?pool={other.name}").status_code == 404
    assert api(world.operator).get(f"/api/v1/predictions/waits?pool={other.name}").status_code == 200
