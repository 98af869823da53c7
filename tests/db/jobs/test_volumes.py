"""Volumes: who may declare what, who may mount it, and what an agent is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from muster.accounts.models import User
from muster.agents.inventory import reported
from muster.agents.launch import launch_spec
from muster.common.errors import Invalid
from muster.dispatch.cycles import run_cycle
from muster.events.models import AuditEntry
from muster.fleet.models import Node, Pool
from muster.jobs.models import Allocation, Job
from muster.jobs.services import submit_job
from muster.tenants.models import VirtualCluster, Volume
from nodeagent.protocol.messages import Inventory, VolumeMount
from tests.factories import make_node, make_pool, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db
in_cycles = pytest.mark.usefixtures("as_committed")


@pytest.fixture
def pool() -> Pool:
    return make_pool(mount_roots="/data\n/mnt/nfs")


@pytest.fixture
def vc(pool: Pool) -> VirtualCluster:
    return make_vc(make_tenant("vision"), pool, "vision-vc")


@pytest.fixture
def member(vc: VirtualCluster) -> User:
    return make_user(tenant=vc.tenant)


def mounting_node(pool: Pool, roots: tuple[str, ...] = ("/data",), **fields: Any) -> Node:
    said = {"runtimes": ["docker"], **({"mount_roots": list(roots)} if roots else {})}
    return make_node(pool, inventory=said, **fields)


def make_volume(vc: VirtualCluster, name: str = "data", path: str = "/data/seg", **fields: Any) -> Volume:
    """A volume of all of the tenant's virtual clusters."""
    return Volume.objects.create(tenant=vc.tenant, name=name, path=path, **fields)


def make_own(vc: VirtualCluster, name: str, path: str = "/data/seg", **fields: Any) -> Volume:
    """A volume of this virtual cluster alone."""
    return Volume.objects.create(tenant=vc.tenant, vc=vc, name=name, path=path, **fields)


def submit(user: User, *mounts: str, **fields: Any) -> Job:
    data = {"command": "true", "gpus": 1, "image": "busybox", "mounts": list(mounts), **fields}
    return submit_job(user=user, data=data)[0]


def refusal(user: User, *mounts: str, **fields: Any) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        submit(user, *mounts, **fields)
    return [(error.field, error.message) for error in caught.value.errors]


def launched(job: Job) -> tuple[VolumeMount, ...]:
    """The volumes that the agent of the job's node is told."""
    allocation = Allocation.objects.select_related("attempt__job", "node__pool").get(attempt__job=job)
    spec = launch_spec(allocation.node, allocation)
    assert spec.mount_roots == ("/data", "/mnt/nfs")
    return spec.mounts


@in_cycles
def test_a_job_mounts_its_tenants_volumes(pool: Pool, vc: VirtualCluster, member: User) -> None:
    make_volume(vc)
    make_own(vc, "scratch", "/mnt/nfs/scratch", writable=True)
    mounting_node(pool)
    job = submit(member, "data:/data", "scratch:/scratch:rw")
    run_cycle(pool.pk, trigger="test")
    assert launched(job) == (
        VolumeMount("data", "/data/seg", "/data", True),
        VolumeMount("scratch", "/mnt/nfs/scratch", "/scratch", False),
    )


def test_a_volume_of_another_reads_like_one_that_is_not_there(vc: VirtualCluster, member: User, pool: Pool) -> None:
    make_volume(make_vc(make_tenant("speech"), pool), "theirs")
    make_own(make_vc(vc.tenant, pool, "vision-two"), "elsewhere")
    for name in ("theirs", "elsewhere", "nowhere"):
        message = f"there is no volume {name!r} that jobs of vision-vc may mount"
        assert refusal(member, f"{name}:/data", vc="vision-vc") == [("mounts.0", message)]


def test_what_a_volume_does_not_allow_is_refused_and_its_folder_not_told(vc: VirtualCluster, member: User) -> None:
    make_volume(vc)
    make_volume(vc, "old", "/old/place")
    assert refusal(member, "data:/data:rw", "old:/old") == [
        ("mounts.0", "volume data is read-only: write ro in the place of rw"),
        ("mounts.1", f"volume old is not on the nodes of pool {vc.pool.name}"),
    ]


def test_a_pool_whose_nodes_mount_nothing_refuses_the_job(pool: Pool, vc: VirtualCluster, member: User) -> None:
    make_volume(vc)
    mounting_node(pool, ())
    assert refusal(member, "data:/data") == [("mounts", f"no node of pool {pool.name} mounts volumes")]
    mounting_node(pool)
    submit(member, "data:/data")
    ((field, message),) = refusal(member, "data:/data", image=None)
    assert (field, "required" in message) == ("image", True)


