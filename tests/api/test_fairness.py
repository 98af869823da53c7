"""Finish-time fairness over REST."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.jobs.models import Attempt, Job
from tests.api.asking import require_described
from tests.api.conftest import World

Api = Callable[[User | None], Client]


def test_a_running_job_has_its_figures_as_it_stands(world: World, api: Api) -> None:
    now = timezone.now()
    Job.objects.filter(pk=world.running.pk).update(submitted_at=now - timedelta(minutes=48), expected_s=3600.0)
    Attempt.objects.filter(job=world.running).update(placed_at=now - timedelta(minutes=30))
    path = f"/api/v1/jobs/{world.running.pk}/fairness"
    answer = api(world.owner).get(path)
    require_described("GET", path, answer)
    found = answer.json()
    assert found["final"] is False
    # A share of the quota, 4 of its 8 A100 that the pool has, for each of two jobs.
    assert (found["quota_gpus"], found["pool_gpus"]) == (4, 4)
    assert found["rho_quota"] == pytest.approx(1.3, abs=1e-3)
    assert found["sentence"] == "1.3× slower than with your own 4 GPUs, as it stands"


def test_a_job_without_an_expected_run_time_says_what_to_do(world: World, api: Api) -> None:
    path = f"/api/v1/jobs/{world.waiting.pk}/fairness"
    answer = api(world.owner).get(path)
    require_described("GET", path, answer)
    assert answer.json()["rho_quota"] is None
    assert "give `expected` or `time` in the spec" in answer.json()["sentence"]
