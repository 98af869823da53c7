"""The world and the plan as records: their JSON, their indexes, and what applying a plan does to a snapshot."""

import json
from dataclasses import replace
from typing import Any

import pytest

from scheduler.model import Group, Organisation, Snapshot
from scheduler.model.codec import CodecError, from_json, to_json
from scheduler.model.lifecycle import AttemptState, HoldReason
from scheduler.model.plan import Hold, Place, Plan, apply
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

WORLD = make_snapshot(
    nodes=[make_node(1, unhealthy=[3]), make_node(2, schedulable=False, unschedulable_reason="drained")],
    waiting=[make_job(1, gpu_type=None, time_limit_s=60.0, avoid_nodes=(1, 2)), make_job(2)],
    running=[make_running(make_share(1, (0, 1)), make_share(2, (5,), rank=1))],
    vcs=[make_vc(1, quotas={"V100": 2, "A100": 4})],
)
PLAN = Plan(
    places=(Place(1, (make_share(1, (4,)),)),),
    holds=(Hold(2, HoldReason.QUOTA, "full", {"used": 4, "vc": "vision", "share": 0.5}, ("wait",), 1),),
)


def test_a_snapshot_survives_the_trip_through_json() -> None:
    assert from_json(Snapshot, json.loads(json.dumps(to_json(WORLD)))) == WORLD


def test_a_plan_survives_the_trip_through_json() -> None:
    assert from_json(Plan, json.loads(json.dumps(to_json(PLAN)))) == PLAN


def test_a_snapshot_survives_with_its_groups() -> None:
    grouped = replace(
        make_snapshot(waiting=[make_job(1, group_id=7)]),
        groups=(Group(7, 1, NOW, 3600.0, None), Group(9, 1, NOW, 0, 5.0)),
    )
    assert from_json(Snapshot, json.loads(json.dumps(to_json(grouped)))) == grouped
    assert grouped.group_by_id[7] == grouped.groups[0]


def test_a_field_that_was_added_since_takes_its_default() -> None:
    stored = to_json(WORLD)
    del stored["groups"]
    for job in (*stored["waiting"], *(run["job"] for run in stored["running"])):
        del job["group_id"]
    assert from_json(Snapshot, stored) == WORLD


def test_equal_snapshots_give_the_same_text() -> None:
    twin = replace(WORLD, vcs=(make_vc(1, quotas={"A100": 4, "V100": 2}),))
    assert json.dumps(to_json(twin)) == json.dumps(to_json(WORLD))


def test_the_json_holds_plain_values_only() -> None:
    def kinds(value: Any) -> set[type]:
        if isinstance(value, dict):
            return {type(value)}.union(*map(kinds, value.values()))
        if isinstance(value, list):
            return {type(value)}.union(*map(kinds, value))
        return {type(value)}

    plain = {dict, list, str, int, float, bool, type(None)}
    assert kinds(to_json(WORLD)) | kinds(to_json(PLAN)) <= plain


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "a missing field": ({"seed": None}, "missing or unknown field: seed"),
    "an unknown field": ({"colour": "red"}, "missing or unknown field: colour"),
    "a string for a number": ({"now": "noon"}, "Snapshot.now: 'noon' has the wrong type"),
    "a boolean for an integer": ({"pool_id": True}, "Snapshot.pool_id: True has the wrong type"),
    "an object for a list": ({"nodes": {}}, "Snapshot.nodes: {} has the wrong type"),
    "an item that is no record": ({"nodes": [7]}, "Snapshot.nodes: 7 has the wrong type"),
}


@pytest.mark.parametrize(("change", "message"), MALFORMED.values(), ids=MALFORMED)
def test_json_of_another_shape_is_refused_by_the_name_of_the_field(change: dict[str, Any], message: str) -> None:
    data = to_json(WORLD) | change
    if change == {"seed": None}:
        del data["seed"]
    with pytest.raises(CodecError, match=message):
        from_json(Snapshot, data)


def test_an_enum_value_that_does_not_exist_is_refused() -> None:
    data = to_json(PLAN)
    data["holds"][0]["reason"] = "bad_luck"
    with pytest.raises(CodecError, match=r"Plan.holds: Hold.reason: 'bad_luck' is not a valid HoldReason"):
        from_json(Plan, data)


def test_the_indexes_count_what_live_attempts_hold() -> None:
    assert WORLD.holders_of_gpu.keys() == {100, 101, 205}
    assert WORLD.used_by_node == {1: (1, 1024), 2: (1, 1024)}
    assert WORLD.held_by_vc == {(1, "A100"): 3}


def test_a_gpu_that_left_the_pool_counts_against_no_quota() -> None:
    assert replace(WORLD, nodes=WORLD.nodes[:1]).held_by_vc == {(1, "A100"): 2}


def test_applying_a_plan_starts_an_attempt_for_each_place() -> None:
    after = apply(WORLD, PLAN)
    assert [job.id for job in after.waiting] == [2]
    started, earlier = after.running
    assert earlier == WORLD.running[0]
    assert (started.attempt_id, started.job_id, started.vc_id) == (-1, 1, 1)
    assert started.state is AttemptState.PLACED
    assert started.placed_at == NOW
    assert started.allocations == PLAN.places[0].allocations


def test_applying_a_plan_leaves_the_old_snapshot_as_it_was() -> None:
    before = to_json(WORLD)
    assert apply(WORLD, PLAN).holders_of_gpu.keys() == {100, 101, 104, 205}
    assert WORLD.holders_of_gpu.keys() == {100, 101, 205}
    assert to_json(WORLD) == before


LEFT: dict[str, tuple[dict[str, Any], tuple[int, ...], float | None]] = {
    "a job without a prediction": ({}, (0,), None),
    "a job of one size": ({"remaining_s": 100.0}, (0, 1), 40.0),
    "more than predicted was done": ({"remaining_s": 50.0}, (0,), 0.0),
    "on as many GPUs as it asks for": ({"remaining_s": 100.0, "gpus": 2, "speeds": (1.0, 1.5, 1.8)}, (0, 1), 40.0),
    "on fewer": ({"remaining_s": 100.0, "gpus": 2, "speeds": (1.0, 1.5, 1.8)}, (0,), 60.0),
    "on more": ({"remaining_s": 100.0, "gpus": 2, "speeds": (1.0, 1.5, 1.8)}, (0, 1, 2), 28.0),
    "on more than predictions go": ({"remaining_s": 100.0, "gpus": 2, "speeds": (1.0, 1.5)}, (0, 1, 2), 40.0),
}


@pytest.mark.parametrize(("fields", "indexes", "expected"), LEFT.values(), ids=LEFT)
def test_what_is_left_shrinks_at_the_speed_of_the_present_size(
    fields: dict[str, Any], indexes: tuple[int, ...], expected: float | None
) -> None:
    run = make_running(make_share(1, indexes), job=make_job(1, **fields))  # since a minute
    left_s = run.remaining_s(NOW)
    assert left_s == (expected if expected is None else pytest.approx(expected))


def test_a_snapshot_survives_with_its_tree_of_tenants() -> None:
    grown = replace(
        WORLD,
        organisations=(Organisation(1, "institute", 2.0, None, {"A100": 4}), Organisation(2, "group", parent_id=1)),
        tenants=(replace(WORLD.tenants[0], organisation_id=2, borrowing={"A100": 2}, lending={"A100": 0}),),
        vcs=(replace(WORLD.vcs[0], weight=3.0, borrowing={"A100": 1}, past_gpu_s=60.0),),
    )
    assert from_json(Snapshot, json.loads(json.dumps(to_json(grown)))) == grown
