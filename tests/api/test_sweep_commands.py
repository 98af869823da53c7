"""The commands about sweeps against the real REST API: what they submit, show and clone, and which field is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.test import Client
from typer.testing import Result

from muster.jobs.models import JobGroup
from muster.sweeps.models import Trial
from tests.api.conftest import World
from tests.unit.client.fake_server import FakeServer, muster

Commands = Callable[..., Result]

SPEC: dict[str, Any] = {
    "name": "lr-search",
    "command": "train",
    "gpus": 1,
    "sweep": {
        "method": "asha",
        "metric": "loss",
        "params": {"lr": {"log": [1e-5, 0.1]}, "norm": [True, False]},
        "members": 9,
        "rungs": {"first": 3, "last": 27},
    },
}


class Rest(FakeServer):
    """The platform itself, behind the transport of the fake server."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client

    def handle(self, request: httpx.Request) -> httpx.Response:
        """The platform's answer."""
        self.requests.append(request)
        key = request.headers.get("Idempotency-Key")
        answer = self.client.generic(
            request.method,
            request.url.raw_path.decode(),
            request.read(),
            content_type=request.headers.get("Content-Type", "application/json"),
            headers={"Idempotency-Key": key} if key else {},
        )
        return httpx.Response(answer.status_code, content=answer.content, headers=dict(answer.headers))


@pytest.fixture
def run(world: World, api: Callable[..., Client], tmp_path: Path) -> Commands:
    rest = Rest(api(world.owner))

    def call(*args: str, spec: dict[str, Any] | None = None) -> Result:
        return muster(rest, *args, home=tmp_path, stdin=json.dumps(spec) if spec else None)

    return call


def submitted(run: Commands) -> int:
    result = run("submit", "-", "--json", spec=SPEC)
    assert result.exit_code == 0, result.stderr
    return int(json.loads(result.stdout)["id"])


def test_a_sweep_is_submitted_shown_cloned_and_cancelled(run: Commands) -> None:
    sweep = submitted(run)
    best = JobGroup.objects.get(pk=sweep).members.get(member=2)
    Trial.objects.create(job=best, value=0.25, value_step=3, score=0.25, step=3, readings=[[5.0, 0.25]])
    shown = run("sweep", "show", str(sweep), "--limit", "2").stdout
    assert f"loss 0.25 at step 3, member 2, job {best.pk}: lr " in shown
    assert [line.split()[:2] for line in shown.splitlines()[-2:]] == [["2", str(best.pk)], ["1", str(best.pk - 1)]]
    assert ["1", "3", "1", "1"] in [line.split() for line in shown.splitlines()], "the first rung"
    assert f"{sweep} lr-search, member 2 of 9: lr " in run("show", str(best.pk)).stdout

    cloned = run(
        "sweep", "clone", str(sweep), "--set", "sweep.members=27", "--set", "sweep.params.norm=[true]", "--json"
    )
    document = json.loads(cloned.stdout)
    assert (document["members"]["total"], document["cloned_from"]) == (27, sweep)
    assert document["spec"]["sweep"]["params"] == SPEC["sweep"]["params"] | {"norm": [True]}

    assert "is being cancelled" in run("sweep", "cancel", str(sweep)).stdout
    listed = [line.split() for line in run("sweep", "ls", "--mine").stdout.splitlines()[1:]]
    assert [line[:3] for line in listed] == [
        [str(document["id"]), "lr-search", "waiting"],
        [str(sweep), "lr-search", "cancelled"],
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"method": "grid", "members": None, "rungs": None, "params": {"a": {"int": [1, 10**6]}}},
            "sweep.params: the grid has 1,000,000 combinations",
        ),
        ({"metric": None}, "sweep.metric: write the name of a figure"),
        ({"members": 1001}, "sweep.members: write 1000 or less"),
        ({"params": {"lr": {"log": [0, 1]}}}, "sweep.params.lr: log takes numbers above 0"),
        ({"params": {"MUSTER_JOB_ID": [1]}}, "sweep.params"),
        ({"rungs": {"first": 9, "last": 3}}, "sweep.rungs.last: a whole run has more steps"),
        ({"paralel": 3}, "sweep.paralel: unknown key; did you mean 'parallel'?"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(run: Commands, changes: dict[str, Any], says: str) -> None:
    sweep = {key: value for key, value in {**SPEC["sweep"], **changes}.items() if value is not None}
    result = run("submit", "-", spec=SPEC | {"sweep": sweep})
    assert result.exit_code == 2
    assert f"  {says}" in result.stderr
    assert not JobGroup.objects.exists()


def test_a_sweep_of_others_is_not_found(
    world: World, api: Callable[..., Client], run: Commands, tmp_path: Path
) -> None:
    sweep = submitted(run)
    stranger = Rest(api(world.stranger))
    for command in ("show", "cancel", "clone"):
        assert muster(stranger, "sweep", command, str(sweep), home=tmp_path).exit_code == 4
