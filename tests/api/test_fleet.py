"""Pools, nodes, GPUs and virtual clusters, as those see them who share them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.events.models import AuditEntry
from muster.fleet.models import Gpu, GpuCheck, GpuReading, HealthReport, Node, NodeLease, Strike
from muster.links.models import LinkState, Server
from muster.tenants.models import Volume
from scheduler.model.lifecycle import NodeAdmin, NodeHealth
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World
from tests.factories import make_attempt, make_job, make_node

Api = Callable[[User | None], Client]
NODE = "/api/v1/nodes/gpu01"


@pytest.mark.parametrize(("role", "sees"), [("peer", True), ("operator", True), ("stranger", False)])
def test_whose_job_holds_a_gpu_is_told_to_its_tenant_only(role: str, sees: bool, world: World, api: Api) -> None:
    client = api(world.user(role))
    gpus = client.get("/api/v1/gpus").json()["results"]
    assert [gpu["busy"] for gpu in gpus] == [True, True, False, False]
    job = {"id": world.running.pk, "name": "running", "owner": "olivia", "tenant": "vision"}
    assert [gpu["jobs"] for gpu in gpus] == [[job] if sees else []] * 2 + [[], []]
    assert client.get(NODE).json()["gpus"] == gpus
    if not sees:
        everything = b"".join(client.get(f"/api/v1/{path}").content for path in ("nodes", "gpus", "pools", "vcs"))
        assert b"olivia" not in everything
        assert b"vision" not in everything


def test_a_node_tells_what_is_used_of_it(world: World, api: Api) -> None:
    answer = api(world.owner).get(NODE)
    node = answer.json()
    assert (node["cpus"], node["cpus_used"]) == (64, world.running.request.first.cpus)
    assert (node["memory_mib"], node["memory_used_mib"]) == (262_144, 1024)
    assert (node["admin"], node["health"], node["reason"]) == ("active", "ready", None)
    assert node["last_seen_at"] is not None


def test_a_node_tells_its_versions_and_why_nothing_may_start_there(world: World, api: Api) -> None:
    versions = {"driver_version": "570.1", "toolkit_version": "1.17.7"}
    Node.objects.filter(pk=world.node.pk).update(barred="its toolkit is old", inventory=versions)
    answer = api(world.owner).get(NODE)
    require_described("GET", NODE, answer)
    node = answer.json()
    assert {name: node[name] for name in versions} == versions
    assert node["barred"] == "its toolkit is old"
    assert api(world.owner).get("/api/v1/nodes").json()["results"][0]["barred"] == "its toolkit is old"


def test_a_node_that_no_agent_has_joined_was_never_seen(world: World, api: Api) -> None:
    make_node(world.pool, "gpu02", health=NodeHealth.PENDING)
    assert api(world.owner).get("/api/v1/nodes/gpu02").json()["last_seen_at"] is None


def test_a_node_tells_how_its_gpus_are_linked(world: World, api: Api) -> None:
    Node.objects.filter(pk=world.node.pk).update(links=[[0, 40], [40, 0]])
    Gpu.objects.filter(uuid="GPU-gpu01-1").update(numa_node=1)
    answer = api(world.owner).get(NODE)
    require_described("GET", NODE, answer)
    assert answer.json()["links"] == [[0, 40], [40, 0]]
    assert [gpu["numa_node"] for gpu in answer.json()["gpus"]] == [None, 1, None, None]


@pytest.mark.parametrize(("role", "sees"), [("peer", True), ("operator", True), ("stranger", False)])
def test_a_node_tells_its_strikes_and_of_jobs_what_one_may_see(role: str, sees: bool, world: World, api: Api) -> None:
    gpu = Gpu.objects.get(uuid="GPU-gpu01-2")
    told = {"node": world.node, "job_id": world.running.pk, "attempt_id": 1}
    old = Strike.objects.create(**told, reason="gpu_lost", gpu=gpu, detail="Xid 79", incident="a")
    Strike.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(days=1))
    Strike.objects.create(**told, reason="launch_failed", detail="no space", incident="b")
    Strike.objects.create(**told, reason="node_lost", incident="c", forgiven_at=timezone.now())
    client = api(world.user(role))
    answer = client.get(NODE)
    require_described("GET", NODE, answer)
    assert answer.json()["strikes"] == 1.5
    assert [node["strikes"] for node in client.get("/api/v1/nodes").json()["results"]] == [1.5]
    strikes = answer.json()["last_strikes"]
    assert [(one["reason"], one["gpu"]) for one in strikes] == [
        ("node_lost", None),
        ("launch_failed", None),
        ("gpu_lost", 2),
    ]
    assert [one["forgiven_at"] is None for one in strikes] == [False, True, True]
    assert {one["job"] for one in strikes} == {world.running.pk if sees else None}
    assert [one["detail"] for one in strikes] == (["", "no space", "Xid 79"] if sees else [None] * 3)


def test_of_many_strikes_the_newest_are_told(world: World, api: Api) -> None:
    for number in range(25):
        Strike.objects.create(
            node=world.node, job_id=number, attempt_id=number, reason="launch_failed", incident=str(number)
        )
    node = api(world.operator).get(NODE).json()
    assert (node["strikes"], len(node["last_strikes"])) == (25, 20)


def test_the_newest_reading_of_a_gpu_is_told(world: World, api: Api) -> None:
    gpu = Gpu.objects.get(uuid="GPU-gpu01-0")
    GpuReading.objects.create(gpu=gpu, utilization=93.5, memory_used_mib=2048, power_w=250, temperature_c=61)
    answer = api(world.owner).get("/api/v1/gpus")
    require_described("GET", "/api/v1/gpus", answer)
    first, second = answer.json()["results"][:2]
    keys = ("utilization", "memory_used_mib", "power_w", "temperature_c")
    assert [first[key] for key in keys] == [93.5, 2048, 250, 61]
    assert [second[key] for key in keys] == [None] * 4


def test_a_retired_node_is_in_no_list(world: World, api: Api) -> None:
    make_node(world.pool, "gpu09", admin=NodeAdmin.RETIRED)
    client = api(world.owner)
    assert [node["name"] for node in client.get("/api/v1/nodes").json()["results"]] == ["gpu01"]
    assert {gpu["node"] for gpu in client.get("/api/v1/gpus").json()["results"]} == {"gpu01"}
    assert client.get("/api/v1/pools").json()["results"][0]["nodes"] == 1


@pytest.mark.parametrize(
    ("change", "free"),
    [
        ({}, 2),
        ({"admin": NodeAdmin.CORDONED}, 0),
        ({"health": NodeHealth.DOWN}, 0),
    ],
)
def test_free_gpus_are_those_that_a_job_could_get(change: dict[str, Any], free: int, world: World, api: Api) -> None:
    Node.objects.filter(pk=world.node.pk).update(**change)
    (pool,) = api(world.owner).get("/api/v1/pools").json()["results"]
    assert pool["gpus"] == [{"type": "A100", "total": 4, "used": 2, "free": free}]


def test_a_virtual_cluster_tells_what_it_holds_and_waits_for(world: World, api: Api) -> None:
    make_job(world.vc, world.peer)
    (vc,) = api(world.peer).get("/api/v1/vcs").json()["results"]
    assert (vc["name"], vc["tenant"], vc["pool"], vc["waiting"], vc["active"]) == ("vision-vc", "vision", "main", 2, 1)
    (quota,) = vc["quotas"]
    assert (quota["gpu_type"], quota["gpus"], quota["used"]) == ("A100", 8, 2)


def test_what_is_held_beyond_any_quota_stays_visible(world: World, api: Api) -> None:
    node = make_node(world.pool, "gpu02", gpus=1, gpu_type="V100")
    make_attempt(make_job(world.vc, world.owner), [node])
    (vc,) = api(world.owner).get("/api/v1/vcs").json()["results"]
    (quota,) = (one for one in vc["quotas"] if one["gpu_type"] == "V100")
    assert (quota["gpus"], quota["used"]) == (0, 1)


@pytest.mark.parametrize(
    ("action", "start", "end"),
    [("cordon", "active", "cordoned"), ("drain", "active", "draining"), ("move-off", "cordoned", "draining")],
)
def test_an_operator_changes_a_node_with_a_reason(action: str, start: str, end: str, world: World, api: Api) -> None:
    Node.objects.filter(pk=world.node.pk).update(admin=start)
    answer = send(api(world.operator), "PATCH", NODE, {"action": action, "reason": "new fans"})
    require_described("PATCH", NODE, answer)
    assert (answer.json()["admin"], answer.json()["reason"]) == (end, "new fans")
    entry = AuditEntry.objects.get(actor="oscar", object_type="node", object_id="gpu01")
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["admin"], entry.after["admin"]) == (start, end)


def test_resuming_needs_no_reason_and_leaves_none_on_the_node(world: World, api: Api) -> None:
    Node.objects.filter(pk=world.node.pk).update(admin=NodeAdmin.DRAINING, reason="new fans")
    answer = send(api(world.operator), "PATCH", NODE, {"action": "resume"})
    require_described("PATCH", NODE, answer)
    assert (answer.json()["admin"], answer.json()["reason"]) == ("active", None)


def test_a_change_that_the_state_does_not_allow_is_a_conflict(world: World, api: Api) -> None:
    answer = send(api(world.operator), "PATCH", NODE, {"action": "resume", "reason": "why not"})
    assert answer.status_code == 409
    require_described("PATCH", NODE, answer)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "explode", "reason": "x"}, "action"),
        ({"action": "cordon"}, "reason"),
        ({"action": "cordon", "reason": " "}, "reason"),
        ({"action": "cordon", "reason": "a\nb"}, "reason"),
        ({"action": "cordon", "reason": "x" * 501}, "reason"),
        ({"reason": "x"}, "action"),
    ],
)
def test_a_change_of_the_wrong_shape_is_refused_by_field(
    body: dict[str, Any], field: str, world: World, api: Api
) -> None:
    answer = send(api(world.operator), "PATCH", NODE, body)
    assert answer.status_code == 422
    assert fields_of(answer) == [field]
    world.node.refresh_from_db()
    assert world.node.admin == NodeAdmin.ACTIVE


@pytest.mark.parametrize(("role", "reason"), [("operator", "no answer at 10.0.0.7"), ("owner", None)])
def test_a_node_over_ssh_tells_how_its_link_is_and_operators_why(
    role: str, reason: str | None, world: World, api: Api
) -> None:
    assert api(world.owner).get(NODE).json()["link"] is None
    Server.objects.create(
        node=world.node,
        host="10.0.0.7",
        user="root",
        sealed_key="sealed",
        sealed_credential="sealed",
        public_key="ssh-ed25519 AAAA",
        state=LinkState.UNREACHABLE,
        reason="no answer at 10.0.0.7",
    )
    answer = api(world.user(role)).get(NODE)
    require_described("GET", NODE, answer)
    link = answer.json()["link"]
    assert (link["state"], link["reason"]) == ("unreachable", reason)
    assert b"sealed" not in answer.content
    assert api(world.user(role)).get("/api/v1/nodes").json()["results"][0]["link"] == link


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("failure", ["gpu01"]),
        ("warning", ["gpu02"]),
        ("ok", ["gpu03"]),
        ("suspect", ["gpu02"]),
        ("ready", ["gpu01", "gpu03"]),
    ],
)
def test_nodes_are_found_by_their_worst_gpu_and_by_their_own_health(
    asked: str, found: list[str], world: World, api: Api
) -> None:
    make_node(world.pool, "gpu02", gpus=2, health=NodeHealth.SUSPECT)
    make_node(world.pool, "gpu03", gpus=1)
    for uuid, level in (("GPU-gpu01-0", "failure"), ("GPU-gpu01-1", "warning"), ("GPU-gpu02-1", "warning")):
        Gpu.objects.filter(uuid=uuid).update(health=level)
    answer = api(world.owner).get(f"/api/v1/nodes?health={asked}")
    assert [node["name"] for node in answer.json()["results"]] == found
    refused = api(world.owner).get("/api/v1/nodes?health=sick")
    assert refused.status_code == 422
    assert "health" in fields_of(refused)


@pytest.mark.parametrize(("role", "detail"), [("operator", "pid=7, name=secret"), ("owner", None)])
def test_a_node_tells_what_was_reported_and_the_agents_words_to_operators(
    role: str, detail: str | None, world: World, api: Api
) -> None:
    gpu = Gpu.objects.get(uuid="GPU-gpu01-2")
    told = {"level": "warning", "action": "reset_gpu", "words": "memory error", "detail": "pid=7, name=secret"}
    HealthReport.objects.create(node=world.node, gpu=gpu, kind="xid", xid=94, **told)
    Gpu.objects.filter(pk=gpu.pk).update(health="warning", health_why="Xid 94: memory error")
    answer = api(world.user(role)).get(NODE)
    require_described("GET", NODE, answer)
    (row,) = answer.json()["health_reports"]
    assert (row["gpu"], row["xid"], row["level"], row["words"], row["detail"]) == (
        2,
        94,
        "warning",
        "memory error",
        detail,
    )
    shown = answer.json()["gpus"][2]
    assert (shown["health"], shown["healthy"], shown["health_why"]) == ("warning", True, "Xid 94: memory error")


def test_volumes_are_listed_for_those_whose_jobs_may_mount_them(world: World, api: Api) -> None:
    Volume.objects.create(tenant=world.vision, name="data", path="/data/secret-place", writable=True)
    Volume.objects.create(tenant=world.vision, vc=world.vc, name="eval", path="/data/eval")
    Volume.objects.create(tenant=world.speech, name="audio", path="/data/audio")
    answer = api(world.owner).get("/api/v1/volumes")
    require_described("GET", "/api/v1/volumes", answer)
    assert answer.json()["results"] == [
        {"name": "data", "tenant": "vision", "vc": None, "mode": "rw"},
        {"name": "eval", "tenant": "vision", "vc": "vision-vc", "mode": "ro"},
    ]
    assert [one["name"] for one in api(world.stranger).get("/api/v1/volumes").json()["results"]] == ["audio"]
    assert len(api(world.operator).get("/api/v1/volumes").json()["results"]) == 3
    assert b"secret-place" not in answer.content


@pytest.mark.parametrize(("role", "detail"), [("operator", "a product of matrices is wrong"), ("owner", None)])
def test_a_node_tells_what_came_of_checks_and_operators_the_detail(
    role: str, detail: str | None, world: World, api: Api
) -> None:
    first, second, *_ = Gpu.objects.filter(node=world.node).order_by("index")
    GpuCheck.objects.create(
        gpu=second,
        at=timezone.now(),
        result="failed",
        how="matmul",
        detail="a product of matrices is wrong",
        duration_s=8.5,
        tflops=312.5,
        gb_s=1900.5,
        streak=-1,
    )
    GpuCheck.objects.create(gpu=first)  # never checked, and no check asked for
    answer = api(world.user(role)).get(NODE)
    require_described("GET", NODE, answer)
    (told,) = answer.json()["gpu_checks"]
    assert told["at"] is not None
    assert {name: told[name] for name in ("gpu", "wanted", "result", "detail", "tflops", "streak")} == {
        "gpu": second.index,
        "wanted": False,
        "result": "failed",
        "detail": detail,
        "tflops": 312.5,
        "streak": -1,
    }


def test_an_operator_has_the_gpus_checked_that_no_job_has(world: World, api: Api) -> None:
    answer = send(api(world.operator), "POST", f"{NODE}:check", {})
    require_described("POST", f"{NODE}:check", answer)
    assert answer.status_code == 202
    assert [(one["gpu"], one["wanted"]) for one in answer.json()["gpu_checks"]] == [(2, True), (3, True)]
    assert AuditEntry.objects.get(action="check").object_id == "gpu01"


def test_an_operator_declares_a_silent_node_gone(world: World, api: Api) -> None:
    path = f"{NODE}:declare-gone"
    refused = send(api(world.operator), "POST", path, {"reason": "it burnt"})
    require_described("POST", path, refused)
    assert refused.status_code == 409
    assert re.search(r"gpu01 was heard \d+ s ago: it is not gone", problem_of(refused)["detail"])
    Node.objects.filter(pk=world.node.pk).update(health=NodeHealth.DOWN)
    NodeLease.objects.filter(pk=world.node.pk).update(seen_at=timezone.now() - timedelta(minutes=1))
    answer = send(api(world.operator), "POST", path, {"reason": "it burnt"})
    require_described("POST", path, answer)
    assert answer.status_code == 202
    node = answer.json()
    assert (node["admin"], node["health"], node["reason"]) == ("cordoned", "down", "declared gone: it burnt")
    assert AuditEntry.objects.get(action="declare_gone").actor == "oscar"


@pytest.mark.parametrize("body", [{}, {"reason": " "}, {"reason": "a\nb"}, {"reason": "x" * 501}])
def test_why_a_node_is_gone_must_be_said(body: dict[str, str], world: World, api: Api) -> None:
    answer = send(api(world.operator), "POST", f"{NODE}:declare-gone", body)
    assert answer.status_code == 422
    assert fields_of(answer) == ["reason"]


@pytest.mark.parametrize(
    ("role", "path", "status"),
    [("owner", NODE, 403), ("stranger", NODE, 403), ("operator", "/api/v1/nodes/none", 404), (None, NODE, 401)],
)
def test_nobody_else_declares_nodes_gone(role: str | None, path: str, status: int, world: World, api: Api) -> None:
    answer = send(api(world.user(role) if role else None), "POST", f"{path}:declare-gone", {"reason": "x"})
    assert answer.status_code == status
    require_described("POST", f"{NODE}:declare-gone", answer)


@pytest.mark.parametrize(
    ("role", "path", "status"),
    [("owner", NODE, 403), ("stranger", NODE, 403), ("operator", "/api/v1/nodes/none", 404), (None, NODE, 401)],
)
def test_nobody_else_has_nodes_checked(role: str | None, path: str, status: int, world: World, api: Api) -> None:
    answer = send(api(world.user(role) if role else None), "POST", f"{path}:check", {})
    assert answer.status_code == status
    require_described("POST", f"{NODE}:check", answer)
    assert not GpuCheck.objects.exists()


def test_a_node_that_is_away_is_not_checked(world: World, api: Api) -> None:
    Node.objects.filter(pk=world.node.pk).update(health=NodeHealth.DOWN)
    answer = send(api(world.operator), "POST", f"{NODE}:check", {})
    assert (answer.status_code, answer.json()["detail"]) == (409, "node gpu01 is down")
