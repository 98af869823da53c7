"""A history made by the real cycles of a pool, and the simulation of the same submissions.

The moments of the history are drawn, so neither the cycles nor the events wait for a clock: each event is moved to the
moment of the history at which it was recorded.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from django.db.models import Max

from muster.dispatch.config.settings import config_of
from muster.events.models import Event
from muster.jobs.models import Attempt, Job
from muster.jobs.services import submit_job
from muster.usage.delays import DelayBy, delays, sum_starts
from muster.usage.periods import Period
from muster.usage.scope import Scope
from scheduler.model.delays import Delay
from scheduler.sim.cluster import ClusterSpec, NodeGroup
from scheduler.sim.engine import simulate
from scheduler.sim.metrics import SIZES
from scheduler.sim.options import Options
from scheduler.sim.result import JobRecord
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork
from tests.db.stories import World, claim, cycle, end, live_attempt, make_world, ranks
from tests.factories import make_vc

BEGAN = datetime(2026, 1, 5, tzinfo=UTC)
QUOTAS = {"vision": 14, "speech": 9}  # of 16 GPUs
_END, _BEGIN, _SUBMIT = range(3)  # the order in which the simulator takes what happens at one moment


@dataclass(frozen=True)
class Drawn:
    """A job of the history; times in seconds from its beginning."""

    number: int
    vc: str
    gpus: int
    nodes: int
    submitted_s: float
    begins_s: float
    runs_s: float


def require_equal_delays(jobs: int) -> None:
    """Let a pool live through a drawn history of jobs, and compare its delays with those of a simulation."""
    history = drawn(jobs)
    world = make_world(nodes=4, gpus=4, quota=0, policy="fifo", policy_params={"skip_blocked": False})
    for name, quota in QUOTAS.items():
        make_vc(world.tenant, world.pool, name, quotas={"A100": quota})
    ended_s = lived(world, history)
    while sum_starts():
        pass
    period = Period(BEGAN, BEGAN + timedelta(seconds=ended_s))
    _, rows = delays(period, Scope(), [DelayBy.VC, DelayBy.SIZE])
    real = {
        (row.values[DelayBy.VC], row.values[DelayBy.SIZE]): {
            name: value * row.starts for name, value in row.mean.figures().items()
        }
        for row in rows
    }
    expected = simulated(world, history)
    assert real.keys() == expected.keys()
    for key, sums in expected.items():
        for name, seconds in sums.items():
            assert real[key][name] == pytest.approx(seconds, abs=2.0, rel=0.01), (key, name)
    for name in expected["vision", "1"]:  # the history has all of them
        assert sum(sums[name] for sums in expected.values()) > 100.0 or name == "other_s"


def drawn(jobs: int) -> Sequence[Drawn]:
    """Jobs for somewhat more GPUs than there are; each tenth has a time before which it must not begin."""
    random, history, now = Random(41), [], 0.0
    for number in range(1, jobs + 1):
        now += random.expovariate(1 / 150)
        gpus, nodes = random.choice([(1, 1), (1, 1), (2, 1), (3, 1), (4, 1), (3, 2), (4, 3)])
        begins = now + (random.uniform(60, 4_000) if random.random() < 0.1 else 0.0)
        vc = random.choice(list(QUOTAS) if gpus * nodes <= min(QUOTAS.values()) else ["vision"])
        nodes = nodes if gpus * nodes <= QUOTAS[vc] else 2
        history.append(Drawn(number, vc, gpus, nodes, now, begins, random.uniform(60, 900)))
    return history


def lived(world: World, history: Sequence[Drawn]) -> float:
    """Let the pool live through the history, a cycle after each moment, and return the moment of its end."""
    due = [(one.submitted_s, _SUBMIT, one.number) for one in history]
    heapq.heapify(due)
    jobs: dict[int, Job] = {}
    numbers: dict[int, int] = {}
    now = 0.0
    while due:
        now, what, number = heapq.heappop(due)
        one, seen = history[number - 1], last_event()
        moment = BEGAN + timedelta(seconds=now)
        if what == _SUBMIT:
            spec = {"command": "true", "gpus": one.gpus, "nodes": one.nodes, "vc": one.vc}
            jobs[number], _ = submit_job(user=world.user, data=spec)
            numbers[jobs[number].pk] = number
            waits = one.begins_s > now
            eligible_at = datetime.now(UTC) + timedelta(days=1) if waits else moment
            Job.objects.filter(pk=jobs[number].pk).update(submitted_at=moment, eligible_at=eligible_at)
            if waits:
                heapq.heappush(due, (one.begins_s, _BEGIN, number))
        elif what == _BEGIN:  # the simulator knows no job before it is eligible
            Job.objects.filter(pk=jobs[number].pk).update(submitted_at=moment, eligible_at=moment)
        else:
            for rank in ranks(live_attempt(jobs[number])):
                end(claim(rank))
        for job_id in placed(world):
            number = numbers[job_id]
            heapq.heappush(due, (now + history[number - 1].runs_s, _END, number))
        Event.objects.filter(id__gt=seen).update(at=moment)
    return now


def placed(world: World) -> Sequence[int]:
    """The jobs that the next cycle places."""
    before = Attempt.objects.aggregate(last=Max("pk"))["last"] or 0
    assert not cycle(world).refusals
    return list(Attempt.objects.filter(pk__gt=before).order_by("pk").values_list("job_id", flat=True))


def last_event() -> int:
    return Event.objects.aggregate(last=Max("pk"))["last"] or 0


def simulated(world: World, history: Sequence[Drawn]) -> Mapping[tuple[str, str], Mapping[str, float]]:
    """The sums by virtual cluster and size in the simulation of the jobs, each from the time at which it may begin."""
    jobs = [
        TraceJob(
            one.number, "job", one.begins_s, one.gpus * one.nodes, FixedWork(one.runs_s),
            vc=one.vc, gpu_type="A100", nodes=one.nodes, split=False,
        )
        for one in history
    ]  # fmt: skip
    cluster = ClusterSpec((NodeGroup("A100", 4, 4),))
    config, quotas = config_of(world.pool), {vc: {"A100": quota} for vc, quota in QUOTAS.items()}
    options = replace(Options.of(config, config.policy), quotas=quotas)
    trace = Trace("history", tuple(sorted(jobs, key=lambda job: job.submitted_s)))
    result = simulate(trace, cluster, options)
    sums: defaultdict[tuple[str, str], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for record, one in zip(sorted(result.records, key=lambda record: record.id), history, strict=True):
        for name, seconds in parts(record).items():
            sums[one.vc, size_of(record)][name] += seconds
        sums[one.vc, size_of(record)]["not_eligible_s"] += one.begins_s - one.submitted_s
    return sums


def parts(record: JobRecord) -> Mapping[str, float]:
    """The delays of the simulation by the names of reports."""
    return {
        "fair_share_s": record.fair_share_delay_s,
        "capacity_s": record.capacity_delay_s,
        "apart_s": record.apart_delay_s,
        "order_s": record.order_delay_s,
        "fragmentation_s": record.fragmentation_delay_s,
        f"{Delay.OTHER}_s": 0.0,
    }


def size_of(record: JobRecord) -> str:
    return next(name for name, least, most in SIZES if least <= record.gpus <= most)
