"""The examples in the documentation of REST are requests that work, with answers as they are.

To record them anew, set `MUSTER_RECORD` and run this file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from django.test import Client

from muster.accounts.models import User
from muster.api.openapi.examples import RECORDED, recorded
from tests.api.asking import openapi, require_described, send
from tests.api.conftest import World

Api = Callable[[User | None], Client]

SPEC = {"name": "train", "command": "python train.py --lr 0.1", "gpus": 2, "time": "4h", "outputs": ["checkpoints/**"]}
SWEEP = {
    "name": "lr-search",
    "command": "python train.py --lr ${lr}",
    "gpus": 1,
    "sweep": {"method": "grid", "metric": "loss", "params": {"lr": [0.1, 0.01, 0.001]}},
}
# Operation, method, path and body; {job} waits and {running} runs.
CALLS: list[tuple[str, str, str, Any]] = [
    ("submit_job", "POST", "/jobs", SPEC),
    ("dry_run_job", "POST", "/jobs:dry-run", SPEC),
    ("list_jobs", "GET", "/jobs?limit=2", None),
    ("get_job", "GET", "/jobs/{running}", None),
    ("list_attempts", "GET", "/jobs/{running}/attempts", None),
    ("explain_job", "GET", "/jobs/{job}/why", None),
    ("edit_job", "PATCH", "/jobs/{job}", {"time": "8h", "priority": "low"}),
    ("hold_job", "POST", "/jobs/{job}:hold", None),
    ("release_job", "POST", "/jobs/{job}:release", None),
    ("cancel_job", "POST", "/jobs/{running}:cancel", None),
    ("submit_sweep", "POST", "/sweeps", SWEEP),
    ("list_nodes", "GET", "/nodes", None),
    ("list_gpus", "GET", "/gpus", None),
    ("list_virtual_clusters", "GET", "/vcs", None),
    ("get_me", "GET", "/me", None),
    ("create_token", "POST", "/tokens", {"name": "notebook", "scopes": ["read", "submit"], "expires_in": "12h"}),
]


def kinds_of(value: Any) -> Any:
    """The keys of a document, and of the first item of each list in it."""
    if isinstance(value, dict):
        return {key: kinds_of(item) for key, item in value.items()}
    return [kinds_of(value[0])] if isinstance(value, list) and value else None


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
def test_an_example_is_a_call_that_works_with_its_answer(
    call: tuple[str, str, str, Any], world: World, api: Api
) -> None:
    name, method, path, body = call
    path = "/api/v1" + path.format(job=world.waiting.pk, running=world.running.pk)
    answer = send(api(world.owner), method, path, body)
    require_described(method, path, answer)
    assert answer.status_code < 300, answer.content
    if os.environ.get("MUSTER_RECORD"):
        record(name, answer.status_code, body, answer.json())
        recorded.cache_clear()
    example = recorded()[name]
    assert (example["status"], example.get("request")) == (answer.status_code, body)
    assert kinds_of(example["answer"]) == kinds_of(answer.json()), "record the examples anew: MUSTER_RECORD=1"


def test_the_document_has_each_example_and_its_schema_accepts_it() -> None:
    document = openapi()
    operations = {one["operationId"]: one for verbs in document["paths"].values() for one in verbs.values()}
    assert recorded().keys() == {name for name, *_ in CALLS}
    for name, example in recorded().items():
        shown = operations[name]["responses"][str(example["status"])]["content"]["application/json"]
        assert shown["example"] == example["answer"]
        parts = [(shown["schema"], example["answer"])]
        if "request" in example:
            content = operations[name]["requestBody"]["content"]["application/json"]
            assert content["example"] == example["request"]
            parts.append((content["schema"], example["request"]))
        for schema, value in parts:
            whole = {**schema, "components": document["components"]}
            jsonschema.validate(value, whole, cls=jsonschema.Draft202012Validator)


def record(name: str, status: int, body: Any, answer: Any) -> None:
    """Store an example, with numbers and times that do not change from one recording to the next."""
    now = datetime.now(UTC)
    text = re.sub(r"/jobs/\d+", "/jobs/1042", json.dumps(answer))
    found = json.loads(RECORDED.read_text())
    found[name] = {
        "status": status,
        **({} if body is None else {"request": body}),
        "answer": fixed(json.loads(text), now),
    }
    RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def fixed(value: Any, now: datetime, key: str = "") -> Any:
    """The value with a fixed moment for each time, and fixed numbers for what is counted up."""
    if isinstance(value, dict):
        return {name: fixed(item, now, name) for name, item in value.items()}
    if isinstance(value, list):
        return [fixed(item, now, key) for item in value]
    if isinstance(value, str) and value.startswith(f"{now:%Y-}"):
        return "2026-11-28T09:30:00Z"
    if isinstance(value, str) and value.startswith("mst_"):
        return "mst_0123456789abcdef"
    if key in {"id", "job", "attempt"} and isinstance(value, int):
        return 1042
    return value
