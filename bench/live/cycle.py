"""One production cycle over a large pool: the snapshot from Postgres, the decision, and the applier."""

from __future__ import annotations

import random
import time
from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone
from psycopg2.extras import NumericRange

from bench.failures import ordinary_tails
from bench.figures import Series
from bench.live.stack import ACTOR, StackError, new_user
from muster.dispatch.cycles import run_cycle
from muster.dispatch.models import Cycle
from muster.fleet.models import Gpu, Node, Pool
from muster.fleet.services import create_pool
from muster.jobs.attempt.attempts import End, end_allocation
from muster.jobs.attempt.claimants import Claimant
from muster.jobs.attempt.gangs import Rank
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job
from muster.tenants.models import VirtualCluster
from muster.tenants.services import create_tenant, create_virtual_cluster, set_quota
from scheduler.model import SLOTS
from scheduler.model.lifecycle import AllocationState, AttemptState, JobState, NodeHealth, Observed
from scheduler.model.reasons import Reason
from scheduler.model.request import Choice, Request

NODES, GPUS_PER_NODE, WAITING, FREE_NODES = 1_000, 8, 10_000, 8
ENDINGS = 300
_TYPES = ("A100", "H100", "V100")
_VCS = 20
_CPUS, _MEMORY_MIB = 128, 1 << 20


def measure(*, samples: int) -> Series:
    """Milliseconds of whole cycles, and of their snapshots, decisions and applications.

    All but 64 GPUs are busy and 10,000 jobs wait. What a cycle has placed is taken back before the next one.
    """
    pool = fill("large")
    series: Series = {"cycle_postgres_ms": [], "cycle_snapshot_ms": [], "cycle_decide_ms": [], "cycle_apply_ms": []}
    for _ in range(samples + 1):
        last = Attempt.objects.order_by("-pk").values_list("pk", flat=True)[0]
        start = time.perf_counter()
        result = run_cycle(pool.pk, trigger="bench")
        took_ms = (time.perf_counter() - start) * 1000
        if not result.plan.places or result.refusals:
            raise StackError(f"the cycle placed {len(result.plan.places)} jobs and was refused {result.refusals}")
        cycle = Cycle.objects.get(pk=result.cycle_id)
        series["cycle_postgres_ms"].append(took_ms)
        series["cycle_snapshot_ms"].append(cycle.snapshot_ms)
        series["cycle_decide_ms"].append(cycle.decide_ms)
        series["cycle_apply_ms"].append(cycle.apply_ms)
        take_back(last)
    # The first one writes the reason why each job waits; the others find it written.
    found = {name: values[1:] for name, values in series.items()} | {"cycle_first_ms": series["cycle_postgres_ms"][:1]}
    return found | {"endings_per_minute": [_endings_per_minute(pool)]}


def _endings_per_minute(pool: Pool) -> float:
    """Failed jobs per minute that one process judges by 64 KiB of their logs, releases and moves on."""
    running = Allocation.objects.filter(node__pool=pool, state=AllocationState.ACTIVE).order_by("pk")
    ends = list(running.values_list("node_id", "pk", "attempt_id")[:ENDINGS])
    tails = [tail.decode("utf-8", errors="replace") for tail in ordinary_tails(len(ends))]
    start = time.perf_counter()
    for (node_id, allocation_id, fence), tail in zip(ends, tails, strict=True):
        end = End(Reason.EXIT_NONZERO, exit_code=1, detail="exit status 1", tail=tail)
        end_allocation(Rank(node_id, allocation_id, fence), claimant=Claimant("", ""), end=end)
    return len(ends) * 60 / (time.perf_counter() - start)


def take_back(last: int) -> None:
    """Undo the attempts that are newer than this one; their jobs wait again."""
    newer = Attempt.objects.filter(pk__gt=last)
    job_ids = list(newer.values_list("job_id", flat=True))
    with transaction.atomic():
        GpuClaim.objects.filter(allocation__attempt__pk__gt=last).delete()
        Allocation.objects.filter(attempt__pk__gt=last).delete()
        newer.delete()
    Job.objects.filter(pk__in=job_ids).update(state=JobState.QUEUED, attempt_count=0)


