"""A node on which every job fails is cordoned, with the evidence, and no job is charged twice for it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import mail

from muster.events.delivery import deliver_due
from muster.events.models import AuditEntry, Event
from muster.fleet.disks import note_disk
from muster.fleet.models import Node, Pool
from muster.fleet.services import resume_node
from muster.jobs.attempt.attempts import End, report_kept
from muster.jobs.models import Attempt, Job
from scheduler.model.reasons import Reason
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
    rank_of,
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


def test_a_node_whose_disk_is_full_is_not_cordoned_for_that_and_its_jobs_are_tried_elsewhere(world: World) -> None:
    node = bad_node(world)
    attempts = [begin(world) for _ in range(3)]
    note_disk(node=node, full=True)
    for attempt in attempts:
        fail(attempt)
    assert (now_of(node).admin, now_of(node).black_hole_at) == ("active", None)
    assert now_of(attempts[-1].job).state == "queued"


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


class TestKept:
    """A failed job's surroundings may be kept: it has failed all the same."""

    @pytest.fixture
    def world(self) -> World:
        world = make_world(nodes=2, keep_failed_max_s=7200)
        good = start(world, gpus=4, command="python train.py")
        let_pass(3600, good, "running_at")
        for node in world.nodes:
            let_pass(3600, node, "created_at")
        return world

    def begin(self, world: World) -> Attempt:
        return begin(world, keep_failed="1h", gpus=1)

    def keep(self, attempt: Attempt) -> Attempt:
        (rank,) = ranks(attempt)
        how = End(reason=Reason.EXIT_NONZERO, exit_code=1, detail="exit status 1")
        report_kept(rank_of(rank), end=how, left_s=3600.0)
        return attempt

    def half_an_hour_ago(self, attempt: Attempt) -> None:
        let_pass(1800, attempt, "placed_at", "running_at")
        let_pass(1800, ranks(attempt)[0], "claimed_at", "failed_at")

    def test_their_node_is_cordoned_while_they_are_kept(self, world: World) -> None:
        node = bad_node(world)
        kept = [self.keep(self.begin(world)) for _ in range(2)]
        assert now_of(node).admin == "active"
        kept.append(self.keep(self.begin(world)))
        assert now_of(node).admin == "cordoned"
        assert {now_of(attempt).state for attempt in kept} == {"running"}
        event = Event.objects.get(kind="node.black_hole")
        assert sorted(event.data["jobs"]) == sorted(attempt.job_id for attempt in kept)
        for attempt in kept:
            self.half_an_hour_ago(attempt)
            fail(attempt)
        assert {now_of(attempt.job).state for attempt in kept} == {"queued"}  # tried elsewhere: it was the node

    def test_being_kept_for_long_is_no_sign_of_health(self, world: World) -> None:
        node = bad_node(world)
        kept = self.keep(self.begin(world))
        self.half_an_hour_ago(kept)
        fail(kept)
        for _ in range(2):
            fail(begin(world))
        assert now_of(node).admin == "cordoned"

    def test_what_ran_for_long_before_it_failed_and_was_kept_clears_the_node(self, world: World) -> None:
        for _ in range(2):
            self.keep(self.begin(world))
        well = self.begin(world)
        let_pass(1800, well, "running_at")
        let_pass(1800, ranks(well)[0], "claimed_at")
        self.keep(well)
        self.keep(self.begin(world))
        assert now_of(bad_node(world)).admin == "active"
