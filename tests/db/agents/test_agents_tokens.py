"""The token in the environment of a batch script."""

from __future__ import annotations

import pytest

from muster.agents.launch import launch_spec
from muster.jobs.attempt.tokens import job_token
from muster.jobs.models import Allocation, Job
from tests.db.stories import make_world, ranks, start

pytestmark = pytest.mark.django_db


def test_only_a_batch_script_gets_it() -> None:
    attempt = start(make_world(nodes=1, gpus=1))
    (rank,) = ranks(attempt)

    def environment() -> dict[str, str]:
        allocation = Allocation.objects.select_related("attempt__job", "node__pool").get(pk=rank.pk)
        return dict(launch_spec(allocation.node, allocation).env)

    assert "MUSTER_JOB_TOKEN" not in environment()
    Job.objects.filter(pk=attempt.job_id).update(spec={**attempt.job.spec, "batch": {}})
    assert environment()["MUSTER_JOB_TOKEN"] == job_token(attempt.pk)
