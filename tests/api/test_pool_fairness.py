"""Verdicts on a pool over REST, and finish times by week."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.dispatch.cycles import run_cycle
from muster.dispatch.explain import fairness
from muster.dispatch.models import Cycle
from muster.jobs.models import Job
from muster.usage.models import FinishTime
from tests.api.asking import fields_of, problem_of, require_described
from tests.api.conftest import World
from tests.factories import make_job

Api = Callable[[User | None], Client]
POOL, WEEKS = "/api/v1/pools/main/fairness", "/api/v1/usage/fairness"


@pytest.fixture
def crowded(world: World) -> World:
    """The jobs of vision hold all 4 GPUs; speech, whose quota is all of them, too, has a job that waits."""
    Job.objects.filter(pk=world.waiting.pk).delete()
    vision = make_job(world.vc, world.owner, gpus=2)
    Job.objects.filter(pk=vision.pk).update(submitted_at=timezone.now() - timedelta(hours=1))
    run_cycle(world.pool.pk, trigger="command")
    return world


def ask(api: Api, world: World, query: str = "") -> Any:
    answer = api(world.operator).get(f"{POOL}{query}")
    require_described("GET", POOL, answer)
    assert answer.status_code == 200
    return answer.json()


def test_verdicts_on_the_policy_of_the_pool_and_on_another(crowded: World, api: Api) -> None:
    found = ask(api, crowded, "?policy=las")
    assert (found["pool"], found["days"]) == ("main", 28)
    today, other = found["verdicts"]
    assert [(one["policy"], one["today"], one["snapshots"]) for one in (today, other)] == [
        ("fifo", True, 1),
        ("las", False, 1),
    ]
    assert (today["sharing_incentive"], today["pareto_efficiency"], today["envy_freeness"]) == (0, 1, 0)
    assert (today["problem"], today["kept_by_quotas"]) == ("", 0)
    assert (today["decided_by"], other["decided_by"]) == ({"fifo": 1}, {"fifo": 1})
    job = crowded.others.pk
    assert today["witnesses"][0]["sentence"] == (
        "tenant speech holds no GPUs and does the work of 0 GPUs; alone on its quota, 4 A100, it would do that of "
        f"1 GPU, with job {job}"
    )


def test_between_applications(crowded: World, api: Api) -> None:
    (today,) = ask(api, crowded, "?by=application")["verdicts"]
    assert today["witnesses"][0]["sentence"].startswith(f"job {crowded.others.pk} holds no GPUs")


def test_snapshots_that_are_left_out_are_told(crowded: World, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "WITHIN_S", 0.0)
    (today,) = ask(api, crowded)["verdicts"]
    assert (today["snapshots"], today["problem"]) == (
        0,
        "there was no time for older snapshots; ask again to have more of them judged",
    )
    monkeypatch.setattr(fairness, "MAX_JOBS", 1)
    (today,) = ask(api, crowded)["verdicts"]
    assert (today["snapshots"], today["problem"]) == (0, "snapshots with more than 1 jobs are left out")


def test_a_snapshot_is_judged_once(crowded: World, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ask(api, crowded)["verdicts"]
    monkeypatch.setattr(fairness, "WITHIN_S", 0.0)
    assert ask(api, crowded)["verdicts"] == before


def test_what_sharing_costs_each_tenant_now(crowded: World, api: Api) -> None:
    live = Job.objects.filter(gpus__gt=0).exclude(state__in=["succeeded", "failed", "cancelled"])
    live.filter(tenant=crowded.speech).update(expected_s=600)
    assert live.filter(tenant=crowded.vision).exists()  # without an expected run time they have no figure
    (speech,) = ask(api, crowded)["now"]
    assert (speech["tenant"], speech["applications"]) == ("speech", live.filter(tenant=crowded.speech).count())
    job = live.filter(tenant=crowded.speech).get()
    shown = api(crowded.operator).get(f"/api/v1/jobs/{job.pk}/fairness").json()
    assert speech["rho_quota_max"] == pytest.approx(shown["rho_quota"], rel=0.05)


def test_a_pool_without_snapshots_says_so(crowded: World, api: Api) -> None:
    Cycle.objects.update(snapshot=None)
    assert ask(api, crowded)["verdicts"][0]["problem"] == "no snapshot with waiting jobs is stored"


def test_an_unknown_policy_is_refused(world: World, api: Api) -> None:
    answer = api(world.operator).get(f"{POOL}?policy=magic")
    assert answer.status_code == 422
    assert fields_of(answer) == ["policy"]
    assert api(world.operator).get("/api/v1/pools/nowhere/fairness").status_code == 404


@pytest.fixture
def weeks(world: World) -> World:
    """Of last week: three jobs of olivia's and one of stan's have their figures."""
    ended_at = timezone.now() - timedelta(days=1)
    for owner, vc, quota, cluster in (
        (world.owner, world.vc, 1.0, 0.5),
        (world.owner, world.vc, 7.0, 1.25),
        (world.owner, world.vc, 1.0, 0.5),
        (world.stranger, world.other_vc, 0.5, None),
    ):
        FinishTime.objects.create(
            job=make_job(vc, owner, state="succeeded", ended_at=ended_at),
            tenant_id=vc.tenant_id,
            vc_id=vc.pk,
            owner_id=owner.pk,
            ended_at=ended_at,
            taken_s=60.0,
            alone_s=60.0,
            pool_gpus=4,
            quota_gpus=4,
            contention=1.0,
            vc_contention=1.0,
            rho_cluster=cluster,
            rho_quota=quota,
        )
    return world


OF_QUOTA, OF_CLUSTER = (
    tuple(f"{rho}_{name}" for name in ("median", "mean", "max")) for rho in ("rho_quota", "rho_cluster")
)
FIGURES = ("applications", *OF_QUOTA, *OF_CLUSTER)
VISION, SPEECH = (3, 1.0, 3.0, 7.0, 0.5, 0.75, 1.25), (1, 0.5, 0.5, 0.5, None, None, None)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("owner", {"vision": VISION}),
        ("peer", {}),
        ("manager", {"vision": VISION}),
        ("stranger", {"speech": SPEECH}),
        ("operator", {"vision": VISION, "speech": SPEECH}),
    ],
)
def test_each_caller_gets_the_figures_that_they_may_see(
    weeks: World, api: Api, role: str, expected: dict[str, Any]
) -> None:
    answer = api(weeks.user(role)).get(WEEKS)
    require_described("GET", WEEKS, answer)
    monday = timezone.now() - timedelta(days=1)
    monday -= timedelta(days=monday.weekday())
    rows = answer.json()["results"]
    assert {row["week"] for row in rows} <= {monday.date().isoformat()}
    assert {row["tenant"]: tuple(row[name] for name in FIGURES) for row in rows} == expected


def test_figures_as_csv_by_user(weeks: World, api: Api) -> None:
    answer = api(weeks.operator).get(f"{WEEKS}?by=user&format=csv&tenant=vision")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="fairness.csv"'
    assert list(csv.reader(io.StringIO(answer.content.decode()))) == [
        ["user", *FIGURES],
        ["olivia", "3", "1.0", "3.0", "7.0", "0.5", "0.75", "1.25"],
    ]


def test_what_does_not_tell_finish_times_apart_is_refused(world: World, api: Api) -> None:
    answer = api(world.operator).get(f"{WEEKS}?by=week,gpu_type")
    assert answer.status_code == 422
    assert problem_of(answer)["errors"][0]["field"] == "by"


def test_without_a_group_there_is_one_row_for_all(weeks: World, api: Api) -> None:
    (row,) = api(weeks.operator).get(f"{WEEKS}?by=").json()["results"]
    assert (row["week"], row["tenant"], row["applications"]) == (None, None, 4)
    assert api(weeks.peer).get(f"{WEEKS}?by=").json()["results"] == []


def test_a_pool_has_the_figures_of_its_tenants_and_of_its_weeks(weeks: World, api: Api) -> None:
    found = ask(api, weeks)
    assert {row["tenant"]: row["rho_quota_median"] for row in found["tenants"]} == {"vision": 1.0, "speech": 0.5}
    assert [(row["applications"], row["rho_quota_median"]) for row in found["weeks"]] == [(4, 1.0)]
