"""Jobs that accept several GPU types, and jobs that name nodes: what is stored, shown and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.fleet.models import Gpu, Node
from muster.jobs.models import Job
from muster.samples.rates import refresh_rates
from muster.tenants.models import Quota, Tenant
from scheduler.model.lifecycle import NodeAdmin
from tests.api.asking import JOBS, problem_of, require_described, send, submit
from tests.api.conftest import World
from tests.factories import make_node, make_pool

Api = Callable[[User | None], Client]

BOTH = {"any_of": ["A100:4", "V100:8"]}
CHOICES = [{"gpu_type": "A100", "gpus": 4}, {"gpu_type": "V100", "gpus": 8}]


@pytest.fixture
def mixed(world: World) -> World:
    """The world with A100 on gpu01 and gpu02, V100 on volta01, and a node of another pool and a retired one."""
    make_node(world.pool, "gpu02", gpus=4)
    make_node(world.pool, "volta01", gpus=8, gpu_type="V100")
    make_node(make_pool("other"), "other01")
    make_node(world.pool, "old01", admin=NodeAdmin.RETIRED)
    Quota.objects.create(vc=world.vc, gpu_type="V100", gpus=8)
    Tenant.objects.filter(pk=world.vision.pk).update(wait_for_hardware=False)
    return world


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("no type", {"gpus": {"any_of": []}}, "gpus.any_of", "write 1 or more entries"),
    ("a type twice", {"gpus": {"any_of": ["A100:4", "A100:8"]}}, "gpus.any_of", "A100 is there twice"),
    ("a type that the pool lacks", {"gpus": {"any_of": ["A100:4", "T4:8"]}}, "gpus.any_of.1", "no node of this pool"),
    ("a size that no node holds", {"gpus": {"any_of": ["A100:8", "V100:8"]}}, "gpus.any_of.0", "the largest node"),
    ("more memory than any GPU has", {"gpus": {"vram": "999GiB", "count": 1}}, "gpus.vram", "has at most"),
    ("no size", {"gpus": {"vram": "much", "count": 1}}, "gpus.vram", "GiB"),
    ("memory without a count", {"gpus": {"vram": "40GiB"}}, "gpus.count", "it is required"),
    ("memory and types", {"gpus": {"vram": "40GiB", "any_of": ["A100:4"]}}, "gpus.vram", "unknown"),
    ("a claim for another type", {"gpus": "A100:4", "throughput": {"T4": 10}}, "throughput.T4", "does not accept T4"),
    ("a claim of 0", {"gpus": "A100:4", "throughput": {"A100": 0}}, "throughput.A100", "more than 0"),
    ("a claim that is not a number", {"gpus": "A100:4", "throughput": {"A100": "fast"}}, "throughput.A100", "number"),
    ("a claim without GPUs", {"gpus": 0, "throughput": {"A100": 1}}, "throughput", "no rate"),
    ("a node that there is not", {"nodes_in": ["gpu01", "gpu99"]}, "nodes_in.1", "there is no node gpu99"),
    ("a retired node", {"nodes_in": ["old01"]}, "nodes_in.0", "there is no node old01"),
    ("a node of another pool", {"nodes_in": ["other01"]}, "nodes_in.0", "node other01 is in pool other"),
    ("an excluded node of another pool", {"exclude_nodes": ["other01"]}, "exclude_nodes.0", "is in pool other"),
    ("no node left", {"nodes_in": ["gpu01"], "exclude_nodes": ["gpu01"]}, "nodes_in", "1 of them in exclude_nodes"),
    ("fewer nodes than ranks", {"nodes_in": ["gpu01"], "nodes": 2}, "nodes_in", "this job needs 2"),
    (
        "all excluded",
        {"exclude_nodes": ["gpu01", "gpu02", "volta01"]},
        "exclude_nodes",
        "it leaves none of the 3 nodes",
    ),
    ("too many excluded", {"exclude_nodes": ["gpu01", "gpu02"], "nodes": 2}, "exclude_nodes", "it leaves 1 of the 3"),
    ("nodes without such GPUs", {"gpus": "V100:4", "nodes_in": ["gpu01", "gpu02"]}, "nodes_in", "none of gpu01, gpu02"),
    (
        "labels that no node has",
        {"gpus": "A100:4", "node_labels": {"net": "ib"}},
        "node_labels",
        "has 4 A100 and net=ib",
    ),
    ("a label that is a list", {"node_labels": {"net": ["ib"]}}, "node_labels", "the label net must be a string"),
    (
        "a choice that the nodes lack",
        {"gpus": BOTH, "nodes_in": ["gpu01"]},
        "gpus.any_of.1",
        "gpu01 does not have 8 V100",
    ),
]


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}:dry-run"])
@pytest.mark.parametrize("bad", [pytest.param(rest, id=name) for name, *rest in BAD])
def test_a_request_that_cannot_be_met_is_refused_by_field(
    path: str, bad: tuple[dict[str, Any], str, str], mixed: World, api: Api
) -> None:
    keys, field, message = bad
    before = Job.objects.count()
    answer = send(api(mixed.owner), "POST", path, {"command": "x", **keys})
    assert answer.status_code == 422, answer.content
    require_described("POST", path, answer)
    ((named, told),) = [(error["field"], error["message"]) for error in problem_of(answer)["errors"]]
    assert (named, message in told) == (field, True), told
    assert Job.objects.count() == before


def test_a_clone_with_a_bad_change_is_refused_and_leaves_the_job_as_it_was(mixed: World, api: Api) -> None:
    client = api(mixed.owner)
    job = submit(client, {"command": "x", "gpus": BOTH, "exclude_nodes": ["gpu02"]}).json()
    refused = send(client, "POST", f"{JOBS}/{job['id']}:clone", {"spec": {"nodes_in": ["other01"]}})
    assert (refused.status_code, problem_of(refused)["errors"][0]["field"]) == (422, "nodes_in.0")
    assert client.get(f"{JOBS}/{job['id']}").json()["spec"] == job["spec"]


def test_the_keys_are_stored_shown_and_cloned(mixed: World, api: Api) -> None:
    client = api(mixed.owner)
    spec = {"command": "x", "gpus": BOTH, "nodes_in": ["volta01", "gpu01"], "exclude_nodes": ["gpu02"]}
    answer = submit(client, spec)
    require_described("POST", JOBS, answer)
    job = answer.json()
    assert (job["gpu_choices"], job["gpu_type"], job["gpus"], job["gpus_total"]) == (CHOICES, None, 4, 4)
    assert job["spec"] | spec == job["spec"]
    (listed,) = [row for row in client.get(JOBS).json()["results"] if row["id"] == job["id"]]
    assert listed["gpu_choices"] == CHOICES
    clone = send(client, "POST", f"{JOBS}/{job['id']}:clone", {"spec": {"exclude_nodes": []}}).json()
    assert (clone["gpu_choices"], clone["spec"]["nodes_in"], clone["spec"]["exclude_nodes"]) == (
        CHOICES,
        ["volta01", "gpu01"],
        [],
    )


def test_yaml_says_the_same_as_json(mixed: World, api: Api) -> None:
    text = "command: x\ngpus: {any_of: [A100:4, V100:8]}\nnodes_in: [gpu01, volta01]\n"
    answer = api(mixed.owner).generic("POST", JOBS, text, content_type="application/yaml")
    assert answer.status_code == 201, answer.content
    assert (answer.json()["gpu_choices"], answer.json()["spec"]["gpus"]) == (CHOICES, BOTH)


def test_cpus_and_memory_follow_each_choice_unless_the_spec_names_them(mixed: World, api: Api) -> None:
    client = api(mixed.owner)
    Node.objects.filter(name="volta01").update(cpus=32)
    free = Job.objects.get(pk=submit(client, {"command": "x", "gpus": BOTH}).json()["id"])
    assert [(choice.cpus, choice.memory_mib) for choice in free.request.choices] == [(64, 262_144), (32, 262_144)]
    fixed = Job.objects.get(pk=submit(client, {"command": "x", "gpus": BOTH, "cpus": 3, "memory": "2GiB"}).json()["id"])
    assert [(choice.cpus, choice.memory_mib) for choice in fixed.request.choices] == [(3, 2048), (3, 2048)]


def test_a_job_is_refused_for_want_of_quota_only_if_no_choice_has_one(mixed: World, api: Api) -> None:
    Quota.objects.filter(vc=mixed.vc).delete()
    answer = submit(api(mixed.owner), {"command": "x", "gpus": BOTH})
    assert (answer.status_code, problem_of(answer)["errors"][0]["field"]) == (422, "gpus")
    Quota.objects.create(vc=mixed.vc, gpu_type="V100", gpus=8)
    assert submit(api(mixed.owner), {"command": "x", "gpus": BOTH}).status_code == 201


def test_a_tenant_that_waits_for_hardware_may_ask_for_a_type_to_come_but_not_for_an_unknown_node(
    mixed: World, api: Api
) -> None:
    Tenant.objects.filter(pk=mixed.vision.pk).update(wait_for_hardware=True)
    assert submit(api(mixed.owner), {"command": "x", "gpus": {"any_of": ["T4:8", "A100:4"]}}).status_code == 201
    assert submit(api(mixed.owner), {"command": "x", "nodes_in": ["gpu99"]}).status_code == 422


def test_a_job_whose_spec_was_stored_before_these_keys_is_shown_and_cloned(mixed: World, api: Api) -> None:
    client = api(mixed.owner)
    job = Job.objects.get(pk=submit(client, {"command": "x", "gpus": "A100:2"}).json()["id"])
    spec = {key: value for key, value in job.spec.items() if key not in {"nodes_in", "exclude_nodes"}}
    Job.objects.filter(pk=job.pk).update(spec=spec)
    assert client.get(f"{JOBS}/{job.pk}").json()["gpu_choices"] == [{"gpu_type": "A100", "gpus": 2}]
    clone = send(client, "POST", f"{JOBS}/{job.pk}:clone", {}).json()
    assert (clone["spec"]["nodes_in"], clone["spec"]["exclude_nodes"]) == ([], [])


def test_a_dry_run_says_on_which_nodes_it_waits(mixed: World, api: Api) -> None:
    spec = {"command": "x", "gpus": "A100:4", "nodes_in": ["gpu01"]}  # where another job has two of four
    answer = send(api(mixed.owner), "POST", f"{JOBS}:dry-run", spec).json()
    assert (answer["feasible"], answer["starts_now"]) == (True, False)
    assert answer["hold"]["detail"].startswith("gpu01 does not have 4 free A100")
    assert send(api(mixed.owner), "POST", f"{JOBS}:dry-run", spec | {"nodes_in": []}).json()["starts_now"]


def test_a_dry_run_tells_all_choices(mixed: World, api: Api) -> None:
    answer = send(api(mixed.owner), "POST", f"{JOBS}:dry-run", {"command": "x", "gpus": BOTH})
    require_described("POST", f"{JOBS}:dry-run", answer)
    assert (answer.json()["gpu_choices"], answer.json()["starts_now"]) == (CHOICES, True)


def test_memory_stands_for_the_types_that_have_it(mixed: World, api: Api) -> None:
    Gpu.objects.filter(type="V100").update(memory_mib=16 * 1024)
    Gpu.objects.filter(type="A100").update(memory_mib=40 * 1024)
    client = api(mixed.owner)
    small = submit(client, {"command": "x", "gpus": {"vram": "16GiB", "count": 2}}).json()
    assert small["gpu_choices"] == [{"gpu_type": "V100", "gpus": 2}, {"gpu_type": "A100", "gpus": 2}]
    assert small["spec"]["gpus"] == {"vram": "16GiB", "count": 2}
    large = submit(client, {"command": "x", "gpus": {"vram": "24GiB", "count": 2}}).json()
    assert large["gpu_choices"] == [{"gpu_type": "A100", "gpus": 2}]


def test_a_job_shows_the_rates_that_the_scheduler_is_told(mixed: World, api: Api) -> None:
    client = api(mixed.owner)
    job = submit(client, {"command": "x", "gpus": BOTH, "throughput": {"A100": 410}}).json()
    assert job["rates"] == []
    refresh_rates()
    (rate,) = client.get(f"{JOBS}/{job['id']}").json()["rates"]
    assert (rate["gpu_type"], rate["gpus"], rate["source"]) == ("A100", 4, "claimed")
    assert rate["per_s"] == pytest.approx(410)
    assert rate["deviation"] > 0


def test_a_waiting_job_tells_when_it_would_finish_on_each_type(mixed: World, api: Api) -> None:
    client = api(mixed.owner)
    spec = {"command": "x", "gpus": BOTH, "expected": "1h", "throughput": {"A100": 400, "V100": 200}}
    job = submit(client, spec).json()
    assert job["finish"] is None
    refresh_rates()
    answer = client.get(f"{JOBS}/{job['id']}")
    require_described("GET", f"{JOBS}/{job['id']}", answer)
    finish = answer.json()["finish"]
    assert finish["summary"].startswith("A100 now ")
    assert [(one["gpu_type"], one["starts_in_s"]) for one in finish["types"]] == [("A100", 0), ("V100", 0)]
    assert finish["types"][0]["finishes_in_s"] == 3600
