"""Messages of many agents at one moment are taken over together, and each is answered for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from muster.agents.desired import desired_sets
from muster.agents.samples import store_samples
from muster.fleet.leases import Renewal, node_of_credential, nodes_of_credentials, renew_free
from muster.fleet.models import Gpu, GpuReading, Node, NodeLease
from muster.samples.models import GpuTenSeconds, HostTenSeconds, RankTenSeconds
from nodeagent.protocol.messages import GpuSample, HostSample, SyncRequest, UsageSample
from scheduler.model.lifecycle import LeaseState
from tests.db.agent_calls import Agent, agent_of
from tests.db.stories import (
    BOOT,
    WAIT_S,
    Other,
    World,
    cycle,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    ranks,
    start,
    submit,
)
from tests.factories import make_node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

MANY = 24


def all_at_once(calls: list[Callable[[], httpx.Response]]) -> list[httpx.Response]:
    with ThreadPoolExecutor(len(calls)) as threads:
        return [call.result(WAIT_S) for call in [threads.submit(call) for call in calls]]


def queries_of(act: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as queries:
        act()
    return len(queries)


def report_of(node: Node, *, utilization: float = 50.0) -> SyncRequest:
    gpus = tuple(GpuSample(gpu.uuid, utilization=utilization) for gpu in node.gpus.all())
    epoch = NodeLease.objects.get(pk=node.pk).epoch
    return SyncRequest(epoch, 1, BOOT, "", 0.0, gpus=gpus, host=HostSample(20.0, 1000, 3.0))


@contextmanager
def lease_held(node: Node) -> Iterator[None]:
    """Hold the lock of the lease's row, as a claim or the reaper does for a moment."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT FROM fleet_nodelease WHERE node_id = %s FOR NO KEY UPDATE", [node.pk])
        yield


class TestOverHttp:
    @pytest.fixture
    def agents(self, server: str, world: World) -> Iterator[list[tuple[Node, Agent]]]:
        nodes = [*world.nodes, *(make_node(world.pool, gpus=2) for _ in range(MANY - 1))]
        agents = [(node, agent_of(server, node)) for node in nodes]
        yield agents
        for _, agent in agents:
            agent.http.close()

    def test_each_of_many_beats_renews_its_own_lease(self, agents: list[tuple[Node, Agent]]) -> None:
        for node, _ in agents:
            let_pass(100, NodeLease.objects.get(pk=node.pk), "seen_at")
        before = dict(NodeLease.objects.values_list("pk", "seen_at"))
        answers = all_at_once([agent.beat for _, agent in agents])
        assert [answer.status_code for answer in answers] == [200] * MANY
        assert all(lease.seen_at > before[lease.pk] for lease in NodeLease.objects.all())

    def test_who_is_superseded_or_unknown_is_told_and_nobody_else(self, agents: list[tuple[Node, Agent]]) -> None:
        (old_node, old), (_, unknown), *others = agents
        NodeLease.objects.filter(pk=old_node.pk).update(epoch=old.epoch + 1)
        let_pass(100, NodeLease.objects.get(pk=old_node.pk), "seen_at")
        before = NodeLease.objects.get(pk=old_node.pk).seen_at
        unknown.secret = "a-credential-that-is-not-that-of-any-node"
        for call in (Agent.beat, Agent.sync):
            answers = all_at_once([lambda agent=agent, call=call: call(agent) for _, agent in agents])  # type: ignore[misc]
            assert [answer.status_code for answer in answers] == [409, 401, *[200] * len(others)]
        assert NodeLease.objects.get(pk=old_node.pk).seen_at == before

    def test_a_lease_that_somebody_holds_keeps_nobody_else_waiting(self, agents: list[tuple[Node, Agent]]) -> None:
        (held, waiting), *others = agents
        with lease_held(held):
            beat = Other(waiting.beat)
            answers = all_at_once([agent.beat for _, agent in others])
            assert [answer.status_code for answer in answers] == [200] * len(others)
            assert beat.is_alive()
        assert beat.result().status_code == 200

    def test_each_hears_of_its_own_allocations_only(self, agents: list[tuple[Node, Agent]], world: World) -> None:
        for _ in range(4):
            start(world, gpus=2)
        answers = all_at_once([agent.sync for _, agent in agents])
        for (node, _), answer in zip(agents, answers, strict=True):
            held = node.allocations.order_by("pk").values_list("pk", flat=True)
            assert [one["id"] for one in answer.json()["desired"]] == list(held)

    def test_each_hears_at_once_of_what_was_placed_there(self, agents: list[tuple[Node, Agent]], world: World) -> None:
        job = submit(world, gpus=2, nodes=MANY)
        generation = agents[0][1].sync().json()["generation"]
        polls = [Other(lambda agent=agent: agent.sync(generation=generation, wait_s=WAIT_S)) for _, agent in agents]  # type: ignore[misc]
        cycle(world)
        told = [poll.result().json()["desired"] for poll in polls]
        assert sorted(one["id"] for desired in told for one in desired) == [one.pk for one in ranks(live_attempt(job))]

    def test_the_readings_of_many_are_stored(self, agents: list[tuple[Node, Agent]]) -> None:
        reports = [(agent, report_of(node, utilization=10.0 + place)) for place, (node, agent) in enumerate(agents)]
        answers = all_at_once(
            [lambda agent=agent, report=report: agent.post("/agent/v1/sync", report) for agent, report in reports]  # type: ignore[misc]
        )
        assert [answer.status_code for answer in answers] == [200] * MANY
        for place, (node, _) in enumerate(agents):
            found = GpuReading.objects.filter(gpu__node=node).values_list("utilization", flat=True)
            assert set(found) == {10.0 + place}


