"""The last round of a policy that gives out shares of time, on the pool's page in the admin."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from muster.dispatch.config.knowledge import knowledge_of
from muster.dispatch.explain.decided import last_round, recent_spells, solve_in_words
from muster.dispatch.models import PolicyState
from muster.jobs.models import Attempt
from muster.samples.rates import refresh_rates
from muster.tenants.models import Quota
from scheduler.bases.rounds import Solve
from scheduler.model.lifecycle import AttemptState
from tests.db.stories import World, cycle, make_world, submit
from tests.factories import make_attempt, make_node, make_user

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


def test_auctions_are_on_another_page(world: World, client: Client) -> None:
    world.pool.policy = "themis"
    world.pool.save()
    text = page_of(world, client)
    assert "themis follows no order of the queue" in text
    assert f'href="/fairness?pool={world.pool.name}"' in text


def test_a_solve_counts_what_was_received_until_the_last_cycle(world: World) -> None:
    found = last_round(world.pool)
    assert found is not None
    assert (found.total, found.round_s, found.counted_at) == (2, 360, found.solved_at)
    fast, slow = (row.by_type for row in found.rows)
    assert {one.received for one in (*fast, *slow)} == {0}
    assert sorted(one.turn or 0 for row in found.rows for one in row.by_type if one.gpu_type == "A100") == [1, 2]


def test_the_page_draws_shares_and_the_last_rounds(world: World, client: Client) -> None:
    (run,) = Attempt.objects.filter(job__name="much")
    began, ended = run.placed_at - timedelta(seconds=600), run.placed_at - timedelta(seconds=60)
    old = make_attempt(submit(world, **WHOLE, name="gone"), world.nodes, state=AttemptState.FAILED, reason="exit")
    Attempt.objects.filter(pk=old.pk).update(placed_at=began, ended_at=ended)
    text = page_of(world, client)
    assert 'class="share"><i style="width:50.0%"></i><b style="left:0.0%"></b></span>50%, 0%' in text
    assert f"#{old.job_id} gone ({world.tenant.name})" in text
    drawn = re.findall(r'<i class="type type-1" style="left:([0-9.]+)%;width:([0-9.]+)%" title="4 A100 from', text)
    assert float(drawn[-1][1]) == pytest.approx(100 * 540 / 2160, abs=0.5)
    spells = recent_spells(world.pool, began + timedelta(seconds=545))
    assert [job.name for job in spells] == ["little", "much"]


def test_a_pool_whose_policy_has_not_decided_says_so(client: Client) -> None:
    world = make_world(policy="gavel")
    assert last_round(world.pool) is None
    assert "gavel has not decided yet" in page_of(world, client)


@pytest.mark.parametrize(
    ("solve", "words"),
    [
        (Solve(1, 1, 1), "1 job was solved exactly."),
        (Solve(3120, 104, 1), "3,120 jobs were solved as 104 kinds of equal jobs, which loses nothing."),
        (
            Solve(9000, 9000, 5, 0.00912),
            "9,000 jobs were solved in 5 random parts, which loses at most 0.912 % of the optimum.",
        ),
        (Solve(9, 9, 2), "9 jobs were solved in 2 random parts. How much that loses is not known for this objective."),
    ],
)
def test_a_solve_in_words(solve: Solve, words: str) -> None:
    assert solve_in_words(solve) == words


def test_a_solve_in_parts_tells_what_it_loses_at_most(world: World, client: Client) -> None:
    world.pool.policy_params = {"exact_up_to": 8, "reset_s": 0, "round_s": 1}
    world.pool.save()
    for number in range(20):
        submit(world, **WHOLE, name=f"n{number}", throughput={"A100": 3 + number, "V100": 2})
    refresh_rates()
    PolicyState.objects.all().delete()
    cycle(world)
    found = last_round(world.pool)
    assert found is not None
    assert found.solve is not None
    assert (found.solve.jobs, found.solve.rows, found.solve.parts) == (22, 20, 3)
    assert 0 < (found.solve.lost or 0) < 0.5
    assert "in 3 random parts, which loses at most" in page_of(world, client)