def fill(name: str) -> Pool:
    """A pool of three GPU types and 20 virtual clusters, in which one gang of 8 runs on nearly each node."""
    chance = random.Random(1)
    pool = create_pool(name=name, actor=ACTOR)
    owner = new_user(f"{name}-many")
    vcs = []
    for number in range(1, _VCS + 1):
        tenant = create_tenant(name=f"{name}-team{number}", actor=ACTOR)
        vcs.append(create_virtual_cluster(tenant=tenant, pool=pool, name=f"{name}{number}", actor=ACTOR))
    nodes = Node.objects.bulk_create(
        Node(
            pool=pool, name=f"{name}{number:04}", rack=f"rack{number // 40:02}", health=NodeHealth.READY,
            cpus=_CPUS, memory_mib=_MEMORY_MIB,
        )
        for number in range(1, NODES + 1)
    )  # fmt: skip
    gpus = Gpu.objects.bulk_create(
        Gpu(node=node, index=index, uuid=f"GPU-{node.pk}-{index}", type=_TYPES[number % len(_TYPES)], memory_mib=81_920)
        for number, node in enumerate(nodes)
        for index in range(GPUS_PER_NODE)
    )
    for vc in vcs:
        for gpu_type in _TYPES:
            set_quota(vc=vc, gpu_type=gpu_type, gpus=NODES * GPUS_PER_NODE // (_VCS * len(_TYPES)), actor=ACTOR)
    Job.objects.bulk_create(_waiting(number, owner.pk, chance.choice(vcs), chance) for number in range(WAITING))
    with transaction.atomic():  # Postgres lets no gang be there in part
        _occupy(nodes[FREE_NODES:], gpus[FREE_NODES * GPUS_PER_NODE :], owner.pk, vcs)
    with connection.cursor() as cursor:  # what autovacuum does within a minute
        cursor.execute("ANALYZE")
    return pool


def _waiting(number: int, owner_id: int, vc: VirtualCluster, chance: random.Random) -> Job:
    gpus = chance.choices((1, 2, 4, 8), weights=(60, 15, 10, 15))[0]
    submitted_at = timezone.now() - timedelta(seconds=chance.uniform(0, 86_400))
    return Job(
        tenant_id=vc.tenant_id, vc=vc, pool_id=vc.pool_id, owner_id=owner_id, name=f"train-{number}",
        spec={"command": "true", "gpus": gpus},
        request=Request(
            (Choice(chance.choice((*_TYPES, None)), gpus, gpus * 4, gpus * 16_384),),
            nodes=chance.choice((1, 2, 4)) if gpus == GPUS_PER_NODE else 1,
        ),
        priority=chance.choices((0, 10, 20), weights=(2, 7, 1))[0], submitted_at=submitted_at,
        eligible_at=submitted_at,
    )  # fmt: skip


def _occupy(nodes: list[Node], gpus: list[Gpu], owner_id: int, vcs: list[VirtualCluster]) -> None:
    """Has one job run on each of the nodes."""
    now = timezone.now()
    jobs = Job.objects.bulk_create(
        Job(
            tenant_id=vc.tenant_id, vc=vc, pool_id=vc.pool_id, owner_id=owner_id, name=f"runs-{number}",
            spec={"command": "true", "gpus": GPUS_PER_NODE, "retry": {"max": 0, "on": []}},
            request=Request((Choice(None, GPUS_PER_NODE, 64, _MEMORY_MIB // 2),)),
            state=JobState.ACTIVE, attempt_count=1, started_at=now,
        )
        for number, vc in ((number, vcs[number % len(vcs)]) for number in range(len(nodes)))
    )  # fmt: skip
    attempts = Attempt.objects.bulk_create(
        Attempt(
            job=job, request=job.request, number=1, state=AttemptState.RUNNING,
            master_addr=node.name, master_port=20_000, starting_at=now,
            running_at=now,
        )
        for job, node in zip(jobs, nodes, strict=True)
    )  # fmt: skip
    allocations = Allocation.objects.bulk_create(
        Allocation(
            attempt=attempt, node=node, rank=0, state=AllocationState.ACTIVE, observed=Observed.RUNNING, cpus=64,
            memory_mib=_MEMORY_MIB // 2, claimed_at=now,
        )
        for attempt, node in zip(attempts, nodes, strict=True)
    )  # fmt: skip
    GpuClaim.objects.bulk_create(
        GpuClaim(
            allocation=allocations[number // GPUS_PER_NODE],
            gpu=gpu,
            span=NumericRange(gpu.pk * SLOTS, (gpu.pk + 1) * SLOTS, "[)"),
        )
        for number, gpu in enumerate(gpus)
    )
