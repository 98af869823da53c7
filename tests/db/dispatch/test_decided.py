"""What the pool's page in the admin tells of the last round of a policy that gives out shares of time."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from muster.dispatch.decided import last_round
from muster.dispatch.knowledge import knowledge_of
from muster.samples.rates import refresh_rates
from muster.tenants.models import Quota
from tests.db.stories import World, cycle, make_world, submit
from tests.factories import make_node, make_user

pytestmark = pytest.mark.django_db

WHOLE = {"gpus": {"any_of": ["A100:4", "V100:4"]}}


@pytest.fixture
def world() -> World:
    """A pool of two types under gavel, with two jobs that claim their rates and one cycle behind it."""
    world = make_world(gpus=4, policy="gavel")
    make_node(world.pool, "volta01", gpus=4, gpu_type="V100")
    Quota.objects.create(vc=world.vc, gpu_type="V100", gpus=4)
    submit(world, **WHOLE, name="little", throughput={"A100": 3, "V100": 2})
    submit(world, **WHOLE, name="much", throughput={"A100": 20, "V100": 2})
    refresh_rates()
    cycle(world)
    return world


def page_of(world: World, client: Client) -> str:
    client.force_login(make_user("olga", operator=True))
    return client.get(reverse("admin:fleet_pool_change", args=[world.pool.pk])).content.decode()


def test_each_job_has_its_shares_with_rates_and_a_reason(world: World) -> None:
    found = last_round(world.pool)
    assert found is not None
    assert found.ends_at > found.solved_at
    rows = {row.title.split()[1]: row for row in found.rows}
    assert rows.keys() == {"little", "much"}
    (fast,) = [one for one in rows["much"].by_type if one.gpu_type == "A100"]
    assert fast.share == pytest.approx(0.5, abs=0.01)
    assert fast.rate is not None
    assert (fast.rate.per_s, fast.rate.source) == (pytest.approx(20), "claimed")
    assert rows["much"].why.startswith("runs on A100: its share of time is ")


def test_the_pools_page_shows_them(world: World, client: Client) -> None:
    text = page_of(world, client)
    assert "runs on A100: its share of time is" in text
    assert "per s, claimed" in text
    assert "Of 2 jobs with GPUs, rates are known for 2 (2 claimed), and the expected run time for 0." in text


def test_a_policy_that_is_an_order_has_no_shares(world: World, client: Client) -> None:
    world.pool.policy = "fifo"
    world.pool.save()
    submit(world, gpus=1)
    cycle(world)
    assert "gives out no shares of time" in page_of(world, client)
    assert str(knowledge_of(world.pool)).startswith("Of 3 jobs with GPUs, rates are known for 2")
