"""Loans between virtual clusters, as cycles record them."""

from __future__ import annotations

import pytest

from muster.fleet.models import Pool
from muster.tenants.models import Loan
from tests.db.stories import World, cycle, end, make_world, ranks, start
from tests.factories import make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """A virtual cluster with half of the pool's quota, under an admission that lends."""
    world = make_world(gpus=4, quota=2)
    Pool.objects.filter(pk=world.pool.pk).update(admission="borrow")
    return world


def test_a_loan_begins_when_gpus_are_held_beyond_the_quota_and_ends_with_the_job(world: World) -> None:
    lender = make_vc(pool=world.pool, quotas={"A100": 2})
    attempt = start(world, gpus=4, **{"class": "opportunistic"})
    cycle(world)
    (loan,) = Loan.objects.all()
    assert (loan.borrower, loan.lender_vc, loan.gpu_type, loan.gpus) == (world.vc, lender, "A100", 2)
    assert loan.until is None
    cycle(world)
    assert Loan.objects.count() == 1
    for allocation in ranks(attempt):
        end(allocation)
    cycle(world)
    loan.refresh_from_db()
    assert loan.until is not None
