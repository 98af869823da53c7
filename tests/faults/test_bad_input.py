"""Input that no client should send, over the wire: a clear refusal each time, and nothing stored."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.faults.cluster import FIRST_USER, Cluster
from tests.faults.layout import ROUNDS

pytestmark = pytest.mark.timeout(240 * ROUNDS)

JSON, YAML = "application/json", "application/yaml"
DEEP = 100_000
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join(['*' + before] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


def spec(**keys: object) -> str:
    return json.dumps({"command": "true", **keys})


# What is sent as which type, and the statuses that refuse it.
TABLE: dict[str, tuple[str, str | bytes, set[int]]] = {
    "ten megabytes": (JSON, spec(command="x" * 10_000_000), {413}),
    "ten megabytes of YAML": (YAML, "command: " + "x" * 10_000_000, {413}),
    "a list a hundred thousand deep": (JSON, "[" * DEEP + "]" * DEEP, {400, 422}),
    "an object a hundred thousand deep": (JSON, '{"a":' * DEEP + "1" + "}" * DEEP, {400, 422}),
    "YAML a hundred thousand deep": (YAML, "[" * DEEP + "]" * DEEP, {400, 422}),
    "a depth within a key": (JSON, '{"command": "true", "env": ' + '{"a":' * DEEP + "1" + "}" * DEEP + "}", {400, 422}),
    "nothing": (JSON, "", {400, 422}),
    "half a document": (JSON, '{"command": "tr', {400}),
    "no UTF-8": (JSON, b'{"command": "\xff\xfe"}', {400, 422}),
    "another type": ("text/html", "<b>", {415}),
    "a list": (JSON, "[]", {400, 422}),
    "a word": (JSON, '"command"', {400, 422}),
    "no command": (JSON, "{}", {422}),
    "an unknown key": (JSON, spec(gpu=1), {422}),
    "a YAML bomb": (YAML, BOMB + "command: true\n", {400, 422}),
    "a YAML object": (YAML, "command: !!python/object/apply:os.system ['true']\n", {400, 422}),
    "two YAML documents": (YAML, "command: 'true'\n---\ncommand: 'false'\n", {400, 422}),
    "fewer GPUs than none": (JSON, spec(gpus=-1), {422}),
    "half a GPU": (JSON, spec(gpus=0.5), {422}),
    "more GPUs than numbers": (JSON, '{"command": "true", "gpus": 1e400}', {400, 422}),
    "very many GPUs": (JSON, spec(gpus=10**30), {422}),
    "no number of GPUs": (JSON, '{"command": "true", "gpus": NaN}', {400, 422}),
    "a number of very many digits": (JSON, '{"command": "true", "nodes": ' + "9" * 5000 + "}", {400, 422}),
    "a true number of GPUs": (JSON, spec(gpus=True), {422}),
    "more nodes than numbers": (JSON, spec(nodes=2**63), {422}),
    "endless time": (JSON, spec(time="9" * 400 + "d"), {422}),
    "negative time": (JSON, spec(time="-1s"), {422}),
    "endless memory": (JSON, spec(memory="9" * 400 + "TiB"), {422}),
    "more memory than the column holds": (JSON, spec(memory="99999999999999TiB"), {422}),
    "a way out of the folder": (JSON, spec(workdir="../../etc"), {422}),
    "a NUL in the command": (JSON, spec(command="echo \0"), {400, 422}),
    "a NUL in a variable": (JSON, spec(env={"A": "\0"}), {400, 422}),
    "a NUL in the name": (JSON, spec(name="a\0b"), {400, 422}),
    "a NUL in the folder": (JSON, spec(workdir="a\0b"), {400, 422}),
    "a NUL in a tag": (JSON, spec(tags={"a": "\0"}), {400, 422}),
    "a NUL in the virtual cluster": (JSON, spec(vc="\0"), {400, 422}),
    "half a character in the command": (JSON, '{"command": "echo \\ud800"}', {400, 422}),
    "half a character in a variable": (JSON, '{"command": "true", "env": {"A": "\\udfff"}}', {400, 422}),
    "half a character in the name": (JSON, '{"command": "true", "name": "\\ud800"}', {400, 422}),
    "half a character in a tag": (JSON, '{"command": "true", "tags": {"a": "\\ud800"}}', {400, 422}),
    "half a character in a key": (JSON, '{"command": "true", "\\ud800": 1}', {400, 422}),
    "two lines of a name": (JSON, spec(name="a\nb"), {422}),
    "a very long name": (JSON, spec(name="x" * 10_000), {422}),
    "a name that turns around": (JSON, spec(name="a\u202eb"), {422}),
    "a variable of ours": (JSON, spec(env={"CUDA_VISIBLE_DEVICES": "0"}), {422}),
    "another's GPUs by the engine's variable": (JSON, spec(env={"NVIDIA_VISIBLE_DEVICES": "all"}), {422}),
    "the machine's root": (JSON, spec(mounts=["/:/host"]), {422}),
    "the engine's socket": (JSON, spec(mounts=[{"source": "/var/run/docker.sock", "target": "/s"}]), {422}),
    "a mount by another key": (JSON, spec(volumes={"/proc": "/host/proc"}), {422}),
    "all rights": (JSON, spec(privileged=True), {422}),
    "a capability": (JSON, spec(cap_add=["SYS_ADMIN"]), {422}),
    "no name of a variable": (JSON, spec(env={"A=B": "1"}), {422}),
    "another's virtual cluster": (JSON, spec(vc="blue"), {404, 422}),
    "code that was not uploaded": (JSON, spec(code={"upload": "0" * 64}), {422}),
    "a folder as code": (JSON, spec(code="/etc"), {422}),
    "a number as the command": (JSON, spec(command=1), {422}),
    "an empty command": (JSON, spec(command=" \n"), {422}),
    "a signal that cannot be caught": (JSON, spec(checkpoint={"signal": "KILL"}), {422}),
    "an endless grace": (JSON, spec(checkpoint={"grace": "9999d"}), {422}),
}


@pytest.mark.parametrize("kind", TABLE)
def test_a_bad_spec_is_refused_with_a_problem_and_stores_nothing(cluster: Cluster, kind: str) -> None:
    media_type, body, statuses = TABLE[kind]
    content = body.encode() if isinstance(body, str) else body
    before = cluster.sql("SELECT count(*), (SELECT count(*) FROM events_event WHERE kind LIKE 'job.%%') FROM jobs_job")
    headers = {"Authorization": f"Bearer {cluster.tokens[FIRST_USER]}", "Content-Type": media_type}
    answer = httpx.post(f"{cluster.url}/api/v1/jobs", content=content, headers=headers, timeout=30, trust_env=False)
    assert answer.status_code in statuses, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["title"]
    assert problem["detail"] or problem["errors"]
    assert len(answer.content) < 20_000
    after = cluster.sql("SELECT count(*), (SELECT count(*) FROM events_event WHERE kind LIKE 'job.%%') FROM jobs_job")
    assert after == before


@pytest.mark.parametrize(
    ("path", "body", "statuses"),
    [
        ("beat", "[" * DEEP, {400, 401}),
        ("beat", '{"epoch": "1"}', {401, 422}),
        ("beat", "x" * 10_000_000, {401, 413}),
        ("sync", "null", {401, 422}),
        ("batch", "{}", {401, 422}),
        (f"allocations/{'9' * 30}/outputs", "{}", {401, 404, 422}),
    ],
)
def test_an_agents_bad_call_is_refused(cluster: Cluster, path: str, body: str, statuses: set[int]) -> None:
    for secret in ("x" * 40, (cluster.state_of("n1") / "credential").read_text()):
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": JSON}
        url = f"{cluster.url}/agent/v1/{path}"
        answer = httpx.post(url, content=body.encode(), headers=headers, timeout=30, trust_env=False)
        assert answer.status_code in statuses, answer.text
    assert cluster.client().nodes()
