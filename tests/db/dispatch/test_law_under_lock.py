"""A plan that is late: whatever changed a node since the snapshot, the rows under lock decide, and not the change.

Every function that raises a node's version is here. A unit is refused exactly where the invariants refuse it in a new
snapshot of the whole pool, or where a GPU, the racks or a victim differ from those that the plan chose.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.contrib.admin.sites import site

import muster
from muster.dispatch.apply.apply import Applied, apply_unit
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.fleet.checks import _give_back
from muster.fleet.disks import note_disk
from muster.fleet.gone import declare_gone
from muster.fleet.health import take_report
from muster.fleet.inventory import Reported, ReportedGpu, store_inventory
from muster.fleet.leases import set_health
from muster.fleet.models import Gpu, GpuCheck, Node, Pool
from muster.fleet.services import cordon_node, drain_node, repair_gpus, resume_node, retire_node
from muster.jobs.models import Attempt, Job
from muster.tenants.models import Quota
from scheduler.diagnosis.health import HealthLevel, Kind, Recovers
from scheduler.engine.cycle import compose, decide
from scheduler.model import AllocationView, Snapshot
from scheduler.model.invariants import changed_since, check
from scheduler.model.lifecycle import NodeHealth
from scheduler.model.plan import Place, Plan, Preempt
from scheduler.model.reasons import Reason
from tests.db.stories import World, end, let_answer, make_world, now_of, ranks, silent, start, states, submit, unsound
from tests.factories import make_node, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db
SEEDS = range(3)
WORD = {"reason": "fan", "actor": "op"}


def tell_inventory(node: Node, *, first: dict[str, Any] | None = None, gpus: int | None = None, **changes: Any) -> None:
    """The agent reports its node as it is, apart from these changes; `first` changes its first GPU."""
    rows = list(Gpu.objects.filter(node=node, present=True).order_by("index"))[:gpus]
    told = [ReportedGpu(row.index, row.uuid, row.model, row.memory_mib, row.numa_node) for row in rows]
    if first is not None:
        told[0] = replace(told[0], **first)
    said = {name: getattr(node, name) for name in ("address", "cpus", "memory_mib", "labels", "single_user", "links")}
    assert store_inventory(node, Reported(**said | {"details": node.inventory} | changes, gpus=tuple(told)))


def give_gpu_to(node: Node, other: Node) -> None:
    """The first GPU of the node is put into the other one."""
    moved = Gpu.objects.filter(node=node).order_by("index").first()
    assert moved is not None
    tell_inventory(node, gpus=0)
    told = ReportedGpu(9, moved.uuid, moved.model, moved.memory_mib)
    store_inventory(
        other, Reported(other.address, other.cpus, other.memory_mib, {}, False, {}, (told,), cast(Any, other.links))
    )


def edit(node: Node, **fields: Any) -> None:
    """An operator edits the node on its page."""
    for name, value in fields.items():
        setattr(node, name, value)
    page = site._registry[Node]
    page.save_model(
        cast(Any, SimpleNamespace(user=make_user())),
        node,
        cast(Any, SimpleNamespace(changed_data=list(fields))),
        change=True,
    )


def fail_gpu(node: Node) -> None:
    gpu = Gpu.objects.filter(node=node).order_by("index").first()
    take_report(node=node, gpu=gpu, kind=Kind.CHECK_FAILED, uuid=None, xid=None, detail="no memory")


def spare_gpu(node: Node) -> Gpu:
    """A GPU of the node that has failed before."""
    return Gpu.objects.filter(node=node).order_by("-index")[0]


def give_back(node: Node) -> None:
    gpu = spare_gpu(node)
    row, _ = GpuCheck.objects.get_or_create(gpu=gpu)
    Gpu.objects.filter(pk=gpu.pk).update(heals=Recovers.AT_ONCE)
    row.gpu.refresh_from_db()
    row.streak = 99
    _give_back(node, row)


def retire(node: Node) -> None:
    cordon_node(node=node, **WORD)
    retire_node(node=node, **WORD)


def go(node: Node) -> None:
    let_answer(86_400)
    silent(node, 40_000)
    set_health(node, NodeHealth.SUSPECT)
    declare_gone(node=now_of(node), **WORD)


@dataclass(frozen=True)
class Writer:
    """A change of a node, and what a unit that is refused for it is told; None: no unit is refused."""

    function: str
    act: Callable[[Node, Node], object]
    told: str | None


WRITERS = {
    "cordon": Writer("services._change_admin", lambda node, _: cordon_node(node=node, **WORD), "takes no jobs"),
    "drain": Writer("services._change_admin", lambda node, _: drain_node(node=node, **WORD), "takes no jobs"),
    "retire": Writer("services._change_admin", lambda node, _: retire(node), "takes no jobs"),
    "cordon and resume": Writer(
        "services._change_admin",
        lambda node, _: (cordon_node(node=node, **WORD), resume_node(node=node, **WORD)),
        None,
    ),
    "silence": Writer(
        "leases.set_health", lambda node, _: set_health(node, NodeHealth.SUSPECT), "takes no jobs: suspect"
    ),
    "silence and a beat": Writer(
        "leases.set_health",
        lambda node, _: (set_health(node, NodeHealth.SUSPECT), set_health(node, NodeHealth.READY)),
        None,
    ),
    "gone": Writer("gone.declare_gone", lambda node, _: go(node), "takes no jobs"),
    "repair": Writer("services.repair_gpus", lambda node, _: repair_gpus(node=node, **WORD), None),
    "given back": Writer("checks._give_back", lambda node, _: give_back(node), None),
    "a GPU fails": Writer("health._worsen", lambda node, _: fail_gpu(node), "is not healthy"),
    "a full disk": Writer("disks.note_disk", lambda node, _: note_disk(node=node, full=True), "takes no jobs"),
    "fewer CPUs": Writer("inventory.store_inventory", lambda node, _: tell_inventory(node, cpus=1), "CPUs"),
    "less memory": Writer(
        "inventory.store_inventory", lambda node, _: tell_inventory(node, memory_mib=1), "MiB; 0 are used"
    ),
    "more memory": Writer("inventory.store_inventory", lambda node, _: tell_inventory(node, memory_mib=10**7), None),
    "another label": Writer("inventory.store_inventory", lambda node, _: tell_inventory(node, labels={"a": "b"}), None),
    "another type": Writer(
        "inventory.store_inventory",
        lambda node, _: tell_inventory(node, first={"model": "NVIDIA H100"}),
        "has the type H100 now; the plan chose it as A100",
    ),
    "one GPU is out": Writer("inventory.store_inventory", lambda node, _: tell_inventory(node, gpus=0), "has no GPU"),
    "one GPU is elsewhere": Writer("inventory.store_inventory", give_gpu_to, "has no GPU"),
    "only containers": Writer(
        "inventory.store_inventory",
        lambda node, _: tell_inventory(node, details={"runtimes": ["docker"]}),
        "runs jobs in containers",
    ),
    "another rack": Writer("fleet.save_model", lambda node, _: edit(node, rack="far"), "in one rack any more"),
    "another description": Writer("fleet.save_model", lambda node, _: edit(node, labels={"a": "b"}), None),
}


def test_every_writer_of_a_version_is_here() -> None:
    platform = Path(muster.__path__[0])
    may_write = {*(platform / "fleet").rglob("*.py"), platform / "console/fleet.py"}
    found = {
        f"{path.stem}.{function.name}"
        for path in may_write
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef) and "version=F('version') + 1" in ast.unparse(function)
    }
    elsewhere = {
        path.name for path in set(platform.rglob("*.py")) - may_write if 'version=F("version")' in path.read_text()
    }
    assert found == {writer.function for writer in WRITERS.values()}
    assert elsewhere == set()


def make_random_world(draw: random.Random) -> World:
    world = make_world(nodes=2, gpus=4, quota=draw.choice([6, 100]))
    world.nodes.append(make_node(world.pool, gpus=2, gpu_type="V100", cpus=32))
    Quota.objects.create(vc=world.vc, gpu_type="V100", gpus=100)
    Node.objects.filter(pool=world.pool).update(rack="near")
    make_vc(world.tenant, world.pool, quotas={"A100": 8})
    for node in world.nodes:
        Gpu.objects.filter(pk=spare_gpu(node).pk).update(health=HealthLevel.FAILURE)
    submit(world, gpus="A100:1", nodes=2, cpus=2)
    for _ in range(draw.randrange(2, 6)):
        submit(world, gpus=draw.choice(["A100:1", "V100:1", 1, 0, 2]), cpus=draw.choice([1, 2, 20]))
    return world


@pytest.mark.parametrize("name", WRITERS)
def test_a_late_unit_is_refused_exactly_where_the_law_says_so(name: str) -> None:
    writer, reasons = WRITERS[name], []
    for seed in SEEDS:
        draw = random.Random(seed)
        world = make_random_world(draw)
        seen = pool_snapshot(world.pool, seed=1)
        places = decide(seen, config_of(world.pool)).places
        assert places
        version = now_of(world.nodes[0]).version
        writer.act(now_of(world.nodes[0]), now_of(world.nodes[1]))
        assert now_of(world.nodes[0]).version > version
        for one in places:
            reasons += refused_as_the_law_says(world, seen, Unit((one,)))
        assert unsound() == [], name
    if writer.told is None:
        assert reasons == []
    else:
        assert any(writer.told in reason for reason in reasons), reasons


def refused_as_the_law_says(world: World, seen: Snapshot, unit: Unit) -> list[str]:
    """Applies the unit and compares the result with the whole pool's; returns why it is refused."""
    now = pool_snapshot(world.pool, seed=1)
    admission = compose(config_of(world.pool)).admission
    expected = [*changed_since(seen, now, unit.plan), *check(now, unit.plan, admission)]
    applied = apply_unit(world.pool, unit, config_of(world.pool), seen)
    assert bool(applied.refusals) == bool(expected), (expected, applied)
    return [refusal.reason for refusal in applied.refusals]


