"""A node that fails whatever comes to it is cordoned, with the evidence, and nobody pays for it twice."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import mail

from muster.events.delivery import deliver_due
from muster.events.models import AuditEntry, Event
from muster.fleet.models import Node, Pool
from muster.fleet.services import resume_node
from muster.jobs.models import Attempt, Job
from scheduler.lifecycle import Reason
from tests.db.stories import (
    World,
    claim,
    cycle,
    end,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    place,
    ranks,
    run,
    start,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]


@pytest.fixture
def world() -> World:
    """Two nodes: one job of the same command as those that fail goes on at the other one."""
    world = make_world(nodes=2)
    good = start(world, gpus=4, command="python train.py")
    let_pass(3600, good, "running_at")
    return world


def bad_node(world: World) -> Node:
    held = ranks(Attempt.objects.earliest("pk"))[0].node_id
    return next(node for node in world.nodes if node.pk != held)


def begin(world: World, **spec: Any) -> Attempt:
    attempt = place(world, command="python train.py", **spec)
    run(claim(ranks(attempt)[0]))
    return attempt


def fail(attempt: Attempt, reason: Reason = Reason.EXIT_NONZERO) -> None:
    end(ranks(attempt)[0], reason)


def test_the_third_job_in_a_row_cordons_its_node(world: World) -> None:
    node = bad_node(world)
    for _ in range(2):
        fail(begin(world))
    assert now_of(node).admin == "active"
    fail(begin(world))
    found = now_of(node)
    assert found.admin == "cordoned"
    assert found.black_hole_at is not None
    assert found.reason == (
        "3 jobs in a row failed here within 60 s; the same commands did well in 1 of 1 cases elsewhere"
    )
    event = Event.objects.get(kind="node.black_hole")
    assert (event.data["well_elsewhere"], event.data["quick_elsewhere"], len(event.data["jobs"])) == (1, 0, 3)
    assert AuditEntry.objects.filter(action="cordoned", object_id=node.name, actor="platform").exists()


def test_operators_are_told_by_mail(world: World, settings: Any) -> None:
    settings.OPERATORS_MAIL = ["ops@example.org"]
    for _ in range(3):
        fail(begin(world))
    deliver_due()
    (message,) = mail.outbox
    assert message.subject == f"Node {Node.objects.get(admin='cordoned').name} fails its jobs and was cordoned"


def test_what_made_it_known_and_what_still_lay_there_are_tried_elsewhere(world: World) -> None:
    node = bad_node(world)
    late = begin(world)
    for _ in range(3):
        fail(begin(world))
    assert Job.objects.filter(state="failed").count() == 2
    fail(late)
    job = now_of(late.job)
    assert (job.state, job.avoid_nodes, job.retries_used) == ("queued", [node.pk], 1)


def test_a_job_that_ran_for_long_before_it_failed_pays_itself(world: World) -> None:
    old = begin(world)
    for _ in range(3):
        fail(begin(world))
    let_pass(3600, old, "placed_at")
    fail(old)
    assert now_of(old.job).state == "failed"


def test_where_nothing_is_known_of_a_command_it_is_tried_elsewhere_before_anybody_is_blamed() -> None:
    world = make_world(nodes=2)
    jobs = []
    for number in range(3):
        attempt = begin(world, name=f"sweep-{number}")
        jobs.append(attempt.job)
        fail(attempt)
    assert [now_of(job).state for job in jobs] == ["failed", "failed", "queued"]
    assert not Node.objects.exclude(admin="active").exists()

    let_pass(60, jobs[2], "eligible_at")
    cycle(world)
    again = live_attempt(jobs[2])
    assert ranks(again)[0].node_id not in now_of(jobs[2]).avoid_nodes
    run(claim(ranks(again)[0]))
    fail(again)
    assert now_of(jobs[2]).state == "failed"  # it fails there as well, so it is the command
    last = begin(world)
    fail(last)
    assert now_of(last.job).state == "failed"
    assert not Node.objects.exclude(admin="active").exists()


@pytest.mark.parametrize("reason", [Reason.TIME_LIMIT, Reason.IMAGE_NOT_FOUND, Reason.OUT_OF_MEMORY])
def test_an_end_that_is_the_jobs_own_says_nothing(world: World, reason: Reason) -> None:
    for _ in range(4):
        fail(begin(world), reason)
    assert now_of(bad_node(world)).admin == "active"


def test_a_node_that_was_given_back_needs_three_more(world: World) -> None:
    node = bad_node(world)
    for _ in range(3):
        fail(begin(world))
    resume_node(node=now_of(node), reason="new disk", actor="olga")
    assert now_of(node).black_hole_at is None
    for _ in range(2):
        fail(begin(world))
    assert now_of(node).admin == "active"
    fail(begin(world))
    assert now_of(node).admin == "cordoned"


def test_a_pool_may_turn_it_off(world: World) -> None:
    Pool.objects.update(black_hole_jobs=0)
    for _ in range(5):
        fail(begin(world))
    assert now_of(bad_node(world)).admin == "active"


def test_a_job_that_goes_on_among_them_clears_the_node(world: World) -> None:
    for _ in range(2):
        fail(begin(world))
    well = begin(world)
    let_pass(3600, well, "running_at")
    fail(begin(world))
    assert now_of(bad_node(world)).admin == "active"


def test_of_a_gang_only_the_rank_that_failed_speaks_against_its_node() -> None:
    world = make_world(nodes=3)
    for _ in range(3):
        gang = place(world, nodes=2, gpus=4, command="torchrun train.py")
        for allocation in ranks(gang):
            run(claim(allocation))
        first, second = ranks(gang)
        end(first, Reason.EXIT_NONZERO)
        end(second, Reason.KILLED_BY_SIGNAL, exit_code=143)
    assert not Node.objects.exclude(admin="active").exists()
