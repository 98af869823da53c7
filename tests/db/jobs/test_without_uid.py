"""Operators find the jobs that ran while their user had no uid."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from muster.events.services import audit
from muster.jobs.models import Allocation
from scheduler.model.lifecycle import AttemptState, Reason
from tests.factories import make_attempt, make_job, make_node, make_pool, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db


def listed() -> str:
    output = StringIO()
    call_command("jobs_without_uid", stdout=output)
    return output.getvalue()


def test_it_lists_jobs_by_user_and_node_and_what_to_rotate() -> None:
    pool = make_pool()
    tenant = make_tenant()
    vc = make_vc(tenant, pool)
    node = make_node(pool, "gpu01")
    ada, bob = make_user("ada", tenant=tenant, uid=4321), make_user("bob", tenant=tenant)
    audit(
        "assign_uid", actor="migration", object_type="user", object_id="ada", before={"uid": None}, after={"uid": 4321}
    )
    before, after, of_bob = (make_job(vc, owner) for owner in (ada, ada, bob))
    for job, claimed in ((before, timedelta(days=-1)), (after, timedelta(days=1)), (of_bob, timedelta(days=-1))):
        attempt = make_attempt(job, [node], state=AttemptState.FAILED, reason=Reason.EXIT_NONZERO)
        Allocation.objects.filter(attempt=attempt).update(claimed_at=timezone.now() + claimed)
    first, *rest = listed().splitlines()
    assert first.startswith(f"ada (uid 4321 now): 1 jobs on gpu01, the last one, job {before.pk}, at ")
    assert not any("bob" in line for line in rest)
    assert any("rotate_keys" in line for line in rest)


def test_it_says_that_there_is_none() -> None:
    assert listed() == "No job ran for a user without a uid.\n"