@in_cycles
def test_a_job_with_volumes_goes_to_a_node_that_mounts_them(pool: Pool, vc: VirtualCluster, member: User) -> None:
    make_volume(vc)
    # The tightest fit would be the other one, whose agent allows no volumes.
    mounting_node(pool, (), gpus=1)
    wanted = mounting_node(pool, gpus=4)
    job = submit(member, "data:/data")
    run_cycle(pool.pk, trigger="test")
    assert Allocation.objects.get(attempt__job=job).node_id == wanted.pk


@in_cycles
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda volume: volume.delete(), "there is no volume 'data'"),
        (lambda volume: Volume.objects.filter(pk=volume.pk).update(writable=False), "volume data is read-only"),
        (lambda volume: Volume.objects.filter(pk=volume.pk).update(path="/old/place"), "is not on the nodes"),
    ],
)
def test_a_volume_that_is_taken_away_while_the_job_waits_is_refused_by_the_agent(
    change: Callable[[Volume], object], says: str, pool: Pool, vc: VirtualCluster, member: User
) -> None:
    volume = make_volume(vc, writable=True)
    mounting_node(pool)
    job = submit(member, "data:/data:rw")
    run_cycle(pool.pk, trigger="test")
    change(volume)
    ((name, source, target, read_only, refused),) = [
        (one.name, one.source, one.target, one.read_only, one.refused) for one in launched(job)
    ]
    assert (name, source, target, read_only) == ("data", "", "/data", False)
    assert says in refused


def test_an_agent_tells_its_roots_and_not_too_many() -> None:
    said = Inventory("h", "a", 1, 1, mount_roots=tuple(f"/data/{number}" for number in range(100)))
    assert reported(said).details["mount_roots"][:2] == ["/data/0", "/data/1"]
    assert len(reported(said).details["mount_roots"]) == 64


@pytest.fixture
def browser() -> Client:
    client = Client()
    client.force_login(make_user("oscar", operator=True))
    return client


def declare(browser: Client, owner: VirtualCluster, **fields: Any) -> dict[str, list[str]]:
    """The errors of the admin's form, by field; none once it is stored."""
    values = {"tenant": owner.tenant.pk, "vc": "", "name": "data", "path": "/data/seg", **fields}
    answer = browser.post(reverse("admin:tenants_volume_add"), values)
    return {} if answer.status_code == 302 else dict(answer.context["adminform"].form.errors)


def test_an_operator_declares_a_volume_and_it_is_audited(browser: Client, vc: VirtualCluster) -> None:
    assert declare(browser, vc, writable="on") == {}
    volume = Volume.objects.get()
    assert (volume.tenant, volume.vc, volume.path, volume.writable) == (vc.tenant, None, "/data/seg", True)
    assert AuditEntry.objects.filter(object_type="volume", actor="oscar").count() == 1
    page = reverse("admin:tenants_volume_change", args=[volume.pk])
    assert browser.post(page, {"vc": vc.pk, "path": "/mnt/nfs/x"}).status_code == 302
    volume.refresh_from_db()
    assert (volume.name, volume.vc, volume.path, volume.writable) == ("data", vc, "/mnt/nfs/x", False)
    assert browser.get(reverse("admin:tenants_volume_changelist")).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/", "data", "/data/../etc", "/data/./x", "/proc", "/sys/x", "/etc", "/run/docker.sock"),
        *("/var/run/docker.sock", "/var/lib/docker", "/var", "/srv/x", "/database"),
        *("/data/a,b", "/data/a:b", "/data/a b", "/data//x", "/data/"),
    ],
)  # fmt: skip
def test_a_folder_that_no_pool_would_mount_is_refused(path: str, browser: Client, vc: VirtualCluster) -> None:
    assert list(declare(browser, vc, path=path)) == ["path"]
    assert not Volume.objects.exists()


def test_other_mistakes_are_told_at_their_fields(browser: Client, vc: VirtualCluster, pool: Pool) -> None:
    assert list(declare(browser, vc, name="Data set")) == ["name"]
    assert list(declare(browser, vc, vc=make_vc(pool=pool).pk)) == ["vc"]
    assert declare(browser, vc) == {}
    assert declare(browser, vc) != {}
    bare = make_vc(vc.tenant, make_pool())
    assert list(declare(browser, vc, name="two", vc=bare.pk)) == ["path"]


def test_members_declare_nothing(vc: VirtualCluster, member: User) -> None:
    client = Client()
    client.force_login(member)
    assert client.get(reverse("admin:tenants_volume_add")).status_code in {302, 403}


@pytest.mark.parametrize("roots", ["/", "data", "/data\n/proc", "/data/..", "/var", "/usr/local", "/a,b"])
def test_a_root_that_no_pool_can_have_is_refused(roots: str, pool: Pool) -> None:
    pool.mount_roots = roots
    with pytest.raises(ValidationError, match="mount_roots"):
        pool.full_clean()