class TestRenewals:
    def test_a_superseded_epoch_renews_nothing_and_the_others_are_renewed(self, world: World) -> None:
        node, other = world.nodes[0], make_node(world.pool)
        NodeLease.objects.filter(pk__in=[node.pk, other.pk]).update(epoch=5, state=LeaseState.GRANTED)
        let_pass(100, NodeLease.objects.get(pk=node.pk), "seen_at")
        before = NodeLease.objects.get(pk=node.pk)
        assert renew_free({node: Renewal(4, 17), other: Renewal(5, 18)}) == {node: False, other: True}
        after = NodeLease.objects.get(pk=node.pk)
        assert (after.seen_at, after.seq, after.state) == (before.seen_at, before.seq, LeaseState.GRANTED)
        lease = NodeLease.objects.get(pk=other.pk)
        assert (lease.seq, lease.state) == (18, LeaseState.RENEWED)

    @pytest.mark.django_db(transaction=True)
    def test_a_lease_that_is_locked_is_left_out_at_once(self, world: World) -> None:
        node, other = world.nodes[0], make_node(world.pool)
        with lease_held(node):
            beats = {node: Renewal(1, 1), other: Renewal(NodeLease.objects.get(pk=other.pk).epoch, 1)}
            assert Other(lambda: renew_free(beats)).result() == {node: False, other: True}


class TestQueries:
    """However many there are, the queries are as many as for one."""

    def test_nodes_and_their_leases(self, world: World) -> None:
        secrets = self._secrets(world)
        assert queries_of(lambda: nodes_of_credentials(secrets)) == 1
        found = nodes_of_credentials([*secrets, "of no node"])
        assert [node and node.name for node in found.values()] == [*(secrets.values()), None]

    def test_what_calls_read_of_a_node_was_read_with_it(self, world: World) -> None:
        (secret, name), *_ = self._secrets(world).items()
        node = node_of_credential(secret)
        with CaptureQueriesContext(connection) as queries:
            assert (node.name, node.health, node.pool.beat_s, node.lease.epoch) == (name, "ready", 5, 1)
        assert len(queries) == 0

    def test_beats(self, world: World) -> None:
        nodes = [*world.nodes, *(make_node(world.pool) for _ in range(5))]
        assert queries_of(lambda: renew_free({node: Renewal(1, 1) for node in nodes})) == 1

    def test_desired_sets_with_and_without_a_time_limit(self) -> None:
        world = make_world(nodes=3)
        for spec in ({"gpus": 2}, {"gpus": 2, "time": "1h"}, {"gpus": 4}):
            start(world, **spec)
        assert queries_of(lambda: desired_sets(world.nodes)) == 1
        assert sum(len(one.allocations) for one in desired_sets(world.nodes).values()) == 3

    def test_samples(self) -> None:
        world = make_world(nodes=4)
        for _ in range(4):
            start(world, gpus=4)
        reports = {node: self._full_report(node) for node in world.nodes}
        one = queries_of(lambda: store_samples({world.nodes[0]: reports[world.nodes[0]]}))
        assert queries_of(lambda: store_samples(reports)) == one
        assert GpuReading.objects.count() == Gpu.objects.count() == 16
        assert GpuTenSeconds.objects.exclude(allocation_id=0).values("gpu_id").distinct().count() == 16
        assert HostTenSeconds.objects.values("node_id").distinct().count() == 4
        assert RankTenSeconds.objects.values("allocation_id").distinct().count() == 4

    def _secrets(self, world: World) -> dict[str, str]:
        nodes = [*world.nodes, *(make_node(world.pool) for _ in range(3))]
        return {agent_of("http://nowhere", node).secret: node.name for node in nodes}

    def _full_report(self, node: Node) -> SyncRequest:
        (allocation,) = node.allocations.all()
        usage = UsageSample(allocation.pk, allocation.attempt_id, cpu_cores=1.0)
        return SyncRequest(1, 1, BOOT, "", 0.0, gpus=report_of(node).gpus, host=HostSample(1.0, 1, 1.0), usage=(usage,))


class TestSamples:
    def test_of_several_nodes_each_speaks_for_its_own_gpus_and_allocations(self) -> None:
        world = make_world(nodes=2)
        one, other = world.nodes
        (allocation,) = ranks(start(world, gpus=4))
        foreign = one if allocation.node_id == other.pk else other
        own = now_of(allocation).node
        lie = tuple(GpuSample(gpu.uuid, utilization=1.0) for gpu in own.gpus.all())
        usage = (UsageSample(allocation.pk, allocation.attempt_id, cpu_cores=7.0),)
        told = SyncRequest(1, 1, BOOT, "", 0.0, gpus=lie, usage=usage)
        store_samples({foreign: told, own: report_of(own, utilization=80.0)})
        assert set(GpuReading.objects.values_list("utilization", flat=True)) == {80.0}
        assert not RankTenSeconds.objects.exists()
