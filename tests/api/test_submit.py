"""Submitting jobs: what is stored, what is refused and how, and sending the same thing twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.api import limits
from muster.api.limits import Bucket
from muster.events.models import Event
from muster.fleet.models import Node
from muster.jobs.models import IdempotencyKey, Job
from muster.tenants.models import Tenant
from scheduler.model.lifecycle import AttemptState
from scheduler.model.reasons import Reason
from tests.api.asking import JOBS, fields_of, problem_of, require_described, send, submit
from tests.api.conftest import World
from tests.factories import make_attempt, make_job, make_node, make_tenant, make_user

Api = Callable[[User | None], Client]


def test_a_job_is_stored_with_what_was_asked_for(world: World, api: Api) -> None:
    spec = {"name": "ddp", "command": "torchrun train.py", "gpus": "A100:2", "nodes": 2, "tags": {"run": 7}}
    answer = submit(api(world.owner), spec)
    assert answer.status_code == 201
    require_described("POST", JOBS, answer)
    job = Job.objects.get(pk=answer.json()["id"])
    assert (job.name, job.gpu_type, job.gpus, job.nodes, job.tags) == ("ddp", "A100", 2, 2, {"run": "7"})
    assert (job.owner, job.vc, job.pool) == (world.owner, world.vc, world.pool)
    assert Event.objects.filter(job_id=job.pk, kind="job.submitted", actor="olivia").exists()


@pytest.mark.parametrize("content_type", ["application/yaml", "text/yaml", "application/yaml; charset=utf-8"])
def test_yaml_says_the_same_as_json(content_type: str, world: World, api: Api) -> None:
    text = "command: |\n  echo one\n  echo two\ngpus: A100:1\ntags: {project: seg}\n"
    answer = api(world.owner).generic("POST", JOBS, text, content_type=content_type)
    assert answer.status_code == 201, answer.content
    assert answer.json()["spec"]["command"] == "echo one\necho two\n"


def deep(levels: int) -> str:
    return '{"command": ' + "[" * levels + "]" * levels + "}"


NAMED: list[tuple[str, Any, str]] = [
    ("an unknown key", {"command": "x", "gpuz": 1}, "gpuz"),
    ("a wrong type", {"command": 7}, "command"),
    ("no command", {"gpus": 1}, "command"),
    ("an empty command", {"command": "  "}, "command"),
    ("no nodes", {"command": "x", "nodes": 0}, "nodes"),
    ("a negative number of nodes", {"command": "x", "nodes": -1}, "nodes"),
    ("a truth as a number", {"command": "x", "nodes": True}, "nodes"),
    ("half a node", {"command": "x", "nodes": 1.5}, "nodes"),
    ("too many GPUs", {"command": "x", "gpus": 100_000}, "gpus"),
    ("GPUs in words", {"command": "x", "gpus": "four"}, "gpus"),
    ("a negative number of GPUs", {"command": "x", "gpus": -1}, "gpus"),
    ("a list of GPUs", {"command": "x", "gpus": [1]}, "gpus"),
    ("a priority that there is not", {"command": "x", "priority": "asap"}, "priority"),
    ("a priority for managers", {"command": "x", "priority": "urgent"}, "priority"),
    ("a time without a unit", {"command": "x", "time": "90"}, "time"),
    ("no time at all", {"command": "x", "time": "0s"}, "time"),
    ("a line break in the name", {"command": "x", "name": "a\nb"}, "name"),
    ("a name that reads backwards", {"command": "x", "name": "a\u202egnp.exe"}, "name"),
    ("an empty name", {"command": "x", "name": ""}, "name"),
    ("a long name", {"command": "x", "name": "a" * 201}, "name"),
    ("a virtual cluster of others", {"command": "x", "vc": "speech-vc"}, "vc"),
    ("a virtual cluster that there is not", {"command": "x", "vc": "nowhere"}, "vc"),
    ("a variable that is ours", {"command": "x", "env": {"CUDA_VISIBLE_DEVICES": "0"}}, "env"),
    ("a variable with a strange name", {"command": "x", "env": {"A B": "0"}}, "env"),
    ("a grace beyond the pool's", {"command": "x", "checkpoint": {"grace": "9999s"}}, "checkpoint.grace"),
    ("an unknown key inside", {"command": "x", "retry": {"maxx": 1}}, "retry.maxx"),
    ("a retry after a preemption", {"command": "x", "retry": {"on": ["preempted"]}}, "retry.on"),
    ("an archive that was not uploaded", {"command": "x", "code": {"upload": "0" * 64}}, "code.upload"),
    ("a screening that is a mapping", {"command": "x", "screening": {}}, "screening"),
    ("a feature that is not there yet", {"command": "x", "secrets": ["token"]}, "secrets"),
    ("outputs that are no list", {"command": "x", "outputs": "*.csv"}, "outputs"),
    ("an output outside the working folder", {"command": "x", "outputs": ["a", "../b"]}, "outputs.1"),
    ("an output from the root", {"command": "x", "outputs": ["/etc/passwd"]}, "outputs.0"),
    ("an output that cannot be printed", {"command": "x", "outputs": ["a\nb"]}, "outputs.0"),
    ("an output that names nothing", {"command": "x", "outputs": ["./"]}, "outputs.0"),
    ("an output that is too long", {"command": "x", "outputs": ["a" * 201]}, "outputs.0"),
    ("too many outputs", {"command": "x", "outputs": ["a"] * 21}, "outputs"),
    ("an image with a blank", {"command": "x", "image": "busy box"}, "image"),
    ("an image that is an option", {"command": "x", "image": "--privileged"}, "image"),
    ("an image with capitals", {"command": "x", "image": "Torch"}, "image"),
    ("shared memory without a unit", {"command": "x", "image": "busybox", "shm": "16"}, "shm"),
    ("a list", ["command"], ""),
    ("a number", 7, ""),
    ("null", None, ""),
]
UNREADABLE: list[tuple[str, str | bytes, str]] = [
    ("no JSON", "{", "application/json"),
    ("a number too large", '{"command": "x", "nodes": 1e400}', "application/json"),
    ("not a number", '{"command": "x", "nodes": NaN}', "application/json"),
    ("an integer of 5,000 digits", '{"command": "x", "nodes": ' + "9" * 5000 + "}", "application/json"),
    ("a key twice", '{"command": "x", "command": "y"}', "application/json"),
    ("100,000 levels", deep(100_000), "application/json"),
    ("forty levels", deep(40), "application/json"),
    ("a NUL", '{"command": "x\\u0000"}', "application/json"),
    ("half a surrogate pair", '{"command": "\\ud800"}', "application/json"),
    ("no UTF-8", b'{"command": "\xff"}', "application/json"),
    ("no YAML", "command: [", "application/yaml"),
    ("a bomb of aliases", "a: &a [x, x]\nb: &b [*a, *a]\ncommand: [*b, *b]\n", "application/yaml"),
    ("a Python object", "command: !!python/object/apply:os.system [id]", "application/yaml"),
    ("a tag", "command: !!str x", "application/yaml"),
    ("a key that is no text", "[1]: x", "application/yaml"),
    ("two documents", "command: x\n---\ncommand: y\n", "application/yaml"),
    ("deep YAML", "command: " + "[" * 5000, "application/yaml"),
    ("a control character", "command: \x07", "application/yaml"),
]


@pytest.mark.parametrize(("spec", "field"), [pytest.param(spec, field, id=name) for name, spec, field in NAMED])
def test_a_wrong_spec_is_refused_by_field_and_nothing_is_stored(spec: Any, field: str, world: World, api: Api) -> None:
    before = Job.objects.count()
    answer = api(world.owner).generic("POST", JOBS, json.dumps(spec), content_type="application/json")
    assert answer.status_code == 422, answer.content
    require_described("POST", JOBS, answer)
    assert field in fields_of(answer)
    assert Job.objects.count() == before


@pytest.mark.parametrize(("body", "kind"), [pytest.param(body, kind, id=name) for name, body, kind in UNREADABLE])
@pytest.mark.parametrize("path", [JOBS, f"{JOBS}:dry-run"])
def test_what_cannot_be_read_is_refused_and_nothing_is_stored(
    body: str | bytes, kind: str, path: str, world: World, api: Api
) -> None:
    before = Job.objects.count()
    answer = api(world.owner).generic("POST", path, body, content_type=kind)
    assert answer.status_code == 400, answer.content
    require_described("POST", path, answer)
    assert problem_of(answer)["detail"]
    assert Job.objects.count() == before


IMAGES = ["busybox", "pytorch/pytorch:2.9", "nvcr.io/nvidia/pytorch:25.01-py3", "host:5000/team/x@sha256:" + "0" * 64]


PROCESS = {"inventory": {"runtimes": ["process"]}}
DOCKER = {"inventory": {"runtimes": ["docker"]}}


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_kept_as_it_was_written(image: str, world: World, api: Api) -> None:
    answer = submit(api(world.owner), {"command": "x", "image": image, "shm": "2GiB"})
    assert answer.status_code == 201, answer.content
    assert answer.json()["spec"]["image"] == image


@pytest.mark.parametrize(
    ("node", "spec", "field"),
    [
        pytest.param({}, {}, None, id="nothing is known of the nodes"),
        pytest.param(PROCESS, {}, None, id="no image where there are none"),
        pytest.param(PROCESS, {"image": "busybox"}, "image", id="an image where there are none"),
        pytest.param(PROCESS, {"shm": "1GiB"}, "shm", id="shared memory where it is the machine's"),
        pytest.param(DOCKER, {"image": "busybox", "shm": "1GiB"}, None, id="an image where they are needed"),
        pytest.param(DOCKER, {}, "image", id="no image where one is needed"),
        pytest.param({**DOCKER, "labels": {"default-image": "x"}}, {}, None, id="no image where one stands in"),
    ],
)
def test_whether_a_job_needs_an_image_follows_from_its_pools_nodes(
    node: dict[str, Any], spec: dict[str, str], field: str | None, world: World, api: Api
) -> None:
    if node:
        Node.objects.filter(pk=world.node.pk).update(**node)
    answer = submit(api(world.owner), {"command": "x", **spec})
    if field is None:
        assert answer.status_code == 201, answer.content
    else:
        assert answer.status_code == 422, answer.content
        assert fields_of(answer) == [field]


def test_one_node_that_runs_images_is_enough(world: World, api: Api) -> None:
    Node.objects.filter(pk=world.node.pk).update(inventory={"runtimes": ["process"]})
    make_node(world.pool, "gpu02")
    Node.objects.filter(name="gpu02").update(inventory={"runtimes": ["docker"]})
    assert submit(api(world.owner), {"command": "x", "image": "busybox"}).status_code == 201
    assert submit(api(world.owner), {"command": "x"}).status_code == 201


def test_an_unknown_key_is_told_the_nearest_one(world: World, api: Api) -> None:
    answer = submit(api(world.owner), {"command": "x", "gpuss": 1, "checkpoint": {"grase": "1s"}})
    messages = {error["field"]: error["message"] for error in problem_of(answer)["errors"]}
    assert "'gpus'" in messages["gpuss"]
    assert "'grace'" in messages["checkpoint.grase"]


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}:batch", f"{JOBS}:dry-run", "/api/v1/tokens"])
def test_a_body_of_ten_megabytes_is_too_large(path: str, world: World, api: Api) -> None:
    body = json.dumps({"command": "x" * 10_000_000})
    answer = api(world.owner).generic("POST", path, body, content_type="application/json")
    assert answer.status_code == 413
    require_described("POST", path, answer)
    assert "MiB" in problem_of(answer)["detail"]


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_body_of_another_kind_is_refused(content_type: str, world: World, api: Api) -> None:
    answer = api(world.owner).generic("POST", JOBS, "command=x", content_type=content_type)
    assert answer.status_code == 415
    assert problem_of(answer)["type"] == "about:blank#unsupported-media-type"


def test_a_body_in_chunks_is_told_to_come_with_its_length(world: World, api: Api) -> None:
    answer = api(world.owner).generic("POST", JOBS, b"", headers={"Transfer-Encoding": "chunked"})
    assert answer.status_code == 411
    require_described("POST", JOBS, answer)
    assert problem_of(answer)["type"] == "about:blank#length-required"


def test_the_same_key_and_spec_are_the_same_job(world: World, api: Api) -> None:
    client = api(world.owner)
    first = submit(client, {"command": "x", "gpus": 1}, Idempotency_Key="k1")
    # The same after parsing: the order of the keys is nothing.
    again = submit(client, {"gpus": 1, "command": "x"}, Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert Job.objects.filter(owner=world.owner).count() == 3


def test_the_same_key_with_another_spec_is_a_conflict(world: World, api: Api) -> None:
    client = api(world.owner)
    submit(client, {"command": "x"}, Idempotency_Key="k1")
    answer = submit(client, {"command": "y"}, Idempotency_Key="k1")
    assert answer.status_code == 409
    require_described("POST", JOBS, answer)


def test_a_key_is_its_owners(world: World, api: Api) -> None:
    mine = submit(api(world.owner), {"command": "x"}, Idempotency_Key="k1")
    others = submit(api(world.peer), {"command": "x"}, Idempotency_Key="k1")
    assert (mine.status_code, others.status_code) == (201, 201)
    assert mine.json()["id"] != others.json()["id"]


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_that_is_empty_or_long_is_refused(key: str, world: World, api: Api) -> None:
    answer = submit(api(world.owner), {"command": "x"}, Idempotency_Key=key)
    assert answer.status_code == 422
    assert fields_of(answer) == ["Idempotency-Key"]


def test_a_refused_spec_does_not_use_up_its_key(world: World, api: Api) -> None:
    client = api(world.owner)
    assert submit(client, {"command": ""}, Idempotency_Key="k1").status_code == 422
    assert not IdempotencyKey.objects.exists()
    assert submit(client, {"command": "x"}, Idempotency_Key="k1").status_code == 201


@pytest.mark.parametrize("vc", [None, "vision-vc"])
def test_a_member_is_told_that_their_tenant_has_no_virtual_cluster(vc: str | None, world: World, api: Api) -> None:
    member = make_user("nina", tenant=make_tenant("new"))
    answer = submit(api(member), {"command": "x"} | ({"vc": vc} if vc else {}))
    told = {"field": "vc", "message": "Your tenant has no virtual cluster yet. Ask an operator."}
    assert (answer.status_code, problem_of(answer)["errors"]) == (422, [told])


def test_a_user_of_no_tenant_is_told_that(world: World, api: Api) -> None:
    problem = problem_of(submit(api(make_user("nina")), {"command": "x"}))
    assert problem["errors"][0]["message"] == "You are in no tenant yet. Ask an operator to add you to one."


def test_a_batch_stores_the_valid_ones_and_tells_of_the_others(world: World, api: Api) -> None:
    items = [{"command": "a"}, {"command": "b", "gpuz": 1}, "c", {"command": "d"}]
    client = api(world.owner)
    first = send(client, "POST", f"{JOBS}:batch", {"jobs": items}, Idempotency_Key="b1")
    require_described("POST", f"{JOBS}:batch", first)
    assert first.status_code == 201
    assert len(first.json()["jobs"]) == 2
    assert [error["index"] for error in first.json()["errors"]] == [1, 2]
    assert first.json()["errors"][0]["problem"]["errors"][0]["field"] == "gpuz"
    again = send(client, "POST", f"{JOBS}:batch", {"jobs": items}, Idempotency_Key="b1")
    assert again.json() == first.json()
    assert Job.objects.filter(owner=world.owner).count() == 4


@pytest.mark.parametrize(
    "body", [{}, {"jobs": []}, {"jobs": {}}, {"jobs": [{"command": "x"}] * 1001}, {"jobs": [{}], "more": 1}, []]
)
def test_a_batch_of_the_wrong_shape_is_refused(body: Any, world: World, api: Api) -> None:
    answer = send(api(world.owner), "POST", f"{JOBS}:batch", body)
    assert answer.status_code == 422
    assert len(fields_of(answer)) == 1


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}:dry-run"])
def test_a_job_that_never_fits_is_refused_with_the_nearest_request(path: str, world: World, api: Api) -> None:
    Tenant.objects.filter(pk=world.vision.pk).update(wait_for_hardware=False)
    make_node(world.pool, "gpu02", gpus=4)
    before = Job.objects.count()
    answer = send(api(world.owner), "POST", path, {"command": "x", "gpus": "A100:8"})
    assert answer.status_code == 422
    require_described("POST", path, answer)
    assert fields_of(answer) == ["gpus"]
    assert "ask for gpus: A100:4, nodes: 2" in problem_of(answer)["detail"]
    assert Job.objects.count() == before


def test_a_job_that_waits_for_hardware_is_accepted_with_a_warning(world: World, api: Api) -> None:
    client = api(world.owner)
    answer = submit(client, {"command": "x", "gpus": "A100:9"})
    require_described("POST", JOBS, answer)
    (warning,) = answer.json()["warnings"]
    assert "pool main could never run this job: " in warning
    assert "until the pool or the quota grows" in warning
    assert submit(client, {"command": "x", "gpus": 1}).json()["warnings"] == []


def test_a_dry_run_stores_nothing(world: World, api: Api) -> None:
    before = Job.objects.count()
    answer = send(api(world.owner), "POST", f"{JOBS}:dry-run", {"command": "x", "gpus": "A100:1"})
    require_described("POST", f"{JOBS}:dry-run", answer)
    assert answer.json()["valid"] is True
    assert answer.json()["feasible"] is True
    assert Job.objects.count() == before


def test_a_dry_run_tells_why_a_job_would_wait(world: World, api: Api) -> None:
    full = make_job(world.other_vc, world.stranger, gpus=2)
    answer = send(api(world.owner), "POST", f"{JOBS}:dry-run", {"command": "x", "gpus": "A100:4", "nodes": 3})
    require_described("POST", f"{JOBS}:dry-run", answer)
    assert answer.json()["starts_now"] is False
    assert answer.json()["hold"]["detail"]
    assert full.state == "queued"


def test_a_burst_of_a_thousand_submissions_loses_none(world: World, api: Api) -> None:
    for _ in range(1000):
        limits.take(limits.SUBMIT, world.owner.pk)
    assert submit(api(world.owner), {"command": "x"}).status_code == 201


def test_whoever_goes_on_beyond_the_burst_is_told_when_to_come_back(
    world: World, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SUBMIT", Bucket("tiny", per_s=0.1, burst=2))
    client = api(world.owner)
    assert [submit(client, {"command": "x"}).status_code for _ in range(3)] == [201, 201, 429]
    answer = submit(client, {"command": "x"})
    require_described("POST", JOBS, answer)
    assert 1 <= int(answer.headers["Retry-After"]) <= 10
    assert problem_of(answer)["type"] == "about:blank#too-many"
    # Another user has a bucket of their own.
    assert submit(api(world.peer), {"command": "x"}).status_code == 201


def test_a_batch_costs_as_much_as_its_jobs(world: World, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBMIT", Bucket("tiny", per_s=0.1, burst=3))
    body = {"jobs": [{"command": "x"}] * 2}
    client = api(world.owner)
    assert send(client, "POST", f"{JOBS}:batch", body).status_code == 201
    assert send(client, "POST", f"{JOBS}:batch", body).status_code == 429


def test_attempts_of_a_job_are_told_with_their_ranks(world: World, api: Api) -> None:
    path = f"{JOBS}/{world.running.pk}/attempts"
    answer = api(world.peer).get(path)
    require_described("GET", path, answer)
    (attempt,) = answer.json()["results"]
    (rank,) = attempt["allocations"]
    assert (attempt["number"], attempt["state"], attempt["reason"]) == (1, "running", None)
    assert (rank["node"], rank["rank"], rank["gpus"]) == ("gpu01", 0, ["GPU-gpu01-0", "GPU-gpu01-1"])
    assert (rank["log_size"], rank["log_complete"]) == (0, False)


def test_an_attempt_tells_which_nodes_enforce_the_memory_limit(world: World, api: Api) -> None:
    def told() -> dict[str, object]:
        answer = api(world.peer).get(f"{JOBS}/{world.running.pk}/attempts").json()
        rank: dict[str, object] = answer["results"][0]["allocations"][0]
        return rank

    Node.objects.update(labels={"limits": "advisory"})
    assert told()["memory_limited"] is False
    Node.objects.update(labels={"limits": "enforced"})
    assert told()["memory_limited"] is True


def test_a_rank_of_a_gang_tells_which_setting_gives_it_the_hosts_network(world: World, api: Api) -> None:
    says_host = {"labels": {"gang-network": "host", "isolation": "enforced"}}
    gang, alone = make_job(world.vc, world.owner, nodes=2), make_job(world.vc, world.owner)
    make_attempt(gang, [make_node(world.pool, name, **says_host) for name in ("gpu02", "gpu03")])
    make_attempt(alone, [make_node(world.pool, "gpu04", **says_host)])

    def told(job: Job) -> list[str | None]:
        answer = api(world.peer).get(f"{JOBS}/{job.pk}/attempts").json()
        return [rank["host_network"] for rank in answer["results"][0]["allocations"]]

    assert told(gang) == [f"the agent of {name} runs with --gang-network host" for name in ("gpu02", "gpu03")]
    assert told(alone) == [None]


def test_attempts_come_in_pages(world: World, api: Api) -> None:
    job = make_job(world.vc, world.owner, attempt_count=0)
    for number in range(3):
        Job.objects.filter(pk=job.pk).update(attempt_count=number)
        job.refresh_from_db()
        make_attempt(job, [world.node], state=AttemptState.FAILED, reason=Reason.EXIT_NONZERO)
    client, path = api(world.owner), f"{JOBS}/{job.pk}/attempts"
    first = client.get(f"{path}?limit=2").json()
    rest = client.get(f"{path}?limit=2&cursor={first['next']}").json()
    assert [attempt["number"] for attempt in first["results"] + rest["results"]] == [1, 2, 3]
    assert rest["next"] is None


def test_the_submitter_is_told_of_missing_gpus_and_outputs_before_and_after(world: World, api: Api) -> None:
    client = api(world.owner)
    bare, full = {"command": "x"}, {"command": "x", "gpus": 1, "outputs": ["*.csv"]}
    for path in (JOBS, f"{JOBS}:dry-run"):
        notes = send(client, "POST", path, bare).json()["notes"]
        assert [note.split(",")[0].split(":")[0] for note in notes] == ["It asks for no GPU", "It names no outputs"]
        assert send(client, "POST", path, full).json()["notes"] == []


def test_a_dry_run_tells_what_the_job_would_get_and_from_where_and_the_job_keeps_it(world: World, api: Api) -> None:
    client, spec = api(world.owner), {"command": "x", "gpus": "A100:2", "cpus": 3}
    dry = send(client, "POST", f"{JOBS}:dry-run", spec)
    require_described("POST", f"{JOBS}:dry-run", dry)
    got = {"gpu_type": "A100", "gpus": 2, "cpus": 3, "memory_mib": 131_072}
    assert dry.json()["sizes"] == [got | {"cpus_from": None, "memory_from": "share of 2 GPUs on A100 nodes"}]
    job = submit(client, spec).json()
    assert client.get(f"{JOBS}/{job['id']}").json()["sizes"] == job["sizes"] == [got]


def test_a_spec_comes_back_with_its_name_command_and_gpus_first(world: World, api: Api) -> None:
    job = submit(api(world.owner), {"vc": "vision-vc", "gpus": 1, "command": "x", "name": "n"}).json()
    for spec in (job["spec"], api(world.owner).get(f"{JOBS}/{job['id']}").json()["spec"]):
        assert list(spec)[:3] == ["name", "command", "gpus"]
        assert "workdir" not in spec
