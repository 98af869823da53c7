"""Sums of what screening saved and cost; and settings that would screen jobs in a circle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from muster.screening.models import PoolScreening, ScreeningResult
from muster.screening.selectors import passed_of_late, screening_totals, tenant_cap
from tests.db.stories import World, make_world, place
from tests.factories import make_pool

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 3, 2, 12, tzinfo=UTC)


def tried(world: World, verdict: str, *, attempt: bool = True, **fields: Any) -> ScreeningResult:
    """A screening run of a job that was just submitted."""
    one = place(world)
    fields = {"gpus_asked": 8, "digest": "d", "at": MONDAY, **fields}
    return ScreeningResult.objects.create(
        job=one.job,
        tenant=world.tenant,
        pool=world.pool,
        attempt=one if attempt else None,
        verdict=verdict,
        **fields,
    )


def period(**how: Any) -> Any:
    return screening_totals(since=MONDAY - timedelta(days=1), until=MONDAY + timedelta(days=30), **how)


def test_screening_runs_are_summed_by_verdict_and_what_was_not_tried_is_no_screening_run() -> None:
    world = make_world(gpus=8)
    tried(world, "passed", spent_gpu_s=600)
    tried(world, "failed", failure="import_error", spent_gpu_s=40, full_gpu_s=160, saved_gpu_s=160)
    tried(world, "inconclusive", failure="nccl_timeout", spent_gpu_s=20, full_gpu_s=80)
    tried(world, "untried", attempt=False)
    tried(world, "trusted", attempt=False)
    (totals,) = period()
    assert (totals.key, totals.tried, totals.passed, totals.failed, totals.untried, totals.trusted) == (
        (),
        3,
        1,
        1,
        1,
        1,
    )
    assert (totals.spent_gpu_s, totals.saved_gpu_s, totals.full_gpu_s) == (660, 160, 240)
    assert screening_totals(since=MONDAY + timedelta(seconds=1), until=MONDAY + timedelta(days=1)) == []


def test_they_are_grouped_by_time_tenant_and_class() -> None:
    one, other = make_world(gpus=8), make_world(gpus=8)
    tried(one, "failed", failure="import_error", saved_gpu_s=5)
    tried(one, "failed", failure="import_error", saved_gpu_s=7, at=MONDAY + timedelta(days=1))
    tried(other, "failed", failure="file_not_found", saved_gpu_s=9)
    of_tenant = {totals.key: totals.saved_gpu_s for totals in period(by=["tenant", "failure"])}
    assert of_tenant == {(one.tenant.name, "import_error"): 12, (other.tenant.name, "file_not_found"): 9}
    days = {totals.key[0].date().isoformat(): totals.failed for totals in period(by=["day"])}
    assert days == {"2026-03-02": 2, "2026-03-03": 1}
    assert [totals.failed for totals in period(tenant_ids=[other.tenant.pk])] == [1]


def test_what_has_passed_is_trusted_for_a_time_and_by_its_own_tenant() -> None:
    world, stranger = make_world(), make_world()
    found = tried(world, "passed", at=datetime.now(UTC) - timedelta(days=3))
    assert passed_of_late(tenant_id=world.tenant.pk, digest="d", trust_days=7) == found
    assert passed_of_late(tenant_id=world.tenant.pk, digest="d", trust_days=2) is None
    assert passed_of_late(tenant_id=world.tenant.pk, digest="d", trust_days=0) is None
    assert passed_of_late(tenant_id=world.tenant.pk, digest="e", trust_days=7) is None
    assert passed_of_late(tenant_id=stranger.tenant.pk, digest="d", trust_days=7) is None
    tried(world, "inconclusive", digest="e", at=datetime.now(UTC))
    assert passed_of_late(tenant_id=world.tenant.pk, digest="e", trust_days=7) is None


def test_no_pool_screens_for_itself_or_in_a_circle() -> None:
    main, small, other = make_pool(), make_pool(), make_pool()
    PoolScreening.objects.create(pool=main, screening_pool=small, tenant_gpus=3)
    for pool, screening_pool, field, words in (
        (other, other, "screening_pool", "for itself"),
        (other, main, "screening_pool", "screened in another pool themselves"),
        (small, other, "pool", f"where jobs of {main} are screened"),
        (small, main, "screening_pool", "screened in another pool themselves"),
    ):
        with pytest.raises(ValidationError) as caught:
            PoolScreening(pool=pool, screening_pool=screening_pool).full_clean()
        assert words in str(caught.value.message_dict[field])
    PoolScreening(pool=other, screening_pool=small).full_clean()
    assert (tenant_cap(small), tenant_cap(main)) == (3, 0)
    with transaction.atomic(), pytest.raises(IntegrityError, match="screening_in_another_pool"):
        PoolScreening.objects.create(pool=other, screening_pool=other)