def test_a_node_that_became_anothers_refuses_the_job() -> None:
    world = make_world()
    Node.objects.update(single_user=True)
    stranger = make_tenant()
    make_vc(stranger, world.pool)
    edit(now_of(world.nodes[0]), single_user_tenant=world.tenant)
    submit(world)
    seen = pool_snapshot(world.pool, seed=1)
    (one,) = decide(seen, config_of(world.pool)).places
    edit(now_of(world.nodes[0]), single_user_tenant=stranger)
    assert refused_as_the_law_says(world, seen, Unit((one,))) != []


def test_a_node_of_another_pool_refuses_the_unit() -> None:
    world = make_world()
    submit(world)
    seen = pool_snapshot(world.pool, seed=1)
    (one,) = decide(seen, config_of(world.pool)).places
    Node.objects.update(pool=Pool.objects.create(name="other"))
    result = apply_unit(world.pool, Unit((one,)), config_of(world.pool), seen)
    assert [refusal.reason for refusal in result.refusals] == [f"node {world.nodes[0].pk} is not in this pool"]


def test_a_quota_counts_the_types_that_gpus_elsewhere_have_now() -> None:
    world = make_world(nodes=2, gpus=1, quota=1)
    there = ranks(start(world))[0].node
    here = next(node for node in world.nodes if node.pk != there.pk)
    Gpu.objects.filter(node=there).update(type="V100")
    job = submit(world)
    seen = pool_snapshot(world.pool, seed=1)
    (one,) = decide(seen, config_of(world.pool)).places
    assert one.allocations[0].node_id == here.pk
    tell_inventory(now_of(there), first={"model": "NVIDIA A100"})
    (reason,) = refused_as_the_law_says(world, seen, Unit((one,)))
    assert "quota" in reason
    assert states(job)[0] == "queued"


