"""Agents in network namespaces of their own, cut off by dropped packets: how long it takes, and what may start when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from muster.local.supervisor import Child
from tests.faults.cluster import Cluster, until
from tests.faults.conftest import Figure
from tests.faults.jobs import BEATING, let_end, stamps_of, starts_of, until_it_beats
from tests.faults.layout import HASTY, LONG, NODES, ROUNDS
from tests.faults.proxy import proxy, through
from tests.namespaces import Lost, Network, network

pytestmark = pytest.mark.timeout(240 * ROUNDS)

# What an installation has, but for `stop_after_s`, ten minutes of which nothing more would be learned.
REAL: Mapping[str, float] = {
    "beat_s": 5,
    "suspect_after_s": 15,
    "unreachable_after_s": 30,
    "stop_after_s": 40,
    "fence_margin_s": 30,
    "claim_timeout_s": 60,
    "orphan_grace_s": 1,
}
# (A beat every so often, a look of the reaper every so often) and a busy machine: how much later it may be seen.
LATE_S = 15
PACES = {"hasty": HASTY, "as installed": REAL} if LONG else {"hasty": HASTY}
WAYS = list(Lost) if LONG else [Lost.TO_IT]


def inside(child: Child, net: Network, url: str) -> Child:
    """The agent in its own namespace, calling the platform at another address."""
    place = net.members[NODES.index(child.name)]
    # The later of two addresses counts.
    child = through(child, url, "--address", place.address)
    return replace(child, argv=place.command(child.argv))


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("lost", WAYS, ids=lambda lost: lost.name)
def test_a_gang_whose_node_is_cut_off_runs_again_only_when_all_of_it_is_gone(
    cluster: Cluster, figure: Figure, lost: Lost, pace: str
) -> None:
    timers = PACES[pace]
    with (
        network(len(NODES)) as net,
        proxy(cluster.url, net.listen()) as way,
        cluster.agents_as(lambda child: inside(child, net, way.url)),
        cluster.timers(timers),
    ):
        _cut_off(cluster, figure, net, lost, timers)


def _cut_off(cluster: Cluster, figure: Figure, net: Network, lost: Lost, timers: Mapping[str, float]) -> None:
    gang = cluster.submit(BEATING, gpus=2, nodes=2)
    until_it_beats(cluster, gang)
    [(gone, rank)] = cluster.sql(
        "SELECT n.name, a.rank FROM jobs_allocation a JOIN jobs_attempt t ON t.id = a.attempt_id"
        " JOIN fleet_node n ON n.id = a.node_id WHERE t.job_id = %s AND a.rank = 1",
        gang["id"],
    )
    stays = next(name for name in NODES if name != gone)
    # Two of the node's GPUs are held by the gang; what else asks for both nodes waits for it.
    follower = cluster.submit("echo after", gpus=3, nodes=2)
    [(cut_at,)] = cluster.sql("SELECT clock_timestamp()")
    member = net.members[NODES.index(gone)]
    member.cut(lost)
    seen = {}
    for health, limit_s in (("suspect", timers["suspect_after_s"]), ("down", timers["unreachable_after_s"])):
        [(at,)] = until(
            lambda health=health: cluster.sql(
                "SELECT e.at FROM events_event e JOIN fleet_node n ON n.id = e.node_id"
                " WHERE e.kind = %s AND n.name = %s AND e.at > %s ORDER BY e.id LIMIT 1",
                f"node.{health}",
                gone,
                cut_at,
            ),
            f"the node is {health}",
            limit_s + 60,
        )
        seen[health] = (at - cut_at).total_seconds()
        figure(f"{health} after the cut (s; the pool says {limit_s:g})", f"{seen[health]:.1f}")
        assert seen[health] < limit_s + LATE_S
    fence = (
        "SELECT fence_at, extract(epoch FROM fence_at)::float FROM jobs_attempt WHERE job_id = %s AND fence_at > now()"
    )
    [(fence_at, fence_s)] = until(lambda: cluster.sql(fence, gang["id"]), "its attempt has a fence")
    released = (
        "SELECT c.released_at FROM jobs_gpuclaim c JOIN fleet_gpu g ON g.id = c.gpu_id"
        " JOIN fleet_node n ON n.id = g.node_id JOIN jobs_allocation a ON a.id = c.allocation_id"
        " JOIN jobs_attempt t ON t.id = a.attempt_id WHERE t.job_id = %s AND t.number = 1 AND n.name = %s"
    )
    until(
        lambda: all(at for (at,) in cluster.sql(released, gang["id"], gone)),
        "the GPUs of the node that is away are free",
        timers["stop_after_s"] + timers["fence_margin_s"] + 60,
    )
    freed = [at for (at,) in cluster.sql(released, gang["id"], gone)]
    assert len(freed) == 2
    [(told,)] = cluster.sql(
        "SELECT a.ended_at IS NOT NULL FROM jobs_allocation a JOIN jobs_attempt t ON t.id = a.attempt_id"
        " WHERE t.job_id = %s AND t.number = 1 AND a.rank = %s",
        gang["id"],
        rank,
    )
    if told:
        # What an agent says on a connection that it still has arrives, though it hears no answer.
        assert lost is Lost.TO_IT
        ended = ("failed", "agent_stopped")
    else:
        assert min(freed) >= fence_at
        ended = ("lost", "node_lost")
        figure("GPUs freed after the fence (s)", f"{(max(freed) - fence_at).total_seconds():.1f}")
    until(lambda: cluster.attempts(gang)[0] == ended, f"the attempt is {ended[0]}")
    member.heal()
    cluster.until_whole()
    # The rank that could be heard was stopped as well, and nothing of either lived when the next one began.
    until(lambda: len(cluster.attempts(gang)) == 2, "the gang is tried again", 60)
    until_it_beats(cluster, gang, attempt=2, within_s=60)
    last = {one: max(stamps_of(cluster, gang["id"], attempt=1, rank=one)) for one in (0, 1)}
    first = min(stamps_of(cluster, gang["id"], attempt=2, rank=one)[0] for one in (0, 1))
    assert last[rank] < min(fence_s, min(freed).timestamp())
    assert max(last.values()) < first
    figure("its last process was gone before the fence by (s)", f"{fence_s - last[rank]:.1f}")
    figure("the next attempt began after the last process by (s)", f"{first - max(last.values()):.1f}")
    assert starts_of(cluster, gang["id"]) == ["1", "1", "2", "2"]
    assert {name for (name,) in cluster.sql("SELECT name FROM fleet_node WHERE health = 'ready'")} == {gone, stays}
    let_end(cluster, gang["id"])
    for job in (gang, follower):
        assert cluster.wait(job, within_s=60)["state"] == "succeeded", cluster.story(job)
