"""Sharing safety: a virtual cluster never fares worse with its cells than in a private cluster of them.

(a) At every instant, what fits into the free virtual cells of a virtual cluster gets physical cells.
(b) Without preemption cost, its guaranteed jobs start exactly when they would in the private cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admission.hived.config import CellConfig
from scheduler.admission.hived.inside import Inside, View
from scheduler.admission.hived.pool import Cells
from scheduler.admission.hived.want import OPPORTUNISTIC, Leaf, Placed, Want
from tests.profiles import IS_LONG, examples
from tests.unit.scheduler.admission.hived.worlds import Trial, pools, trace, trial

Key = Callable[[Trial], tuple[int, ...]]

# The policies inside virtual clusters: the order of waiting jobs, and whether one that does not fit holds up the rest.
POLICIES: dict[str, tuple[Key, bool]] = {
    "first come, first served": (lambda job: (job.arrives, job.number), True),
    "first that fits": (lambda job: (job.arrives, job.number), False),
    "shortest first": (lambda job: (job.runs, job.number), False),
    "by priority": (lambda job: (-job.priority, job.arrives, job.number), True),
    "smallest first": (lambda job: (sum(job.pods), job.number), False),
}
END = 80
HISTORIES = 10_000 if IS_LONG else examples(150)


class Pool:
    """A pool in which a policy of its own starts the jobs of each virtual cluster; preempting costs nothing."""

    def __init__(self, config: CellConfig, policies: dict[str, str]) -> None:
        self.cells, self.policies = Cells(config), policies
        self.waiting: list[Trial] = []
        self.ends: dict[Trial, int] = {}
        self.started: dict[Trial, int] = {}
        self.places: dict[Trial, list[Leaf]] = {}

    def run(self, jobs: list[Trial]) -> dict[Trial, int]:
        """The time at which each guaranteed job starts for good; those that never do are missing."""
        for now in range(END):
            self.step(now, [job for job in jobs if job.arrives == now])
        return {job: start for job, start in self.started.items() if job.priority >= 0}

    def step(self, now: int, arriving: list[Trial]) -> None:
        """End jobs, then let each virtual cluster start jobs."""
        for job in [job for job, end in self.ends.items() if end <= now]:
            self.stop(job)
        self.waiting += arriving
        for vc in self.cells.topology.config.clusters:
            order, blocks = POLICIES[self.policies[vc]]
            for job in sorted((job for job in self.waiting if job.vc == vc and job.priority >= 0), key=order):
                if not self.start(job, now) and blocks:
                    break
        for job in sorted((job for job in self.waiting if job.priority < 0), key=lambda job: job.number):
            self.start(job, now)

    def start(self, job: Trial, now: int) -> bool:
        """Start the job now, if need be in place of its virtual cluster's jobs of lower priority; True if it starts."""
        stopped: list[Trial] = []
        placed = self.cells.place(self.want(job))
        victims = [] if job.priority < 0 else [each for each in self.ends if each.vc == job.vc and each.priority >= 0]
        for victim in sorted(victims, key=lambda each: (each.priority, -self.started[each], -each.number)):
            if isinstance(placed, Placed) or victim.priority >= job.priority:
                break
            self.cells.give(victim)
            stopped.append(victim)
            placed = self.cells.place(self.want(job))
        if not isinstance(placed, Placed):
            for victim in stopped:
                assert self.cells.take(victim, victim.vc, victim.priority, self.places[victim])
            return False
        for evicted in placed.evicts:
            assert isinstance(evicted, Trial)
            assert evicted.priority < 0
            self.cells.give(evicted)
            stopped.append(evicted)
        for victim in stopped:
            del self.ends[victim]
            self.waiting.append(victim)
        self.waiting.remove(job)
        leaves = [leaf for pod in placed.pods for leaf in pod]
        assert self.cells.take(job, job.vc, job.priority, leaves)
        assert len(set(leaves)) == len(leaves) == sum(job.pods)
        self.places[job], self.started[job], self.ends[job] = leaves, now, now + job.runs
        return True

    def stop(self, job: Trial) -> None:
        """Let a job go."""
        self.cells.give(job)
        del self.ends[job]

    def want(self, job: Trial) -> Want:
        """The job's request; the policy chooses the victims inside its virtual cluster."""
        return Want(job, job.vc, job.priority, job.pods, job.leaf_type, preempt=False)


def _private(config: CellConfig, vc: str) -> CellConfig:
    """A cluster in which only this virtual cluster has cells."""
    return config.assign({vc: config.clusters[vc]})


@pytest.mark.timeout(3600 if IS_LONG else 120)
@settings(max_examples=HISTORIES)
@given(pools(), st.integers(0, 2**32))
def test_guaranteed_jobs_start_exactly_when_they_would_in_a_private_cluster(config: CellConfig, seed: int) -> None:
    random = Random(seed)
    jobs = trace(config, random)
    policies = {vc: random.choice(sorted(POLICIES)) for vc in config.clusters}
    shared = Pool(config, policies).run(jobs)
    for vc in config.clusters:
        own = [job for job in jobs if job.vc == vc and job.priority >= 0]
        alone = Pool(_private(config, vc), policies).run(own)
        assert {job: start for job, start in shared.items() if job.vc == vc} == alone


def _check_safety(cells: Cells) -> None:
    """Each virtual cluster may have its free virtual cells, one of each size or all at once, unless nodes are bad."""
    assert cells.is_safe()
    if cells.ground.bad_nodes:
        return
    for territory in cells.topology.territories:
        view = View(territory.chain, territory.nodes, virtual=True)
        inside = Inside(cells.ground, view, None)
        free = [cells.topology.virtual.size[node] - cells.ground.used[node] for node in territory.nodes]
        for pods in ({each for each in free if each}, [each for each in free if each]):
            sizes = tuple(sorted(pods))
            if sizes and not isinstance(inside.place(sizes, OPPORTUNISTIC), str):
                want = Want("all", territory.vc, 0, sizes, territory.chain.leaf_type, preempt=False)
                assert isinstance(cells.place(want), Placed), (territory.vc, sizes)


@pytest.mark.timeout(3600 if IS_LONG else 120)
@settings(max_examples=HISTORIES)
@given(pools(), st.integers(0, 2**32))
def test_what_fits_into_the_free_virtual_cells_gets_physical_cells_at_every_instant(
    config: CellConfig, seed: int
) -> None:
    random = Random(seed)
    pool = Pool(config, dict.fromkeys(config.clusters, "first that fits"))
    for number in range(25):
        job = trial(config, random, number)
        pool.waiting = [job]
        pool.start(job, number)
        _check_safety(pool.cells)
        if random.random() < 0.3:
            node = random.choice(pool.cells.topology.all_nodes)
            pool.cells.set_healthy(node, node in pool.cells.ground.bad_nodes)
        if pool.ends and random.random() < 0.4:
            pool.stop(random.choice(sorted(pool.ends, key=lambda each: each.number)))
        _check_safety(pool.cells)
    for node in sorted(pool.cells.ground.bad_nodes):
        pool.cells.set_healthy(node, healthy=True)
    _check_safety(pool.cells)


def test_the_policies_differ() -> None:
    jobs = [
        Trial(n, "vc0", 0, runs, pods, 0, "GPU") for n, (runs, pods) in enumerate([(3, (1,)), (1, (2,)), (2, (1, 1))])
    ]
    orders = {name: tuple(job.number for job in sorted(jobs, key=order)) for name, (order, _) in POLICIES.items()}
    assert orders["shortest first"] == (1, 2, 0)
    assert orders["smallest first"] != orders["shortest first"]