class TestVictims:
    @staticmethod
    def planned(world: World, victim: Attempt) -> tuple[Snapshot, Job, Unit]:
        """A unit that preempts the victim for a new job, which takes its first GPU."""
        job = submit(world)
        seen = pool_snapshot(world.pool, seed=1)
        share = seen.running_by_job[victim.job_id].allocations[0]
        choice = job.request.first
        place = Place(
            job.pk, (AllocationView(share.node_id, 0, share.gpu_ids[:1], choice.cpus, choice.memory_mib, share.slots),)
        )
        return seen, job, Unit((place,), (Preempt(victim.job_id, job.pk, "it goes first"),))

    @staticmethod
    def carry_out(world: World, seen: Snapshot, unit: Unit) -> Applied:
        return apply_unit(world.pool, unit, config_of(world.pool), seen)

    def test_a_later_attempt_of_the_victim_is_another_victim(self) -> None:
        world = make_world(gpus=1)
        victim = start(world, retry={"max": 3, "on": ["node_lost"]})
        seen, job, unit = self.planned(world, victim)
        end(ranks(victim)[0], Reason.NODE_LOST, started=False)
        Job.objects.filter(pk=job.pk).update(eligible_at="2100-01-01T00:00Z")
        Job.objects.filter(pk=victim.job_id).update(eligible_at=victim.placed_at, avoid_nodes=[])
        again = pool_snapshot(world.pool, seed=1)
        (back,) = decide(again, config_of(world.pool)).places
        assert back.job_id == victim.job_id
        assert self.carry_out(world, again, Unit((back,))).started == [victim.job_id]
        Job.objects.filter(pk=job.pk).update(eligible_at=victim.placed_at)
        result = self.carry_out(world, seen, unit)
        assert (result.preempted, result.reserved) == ([], [])
        assert result.refusals[0].reason == "another attempt of this job runs than the plan chose to preempt"

    def test_a_victim_that_holds_less_than_it_did_is_not_stopped(self) -> None:
        world = make_world(nodes=2, gpus=1)
        victim = start(world, nodes=2)
        seen, _, unit = self.planned(world, victim)
        end(ranks(victim)[0])
        result = self.carry_out(world, seen, unit)
        assert (result.preempted, result.reserved) == ([], [])
        assert result.refusals[0].reason == "this job has released resources since the plan chose to preempt it"
        assert now_of(victim).state == "running"

    def test_a_victim_that_is_as_it_was_is_stopped_whatever_else_has_changed(self) -> None:
        world = make_world(gpus=1)
        victim = start(world)
        seen, job, unit = self.planned(world, victim)
        tell_inventory(now_of(world.nodes[0]), memory_mib=10**7)
        result = self.carry_out(world, seen, unit)
        assert (result.preempted, result.reserved, result.refusals) == ([victim.job_id], [job.pk], [])


def test_the_whole_plan_is_valid_for_the_snapshot_that_it_was_made_from() -> None:
    world = make_world(gpus=2)
    submit(world)
    seen = pool_snapshot(world.pool, seed=1)
    plan = Plan(decide(seen, config_of(world.pool)).places, ())
    assert changed_since(seen, seen, plan) == ()
