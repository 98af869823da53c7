"""Cells by REST: who sees them, who changes them, and what a change is refused for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.cells.models import Binding
from muster.fleet.models import Pool
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World
from tests.factories import make_attempt, make_job, make_node

Api = Callable[[User | None], Client]


@pytest.fixture
def kind(world: World) -> str:
    """The type of the nodes of a pool with cells."""
    make_node(world.pool, gpus=2)
    make_node(world.pool, gpus=2)
    Pool.objects.filter(pk=world.pool.pk).update(admission="hived")
    return "A100x2-NODE"


def test_an_operator_gives_cells_and_members_see_what_became_of_them(world: World, api: Api, kind: str) -> None:
    path = f"/api/v1/vcs/{world.vc.pk}/cells"
    version = api(world.operator).get(path).json()["version"]
    answer = send(api(world.operator), "PUT", path, {"version": version, "cells": {kind: 1}, "pinned": []})
    require_described("PUT", path, answer)
    assert answer.status_code == 200
    document = api(world.peer).get(path).json()
    assert document["cells"] == [{"type": kind, "number": 1, "gpus": 2, "gpu_type": "A100"}]
    assert document["version"] == version + 1
    assert [(one["id"], one["state"]) for one in document["virtual"]] == [(f"{kind}/0", "free")]
    levels = [
        one
        for each in api(world.peer).get(f"/api/v1/pools/{world.pool.name}/cells").json()["chains"]
        for one in each["levels"]
    ]
    assert {one["path"]: one["owned"] for one in levels if one["owned"]} == {kind: 1}
    again = send(api(world.operator), "PUT", path, {"version": version, "cells": {}})
    assert again.status_code == 409
    assert "changed vision-vc at" in problem_of(again)["detail"]


def test_gpus_outside_of_cells_are_told_apart_in_the_list(world: World, api: Api, kind: str) -> None:
    attempt = make_attempt(make_job(world.vc, gpus=2), [world.pool.nodes.last()])

    def held() -> tuple[int, int]:
        rows = api(world.peer).get("/api/v1/vcs").json()["results"]
        (quota,) = next(one["quotas"] for one in rows if one["name"] == "vision-vc")
        return quota["used"], quota["opportunistic"]

    assert held() == (4, 4)
    Binding.objects.create(allocation=attempt.allocations.get(), cell=f"{kind}/0", gpu_ids=[])
    assert held() == (4, 2)
    Pool.objects.update(admission="tree")
    assert held() == (4, 0)


@pytest.mark.parametrize(
    ("cells", "field"),
    [({"A100x2-NODE": 3}, "cells"), ({"A100x2-NODE": -1}, "cells.A100x2-NODE"), ({"NODE": 1}, "cells.NODE")],
)
def test_cells_that_do_not_fit_name_the_field(
    world: World, api: Api, kind: str, cells: dict[str, int], field: str
) -> None:
    path = f"/api/v1/vcs/{world.vc.pk}/cells"
    body: dict[str, Any] = {"cells": cells}
    seen = send(api(world.operator), "POST", f"{path}:preview", body)
    require_described("POST", f"{path}:preview", seen)
    assert (seen.json()["fits"], seen.json()["field"]) == (False, field)
    answer = send(api(world.operator), "PUT", path, body | {"version": api(world.operator).get(path).json()["version"]})
    assert (answer.status_code, fields_of(answer)) == (422, [field])


def test_members_do_not_learn_whose_cells_others_are(world: World, api: Api, kind: str) -> None:
    path = f"/api/v1/vcs/{world.vc.pk}/cells"
    version = api(world.operator).get(path).json()["version"]
    send(api(world.operator), "PUT", path, {"version": version, "cells": {}, "pinned": [world.pool.nodes.last().name]})
    whole = api(world.operator).get(f"/api/v1/pools/{world.pool.name}/cells")
    require_described("GET", f"/api/v1/pools/{world.pool.name}/cells", whole)
    assert {one["vc"] for one in whole.json()["physical"]} == {None, "vision-vc"}
    assert whole.json()["source"] == "measured"
    other = api(world.stranger).get(f"/api/v1/pools/{world.pool.name}/cells").json()
    assert {(one["vc"], one["virtual"]) for one in other["physical"]} == {(None, None), ("other", None)}
