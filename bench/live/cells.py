"""One production cycle over a large pool whose virtual clusters own cells, and the answer why a job waits there."""

from __future__ import annotations

import random
import time
from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from bench.cells import GPUS_PER_NODE, NODES_OF_VC, NODES_PER_RACK, RACKS, VCS
from bench.figures import Series
from bench.live.cycle import take_back
from bench.live.stack import ACTOR, StackError, new_user
from muster.dispatch.cycles import run_cycle
from muster.dispatch.explain.cells import set_cells
from muster.dispatch.explain.selectors import why
from muster.dispatch.models import Cycle
from muster.fleet.models import Gpu, Node, Pool
from muster.fleet.services import create_pool
from muster.jobs.models import Attempt, Job
from muster.tenants.models import VirtualCluster
from muster.tenants.services import create_tenant, create_virtual_cluster
from scheduler.model.lifecycle import JobClass, JobState, NodeHealth
from scheduler.model.request import Choice, Request

JOBS, TAKEN_BACK, WHYS = 12_400, 50, 50
_CPUS, _MEMORY_MIB = 128, 1 << 20


def measure(*, samples: int) -> Series:
    """Milliseconds of whole cycles and of their parts, and of `why`; the platform's own cycles have filled the pool."""
    pool = _make_pool()
    _fill(pool)
    last = Attempt.objects.filter(job__pool=pool).order_by("-pk").values_list("pk", flat=True)[TAKEN_BACK]
    parts = ("snapshot", "decide", "apply")
    series: Series = {"cells_postgres_ms": [], **{f"cells_{part}_ms": [] for part in parts}}
    for _ in range(samples + 1):
        take_back(last)
        start = time.perf_counter()
        result = run_cycle(pool.pk, trigger="bench")
        took_ms = (time.perf_counter() - start) * 1000
        if not result.plan.places or result.refusals:
            raise StackError(f"the cycle placed {len(result.plan.places)} jobs and was refused {result.refusals}")
        cycle = Cycle.objects.get(pk=result.cycle_id)
        series["cells_postgres_ms"].append(took_ms)
        for part in parts:
            series[f"cells_{part}_ms"].append(getattr(cycle, f"{part}_ms"))
    return {name: values[1:] for name, values in series.items()} | {"cells_why_ms": _whys(pool)}


def _whys(pool: Pool) -> list[float]:
    took_ms = []
    for job_id in (
        Job.objects.filter(pool=pool, state=JobState.QUEUED).order_by("pk").values_list("pk", flat=True)[:WHYS]
    ):
        start = time.perf_counter()
        why(Job.objects.get(pk=job_id))
        took_ms.append((time.perf_counter() - start) * 1000)
    return took_ms


def _make_pool() -> Pool:
    pool = create_pool(name="celled", actor=ACTOR, admission="hived")
    kinds = [kind for kind, racks in RACKS.items() for _ in range(racks)]
    nodes = Node.objects.bulk_create(
        Node(
            pool=pool, name=f"celled{rack * NODES_PER_RACK + number:04}", rack=f"rack{rack:02}",
            health=NodeHealth.READY, cpus=_CPUS, memory_mib=_MEMORY_MIB,
        )
        for rack in range(len(kinds))
        for number in range(NODES_PER_RACK)
    )  # fmt: skip
    Gpu.objects.bulk_create(
        Gpu(
            node=node, index=index, uuid=f"GPU-{node.pk}-{index}", type=kinds[number // NODES_PER_RACK],
            memory_mib=81_920,
        )
        for number, node in enumerate(nodes)
        for index in range(GPUS_PER_NODE)
    )  # fmt: skip
    cells = {
        f"{NODES_PER_RACK}-{kind}x{GPUS_PER_NODE}-NODE.{kind}x{GPUS_PER_NODE}-NODE": number
        for kind, number in NODES_OF_VC.items()
    }
    for number in range(1, VCS + 1):
        tenant = create_tenant(name=f"celled{number}", actor=ACTOR)
        vc = create_virtual_cluster(tenant=tenant, pool=pool, name=f"celled{number}", actor=ACTOR)
        set_cells(vc=vc, version=vc.version, cells=cells, pinned=(), actor=ACTOR)
    return pool


def _fill(pool: Pool) -> None:
    """Every other virtual cluster has guaranteed jobs only, the others opportunistic ones only."""
    chance, owner = random.Random(1), new_user("celled")
    vcs = list(VirtualCluster.objects.filter(pool=pool).order_by("pk"))
    Job.objects.bulk_create(_job(number, owner.pk, vcs, chance) for number in range(JOBS))
    with connection.cursor() as cursor:  # what autovacuum does within a minute
        cursor.execute("ANALYZE")
    while run_cycle(pool.pk, trigger="bench").plan.places:
        pass
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _job(number: int, owner_id: int, vcs: list[VirtualCluster], chance: random.Random) -> Job:
    place, gpus = chance.randrange(len(vcs)), chance.choices((1, 2, 4, 8), weights=(60, 15, 10, 15))[0]
    submitted_at = timezone.now() - timedelta(seconds=chance.uniform(0, 86_400))
    return Job(
        tenant_id=vcs[place].tenant_id, vc=vcs[place], pool_id=vcs[place].pool_id, owner_id=owner_id,
        name=f"train-{number}", spec={"command": "true", "gpus": gpus},
        request=Request(
            (Choice(chance.choice((*RACKS, None)), gpus, gpus * 4, gpus * 16_384),),
            nodes=chance.choice((1, 2, 4)) if gpus == GPUS_PER_NODE else 1,
        ),
        klass=JobClass.OPPORTUNISTIC if place % 2 else JobClass.GUARANTEED,
        submitted_at=submitted_at, eligible_at=submitted_at,
    )  # fmt: skip
