"""The CPUs and the memory of jobs whose spec names none: shares of the nodes, or what an operator has set."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dispatch.explain.forecast import dry_run
from muster.fleet.models import Node, Pool
from muster.jobs.models import Job
from muster.jobs.services import clone_job
from muster.jobs.spec.shares import UNKNOWN, WITHOUT_GPUS
from scheduler.model.lifecycle import NodeAdmin
from tests.db.stories import World, cycle, make_world, now_of, submit
from tests.factories import make_node

pytestmark = pytest.mark.django_db

GIB = 1024
PACKS = {"share": "pack", "gpu_memory": "20GiB"}


@pytest.fixture
def world() -> World:
    """A node of 4 A100 with 60 CPUs and 256 GiB, a poorer one of 4 A100, and one of 8 V100 with 32 CPUs and 64 GiB."""
    world = make_world(nodes=0)
    make_node(world.pool, gpus=4, cpus=60, memory_mib=256 * GIB)
    make_node(world.pool, gpus=4, cpus=64, memory_mib=200 * GIB)
    make_node(world.pool, gpus=8, gpu_type="V100", cpus=32, memory_mib=64 * GIB)
    return world


def given(job: Job) -> list[tuple[int, int]]:
    """The CPUs and the GiB on each node, by choice."""
    return [(choice.cpus, choice.memory_mib // GIB) for choice in now_of(job).request.choices]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"gpus": "A100:1"}, [(15, 50)]),
        ({"gpus": "A100:4", "nodes": 2}, [(60, 200)]),
        ({"gpus": "V100:2"}, [(8, 16)]),
        ({"gpus": 2}, [(8, 16)]),
        ({"gpus": {"any_of": ["A100:2", "V100:8"]}}, [(30, 100), (32, 64)]),
        ({"gpus": {"vram": "30GiB", "count": 1}}, [(15, 50), (4, 8)]),
        ({"gpus": "A100:2", "cpus": 3}, [(3, 100)]),
        ({"gpus": "A100:2", "memory": "7GiB"}, [(30, 7)]),
        ({"gpus": "A100:1", **PACKS}, [(7, 25)]),
        ({"gpus": 0}, [(WITHOUT_GPUS.cpus, WITHOUT_GPUS.memory_mib // GIB)]),
        ({"gpus": "A100:2", "elastic": {"min": 1, "max": 4}, "checkpoint": {}}, [(30, 100)]),
    ],
    ids=[
        *("one GPU", "a gang", "another type", "any type", "two types", "by GPU memory", "CPUs named", "memory named"),
        *("a shared GPU", "no GPUs", "elastic"),
    ],
)
def test_a_job_gets_the_smallest_share_of_its_gpu_type(
    world: World, spec: dict[str, Any], expected: list[tuple[int, int]]
) -> None:
    assert given(submit(world, **spec)) == expected


def test_what_an_operator_has_set_wins(world: World) -> None:
    Pool.objects.filter(pk=world.pool.pk).update(memory_mib_per_gpu=8 * GIB)
    assert given(submit(world, gpus="A100:2")) == [(30, 16)]
    assert given(submit(world, gpus="A100:2", **PACKS)) == [(15, 8)]
    Pool.objects.filter(pk=world.pool.pk).update(cpus_per_gpu=2)
    assert given(submit(world, gpus="A100:2")) == [(4, 16)]


def test_nodes_that_are_retired_or_have_told_nothing_do_not_count(world: World) -> None:
    make_node(world.pool, gpus=4, cpus=0, memory_mib=0)
    make_node(world.pool, gpus=4, cpus=4, memory_mib=4 * GIB, admin=NodeAdmin.RETIRED)
    make_node(world.pool, gpus=0, cpus=4, memory_mib=4 * GIB)
    assert given(submit(world, gpus="A100:1")) == [(15, 50)]


def test_a_type_that_no_node_has_gets_the_fallback(world: World) -> None:
    assert given(submit(world, gpus="H100:2")) == [(2 * UNKNOWN.cpus, 2 * UNKNOWN.memory_mib // GIB)]
    Node.objects.filter(pool=world.pool).update(memory_mib=0)
    assert given(submit(world, gpus=2)) == [(2 * UNKNOWN.cpus, 2 * UNKNOWN.memory_mib // GIB)]


def test_the_share_is_that_of_the_submission_and_a_clone_takes_a_new_one(world: World) -> None:
    job = submit(world, gpus="A100:1")
    make_node(world.pool, gpus=4, cpus=16, memory_mib=64 * GIB)
    assert given(job) == [(15, 50)]
    assert given(clone_job(user=world.user, job=job)) == [(4, 16)]


def test_a_pair_with_default_cpus_and_memory_starts_on_the_same_gpus() -> None:
    world = make_world(gpus=4, policy="gandiva")
    jobs = [submit(world, gpus=4, **PACKS) for _ in range(2)]
    assert cycle(world).applied.started == [job.pk for job in jobs]


def test_a_dry_run_says_where_the_figures_come_from(world: World) -> None:
    def told(**spec: Any) -> list[tuple[str | None, str | None]]:
        data = {"command": "true", "vc": world.vc.name, **spec}
        return [(size.cpus_from, size.memory_from) for size in dry_run(user=world.user, data=data).sizes]

    assert told(gpus="A100:2", memory="1GiB") == [("share of 2 GPUs on A100 nodes", None)]
    assert told(gpus=1, **PACKS) == [("half the share of 1 GPU on GPU nodes",) * 2]
    assert told(gpus="H100:1")[0][0] == f"default for 1 GPU: no H100 node of pool {world.pool.name} is known yet"
    assert told() == [("default without GPUs",) * 2]
    Pool.objects.filter(pk=world.pool.pk).update(cpus_per_gpu=2)
    assert told(gpus=2)[0][0] == f"default of pool {world.pool.name} for 2 GPUs"
