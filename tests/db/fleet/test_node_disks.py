"""A node whose disk is full: nothing new starts there until it has room, and who is there to act hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api.fleet.render import node_document
from muster.events.models import Event, Outbox
from muster.fleet.models import HealthReport, Node, NodeDisk
from nodeagent.protocol.messages import EndReason, HealthEvent, HostSample
from scheduler.model.lifecycle import HoldReason, JobState
from tests.db.agent_calls import Agent, a100, inventory
from tests.db.stories import World, cycle, now_of, ranks, start, states, submit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

DETAIL = "the disk of /var/lib/muster-agent is full: 12 MiB are free of 1907348 MiB"
FULL = HostSample(disk_mib=1907348, disk_free_mib=12, disk_full=True)
ROOM = HostSample(disk_mib=1907348, disk_free_mib=512000, disk_full=False)


def document(world: World) -> dict[str, Any]:
    return node_document(world.user, Node.objects.get())


def tell(agent: Agent, host: HostSample, *events: HealthEvent) -> None:
    assert agent.sync(host=host, health=events).status_code == 200


def kinds() -> list[str]:
    return list(Event.objects.filter(kind__startswith="node.disk").order_by("pk").values_list("kind", flat=True))


def test_nothing_starts_there_until_it_has_room_and_what_runs_goes_on(agent: Agent, world: World) -> None:
    runs = submit(world, gpus=1)
    cycle(world)
    before = now_of(world.nodes[0]).version
    tell(agent, FULL, HealthEvent("disk_full", None, DETAIL))
    waits = submit(world, gpus=1)
    cycle(world)
    assert states(runs)[0] == JobState.ACTIVE
    assert (now_of(waits).state, now_of(waits).hold_reason) == (JobState.QUEUED, HoldReason.NO_FREE_GPUS)
    node = document(world)
    assert (node["barred"], node["disk_mib"], node["disk_free_mib"]) == ("its disk is full", 1907348, 12)
    (report,) = node["health_reports"]
    assert (report["kind"], report["gpu"], report["level"], report["over_at"]) == ("disk_full", None, "warning", None)
    assert now_of(world.nodes[0]).version > before

    tell(agent, ROOM)
    cycle(world)
    assert states(waits)[0] == JobState.ACTIVE
    node = document(world)
    assert (node["barred"], node["disk_free_mib"]) == (None, 512000)
    assert node["health_reports"][0]["over_at"] is not None
    assert kinds() == ["node.disk_full", "node.disk_room"]


def test_operators_have_one_mail_however_often_it_is_told_and_none_again_within_the_hour(
    agent: Agent, world: World, settings: Any
) -> None:
    settings.OPERATORS_MAIL = ["operators@example.org"]
    event = HealthEvent("disk_full", None, DETAIL)
    for host in (FULL, FULL, ROOM, ROOM, FULL):
        tell(agent, host, *([event] if host.disk_full else []))
    (mail,) = Outbox.objects.filter(topic="mail")
    assert mail.payload["subject"] == f"The disk of node {world.nodes[0].name} is full"
    assert kinds() == ["node.disk_full", "node.disk_room", "node.disk_full"]
    assert [report.count for report in HealthReport.objects.order_by("pk")] == [2, 1]


def test_the_last_words_say_of_what_a_disk_is_full(agent: Agent, world: World) -> None:
    files = "the disk of /var/lib/muster-agent has no room for more files (inodes): 12 files are free of 10000 files"
    for detail in (DETAIL, files):
        tell(agent, FULL, HealthEvent("disk_full", None, detail))
    report = HealthReport.objects.get()
    assert (report.detail, report.count) == (files, 2)


def test_a_full_disk_and_an_old_toolkit_are_both_said_and_each_goes_by_itself(agent: Agent, world: World) -> None:
    def register(toolkit_version: str) -> None:
        told = inventory(a100(0), runtimes=("docker",), toolkit_version=toolkit_version)
        assert agent.register(inventory=told).status_code == 200

    register("1.17.7")
    tell(agent, FULL)
    both = document(world)["barred"]
    assert both.startswith("its disk is full; its NVIDIA Container Toolkit is 1.17.7")
    assert len(both) <= 300
    register("1.17.8")  # the agent has started again, and the disk is as full as before
    assert document(world)["barred"] == "its disk is full"
    register("1.17.7")
    tell(agent, ROOM)
    assert document(world)["barred"].startswith("its NVIDIA Container Toolkit is 1.17.7")


def test_a_reading_that_says_nothing_of_the_disk_changes_nothing(agent: Agent, world: World) -> None:
    tell(agent, FULL)
    assert agent.register().status_code == 200
    tell(agent, HostSample(load1=1.0))  # the agent has not looked yet
    assert document(world)["barred"] == "its disk is full"
    assert kinds() == ["node.disk_full"]


def test_sizes_that_no_disk_has_are_left_out(agent: Agent, world: World) -> None:
    tell(agent, FULL)
    tell(agent, HostSample(disk_mib=-1, disk_free_mib=5))
    assert NodeDisk.objects.get().free_mib == 12


def test_a_job_that_took_too_much_of_the_disk_has_failed_by_its_own_doing(agent: Agent, world: World) -> None:
    attempt = start(world)
    allocation = ranks(attempt)[0]
    detail = "the node's disk is full, and this job takes the most of it: 900 MiB, 880 MiB of that in work"
    assert agent.end(allocation, EndReason.DISK_EXCEEDED, signal=15, detail=detail).status == 200
    attempt, job = now_of(attempt), now_of(attempt.job)
    assert (attempt.state, attempt.reason, attempt.reason_detail) == ("failed", "disk_exceeded", detail)
    assert (job.state, job.failure["class"], job.failure["category"]) == ("failed", "disk_quota", "user")
    assert not Node.objects.get().strikes.exists()
