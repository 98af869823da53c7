"""Jobs go where they can be started: with an image to nodes of containers, without one to nodes of processes."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import pytest

from muster.common.errors import Invalid
from muster.dispatch.apply.apply import apply_unit
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.cycles import run_cycle
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.fleet.models import Node, Pool
from muster.fleet.networks import host_network_reason
from muster.jobs.models import Allocation, Job
from muster.jobs.services import submit_job
from muster.jobs.spec.spec import parse_spec
from muster.jobs.submit.images import runtime_outlook
from scheduler.model import AllocationView
from scheduler.model.lifecycle import HoldReason, RuntimeNeed
from scheduler.model.plan import Place
from tests.factories import make_node, make_pool, make_user, make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed")]


def node(pool: Pool, *runtimes: str, default: str = "", **fields: Any) -> Node:
    """A node whose agent has told its runtimes."""
    return make_node(pool, inventory={"runtimes": runtimes}, labels={"default-image": default}, **fields)


def submitted(pool: Pool, **spec: Any) -> Job:
    vc = make_vc(pool=pool, quotas={"A100": 100})
    return submit_job(user=make_user(tenant=vc.tenant), data={"command": "true", "gpus": 1, "vc": vc.name, **spec})[0]


def places(job: Job) -> list[str]:
    """The nodes that the job got."""
    return list(Allocation.objects.filter(attempt__job=job).order_by("rank").values_list("node__name", flat=True))


@pytest.fixture
def pool() -> Pool:
    return make_pool()


def test_each_job_goes_to_a_node_that_can_start_it(pool: Pool) -> None:
    # The tightest fit of either would be the other's node.
    process, docker = node(pool, "process", gpus=4), node(pool, "docker", gpus=4)
    wanted = {
        process.name: [submitted(pool) for _ in range(4)],
        docker.name: [submitted(pool, image="pytorch/pytorch:2.9") for _ in range(4)],
    }
    run_cycle(pool.pk, trigger="test")
    assert {name: [places(job) for job in jobs] for name, jobs in wanted.items()} == {
        process.name: [[process.name]] * 4,
        docker.name: [[docker.name]] * 4,
    }


def test_a_job_waits_for_its_kind_of_node_and_is_told_so(pool: Pool) -> None:
    node(pool, "process", gpus=4)
    node(pool, "podman", gpus=1)
    first, second = (submitted(pool, image="busybox") for _ in range(2))
    run_cycle(pool.pk, trigger="test")
    run_cycle(pool.pk, trigger="test")
    second.refresh_from_db()
    assert len(places(first)) == 1
    assert (places(second), second.hold_reason) == ([], HoldReason.RUNTIME)
    assert second.hold is not None
    assert second.hold["detail"] == "there is room on 1 node, but not on nodes that run containers"


def test_a_node_with_an_image_for_jobs_that_name_none_starts_all(pool: Pool) -> None:
    node(pool, "docker", default="busybox")
    (found,) = pool_snapshot(pool, seed=1).nodes
    assert set(found.runtimes) == {RuntimeNeed.PLAIN, RuntimeNeed.IMAGE, RuntimeNeed.CONTAINER}
    jobs = [submitted(pool), submitted(pool, image="busybox"), submitted(pool, shm="1GiB")]
    assert [job.request.runtime for job in jobs] == [
        RuntimeNeed.PLAIN,
        RuntimeNeed.IMAGE,
        RuntimeNeed.CONTAINER,
    ]
    run_cycle(pool.pk, trigger="test")
    assert [len(places(job)) for job in jobs] == [1, 1, 1]


def test_a_node_that_offers_both_starts_either(pool: Pool) -> None:
    node(pool, "process", "docker")
    jobs = [submitted(pool), submitted(pool, image="busybox")]
    run_cycle(pool.pk, trigger="test")
    assert [len(places(job)) for job in jobs] == [1, 1]
    with pytest.raises(Invalid, match="image: it is required"):
        submitted(pool, shm="1GiB")


@pytest.mark.parametrize(
    ("nodes", "spec", "outlook"),
    [
        (["process docker", "process"], {}, ("process", "it has no image, mounts or shm", 2, 2)),
        (["process docker", "process"], {"image": "busybox"}, ("container", "it names an image", 1, 2)),
        (["podman"], {}, ("container", "the nodes have an image for jobs that name none", 1, 1)),
        (["podman", "process"], {}, ("either", "it names no image, and some nodes have one for such jobs", 2, 2)),
        (["podman"], {"shm": "1GiB"}, ("container", "it asks for shm", 1, 1)),
        ([], {"image": "busybox"}, ("container", "it names an image", 0, 0)),
    ],
)
def test_a_dry_run_says_in_what_a_job_would_run_and_why(
    nodes: list[str], spec: dict[str, Any], outlook: tuple[str, str, int, int], pool: Pool
) -> None:
    for said in nodes:
        node(pool, *said.split(), default="busybox" if said == "podman" else "")
    job = parse_spec({"command": "true", "gpus": 1, **spec})
    assert astuple(runtime_outlook(job, pool)) == outlook


def test_a_node_that_has_said_nothing_is_given_any_job(pool: Pool) -> None:
    make_node(pool)
    job = submitted(pool, image="busybox")
    run_cycle(pool.pk, trigger="test")
    assert len(places(job)) == 1


def test_the_applier_refuses_a_place_where_the_job_cannot_start(pool: Pool) -> None:
    wrong = node(pool, "process")
    node(pool, "docker")
    job = submitted(pool, image="busybox")
    gpu = wrong.gpus.order_by("pk").first()
    assert gpu is not None
    share = AllocationView(wrong.pk, 0, (gpu.pk,), job.request.first.cpus, job.request.first.memory_mib)
    applied = apply_unit(pool, Unit((Place(job.pk, (share,)),)), config_of(pool))
    assert [refusal.reason for refusal in applied.refusals] == [
        f"{wrong.name} runs no containers, and this job names an image"
    ]
    assert places(job) == []
    # A node that was restarted with a container runtime meanwhile takes it.
    Node.objects.filter(pk=wrong.pk).update(inventory={"runtimes": ["docker"]})
    unit = Unit((Place(job.pk, (share,)),))
    assert apply_unit(pool, unit, config_of(pool)).started == [job.pk]


@pytest.mark.parametrize(
    ("runtime", "spec", "field"),
    [
        ("process", {"image": "busybox"}, "image"),
        ("process", {"shm": "1GiB"}, "shm"),
        ("docker", {}, "image"),
        ("docker", {"shm": "1GiB"}, "image"),
    ],
)
def test_what_no_node_of_the_pool_could_start_is_refused_when_it_is_submitted(
    runtime: str, spec: dict[str, Any], field: str, pool: Pool
) -> None:
    node(pool, runtime)
    with pytest.raises(Invalid) as caught:
        submitted(pool, **spec)
    assert [error.field for error in caught.value.errors] == [field]


def test_a_gang_in_containers_is_refused_where_the_pool_refuses_those() -> None:
    pool = make_pool(gang_network="refuse")
    node(pool, "docker")
    with pytest.raises(Invalid, match="runs no containers of jobs on several nodes") as caught:
        submitted(pool, image="busybox", nodes=2)
    assert [error.field for error in caught.value.errors] == ["nodes"]
    submitted(pool, image="busybox")
    grows = {"image": "busybox", "elastic": {"min": 1, "max": 4, "over": "gang"}, "checkpoint": {}}
    with pytest.raises(Invalid, match="runs no containers of jobs on several nodes") as caught:
        submitted(pool, **grows)
    assert [error.field for error in caught.value.errors] == ["elastic.over"]
    submitted(pool, **grows, locality={"within": "node"})


def gang_node(pool: Pool, network: str, address: str, **fields: Any) -> Node:
    """A node whose agent runs containers, with what it tells of the network of gangs."""
    return make_node(
        pool, inventory={"runtimes": ["docker"]}, labels={"gang-network": network}, address=address, **fields
    )


def test_a_gang_in_containers_of_several_machines_needs_a_network_that_an_operator_has_chosen(pool: Pool) -> None:
    for address in ("10.0.0.1", "10.0.0.2"):
        gang_node(pool, "own bridge", address)
    with pytest.raises(Invalid, match="an operator has to set the gang network of the pool") as caught:
        submitted(pool, image="busybox", nodes=2)
    assert [error.field for error in caught.value.errors] == ["nodes"]
    submitted(pool, image="busybox")
    Pool.objects.update(gang_network="host")
    pool.refresh_from_db()
    submitted(pool, image="busybox", nodes=2)


@pytest.mark.parametrize(
    "second",
    [("own overlay", "10.0.0.2"), ("host", "10.0.0.2"), ("own bridge", "10.0.0.1"), ("own bridge", "")],
    ids=["an engine with overlays", "an agent with the host's", "one machine", "an unknown address"],
)
def test_a_gang_in_containers_is_accepted_where_its_ranks_may_reach_each_other(
    second: tuple[str, str], pool: Pool
) -> None:
    gang_node(pool, "own bridge", "10.0.0.1")
    gang_node(pool, *second)
    submitted(pool, image="busybox", nodes=2)


def test_a_gang_without_an_image_is_accepted_where_it_may_run_as_processes(pool: Pool) -> None:
    gang_node(pool, "own bridge", "10.0.0.1")
    gang_node(pool, "own bridge", "10.0.0.2")
    for address in ("10.0.0.3", "10.0.0.4"):
        make_node(pool, inventory={"runtimes": ["process"]}, labels={"gang-network": ""}, address=address)
    submitted(pool, nodes=2)
    with pytest.raises(Invalid):
        submitted(pool, image="busybox", nodes=2)


@pytest.mark.parametrize(
    ("pool_says", "node_says", "reason"),
    [
        ("", "own bridge", ""),
        ("", "own overlay", ""),
        ("", "overlay-1", ""),
        ("", "", ""),
        ("overlay-1", "host", ""),
        ("host", "overlay-1", ""),
        ("host", "", ""),
        ("host", "own bridge", "the gang network of pool main is host"),
        ("host", "host", "the gang network of pool main is host"),
        ("", "host", "the agent of gpu01 runs with --gang-network host"),
    ],
)
def test_which_setting_gives_gangs_the_hosts_network_is_told(pool_says: str, node_says: str, reason: str) -> None:
    pool = Pool(name="main", gang_network=pool_says)
    assert host_network_reason(Node(pool=pool, name="gpu01", labels={"gang-network": node_says})) == reason


def test_when_the_last_node_of_its_kind_leaves_the_job_is_told_that_it_cannot_run(pool: Pool) -> None:
    docker = node(pool, "docker")
    job = submitted(pool, image="busybox")
    Node.objects.filter(pk=docker.pk).update(inventory={"runtimes": ["process"]})
    run_cycle(pool.pk, trigger="test")
    job.refresh_from_db()
    assert job.hold_reason == HoldReason.INFEASIBLE
    assert job.hold is not None
    assert job.hold["detail"] == "no node of this pool runs containers, and this job names an image"
