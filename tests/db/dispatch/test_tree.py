"""The tree of tenants in a snapshot."""

from __future__ import annotations

import pytest

from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.tenants.models import CommonQuota, Organisation, Quota
from scheduler import model
from tests.db.stories import World
from tests.factories import make_pool

pytestmark = pytest.mark.django_db


def test_a_snapshot_has_the_whole_way_up_with_the_limits_of_this_pool(world: World) -> None:
    top = Organisation.objects.create(name="university", weight=2)
    lab = Organisation.objects.create(name="lab", parent=top)
    Organisation.objects.create(name="elsewhere")
    world.tenant.organisation = lab
    world.tenant.save()
    world.vc.weight = 3
    world.vc.save()
    Quota.objects.filter(vc=world.vc).update(gpus=4, borrowing=2, lending=0)
    CommonQuota.objects.create(tenant=world.tenant, pool=world.pool, gpu_type="A100", gpus=2, lending=1)
    CommonQuota.objects.create(organisation=top, pool=world.pool, gpu_type="A100", gpus=1, borrowing=0)
    CommonQuota.objects.create(organisation=top, pool=make_pool("other"), gpu_type="A100", gpus=9)

    snapshot = pool_snapshot(world.pool, seed=0)

    assert snapshot.organisations == (
        model.Organisation(top.pk, "university", 2, None, {"A100": 1}, {"A100": 0}, {}),
        model.Organisation(lab.pk, "lab", 1, top.pk),
    )
    (tenant,), (vc,) = snapshot.tenants, snapshot.vcs
    assert (tenant.organisation_id, tenant.quotas, tenant.borrowing, tenant.lending) == (
        lab.pk,
        {"A100": 2},
        {},
        {"A100": 1},
    )
    assert (vc.weight, vc.quotas, vc.borrowing, vc.lending) == (3, {"A100": 4}, {"A100": 2}, {"A100": 0})
