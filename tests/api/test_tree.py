"""The tree of tenants by REST: who may change what, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.common.models import DatabaseNow
from muster.events.models import AuditEntry
from muster.jobs.models import Job
from muster.tenants.models import Cap, CommonQuota, Loan, Organisation, Quota, Tenant, VirtualCluster
from scheduler.model.lifecycle import JobState
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World
from tests.factories import make_job, make_pool, make_tenant, make_vc

Api = Callable[[User | None], Client]
VCS, TENANTS, ORGANISATIONS = "/api/v1/vcs", "/api/v1/tenants", "/api/v1/organisations"


@pytest.fixture(autouse=True)
def _four_promised(world: World) -> None:
    """The node has 4 A100: two for each virtual cluster."""
    Quota.objects.update(gpus=2)


def ask(client: Client, method: str, path: str, body: Any = None) -> Any:
    answer = send(client, method, path, body)
    require_described(method, path, answer)
    return answer


def patch(client: Client, row: Any, **changes: Any) -> Any:
    root = {VirtualCluster: VCS, Tenant: TENANTS, Organisation: ORGANISATIONS}[type(row)]
    row.refresh_from_db()
    return ask(client, "PATCH", f"{root}/{row.pk}", {"version": row.version, **changes})


def quota_of(vc: VirtualCluster) -> tuple[int, int | None, int | None]:
    row = Quota.objects.get(vc=vc, gpu_type="A100")
    return row.gpus, row.borrowing, row.lending


class TestVirtualCluster:
    def test_operators_change_weight_and_limits(self, world: World, api: Api) -> None:
        limits = {"gpu_type": "A100", "gpus": 1, "borrowing_limit": 3, "lending_limit": 0}
        answer = patch(api(world.operator), world.vc, weight=2.5, quotas=[limits])
        assert (answer.status_code, answer.json()["weight"], answer.json()["version"]) == (200, 2.5, 2)
        (quota,) = answer.json()["quotas"]
        assert quota == {**limits, "used": 2, "borrowed": 0, "lent": 0, "opportunistic": 0}
        assert answer.json()["changed_by"] == "oscar"
        audit = AuditEntry.objects.get(object_type="virtual_cluster", object_id="vision-vc")
        assert audit.after == {"weight": 2.5, "quotas": {"A100": [1, 3, 0]}}

    def test_a_limit_is_taken_away_by_null_and_what_is_not_named_stays(self, world: World, api: Api) -> None:
        Quota.objects.filter(vc=world.vc).update(borrowing=3, lending=1)
        patch(api(world.operator), world.vc, quotas=[{"gpu_type": "A100", "borrowing_limit": None}])
        assert quota_of(world.vc) == (2, None, 1)

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"quotas": [{"gpu_type": "A100", "gpus": -1}]}, "quotas.0.gpus"),
            ({"quotas": [{"gpu_type": "A100", "borrowing_limit": -1}]}, "quotas.0.borrowing_limit"),
            ({"quotas": [{"gpu_type": "A100", "lending_limit": -1}]}, "quotas.0.lending_limit"),
            ({"quotas": [{"gpu_type": "A100", "gpus": 3}]}, "quotas.0.gpus"),
            ({"quotas": [{"gpu_type": "H100", "gpus": 1}]}, "quotas.0.gpus"),
            ({"quotas": [{"gpu_type": "A100"}, {"gpu_type": "A100"}]}, "quotas.1.gpu_type"),
            ({"weight": 0}, "weight"),
            ({"weight": -1}, "weight"),
            ({"move": {"to": "speech-vc", "gpu_type": "A100", "gpus": 1}}, "move.to"),
        ],
    )
    def test_what_cannot_be_is_refused_at_its_field_and_nothing_is_stored(
        self, changes: dict[str, Any], field: str, world: World, api: Api
    ) -> None:
        answer = patch(api(world.operator), world.vc, **changes)
        assert (answer.status_code, fields_of(answer)) == (422, [field])
        world.vc.refresh_from_db()
        assert (quota_of(world.vc), world.vc.version, world.vc.weight) == ((2, None, None), 1, 1)

    def test_quotas_of_the_tree_above_count_in_what_the_pool_has_promised(self, world: World, api: Api) -> None:
        Quota.objects.filter(vc=world.vc).update(gpus=1)
        CommonQuota.objects.create(tenant=world.speech, pool=world.pool, gpu_type="A100", gpus=1)
        answer = patch(api(world.operator), world.vc, quotas=[{"gpu_type": "A100", "gpus": 2}])
        assert fields_of(answer) == ["quotas.0.gpus"]
        assert "others are promised 3: at most 1" in problem_of(answer)["detail"]

    def test_a_dry_run_answers_the_same_and_stores_nothing(self, world: World, api: Api) -> None:
        body = {"version": 1, "quotas": [{"gpu_type": "A100", "gpus": 1}]}
        answer = ask(api(world.operator), "PATCH", f"{VCS}/{world.vc.pk}?dry_run=true", body)
        assert (answer.status_code, answer.json()["quotas"][0]["gpus"]) == (200, 1)
        assert quota_of(world.vc)[0] == 2
        assert not AuditEntry.objects.filter(object_type="virtual_cluster").exists()

    def test_the_second_of_two_operators_reads_who_was_first(self, world: World, api: Api) -> None:
        assert patch(api(world.operator), world.vc, weight=2).status_code == 200
        answer = ask(api(world.operator), "PATCH", f"{VCS}/{world.vc.pk}", {"version": 1, "weight": 3})
        assert answer.status_code == 409
        assert "oscar changed vision-vc at" in problem_of(answer)["detail"]
        world.vc.refresh_from_db()
        assert world.vc.weight == 2

    def test_it_is_made_with_its_quotas_or_not_at_all(self, world: World, api: Api) -> None:
        Quota.objects.filter(vc=world.vc).update(gpus=1)
        body = {"name": "vision-small", "tenant": "vision", "pool": "main", "quotas": [{"gpu_type": "A100", "gpus": 2}]}
        assert fields_of(ask(api(world.operator), "POST", VCS, body)) == ["quotas.0.gpus"]
        assert not VirtualCluster.objects.filter(name="vision-small").exists()
        body["quotas"] = [{"gpu_type": "A100", "gpus": 1, "lending_limit": 0}]
        answer = ask(api(world.operator), "POST", VCS, body)
        assert (answer.status_code, answer.json()["quotas"][0]["lending_limit"]) == (201, 0)


class TestManager:
    def test_moves_quota_between_virtual_clusters_of_the_tenant(self, world: World, api: Api) -> None:
        small = make_vc(world.vision, world.pool, "vision-small", quotas={})
        answer = patch(api(world.manager), world.vc, move={"to": "vision-small", "gpu_type": "A100", "gpus": 1})
        assert answer.status_code == 200
        assert (quota_of(world.vc)[0], quota_of(small)[0]) == (1, 1)
        answer = patch(api(world.manager), world.vc, move={"to": "vision-small", "gpu_type": "A100", "gpus": 2})
        assert fields_of(answer) == ["move.gpus"]

    def test_moves_no_quota_to_another_pool(self, world: World, api: Api) -> None:
        make_vc(world.vision, make_pool("other"), "vision-other", quotas={})
        answer = patch(api(world.manager), world.vc, move={"to": "vision-other", "gpu_type": "A100", "gpus": 1})
        assert fields_of(answer) == ["move.to"]

    def test_sets_the_weight_and_lowers_limits(self, world: World, api: Api) -> None:
        limits = {"gpu_type": "A100", "gpus": 1, "borrowing_limit": 0, "lending_limit": 1}
        assert patch(api(world.manager), world.vc, weight=3, quotas=[limits]).status_code == 200
        assert quota_of(world.vc) == (1, 0, 1)

    def test_may_lend_more_of_what_the_tenant_has(self, world: World, api: Api) -> None:
        Quota.objects.filter(vc=world.vc).update(borrowing=1, lending=0)
        limits = {"gpu_type": "A100", "lending_limit": None}
        assert patch(api(world.manager), world.vc, quotas=[limits]).status_code == 200
        assert quota_of(world.vc) == (2, 1, None)

    @pytest.mark.parametrize("limit", [{"gpus": 3}, {"borrowing_limit": 5}, {"borrowing_limit": None}])
    def test_raises_no_limit(self, limit: dict[str, Any], world: World, api: Api) -> None:
        Quota.objects.filter(vc=world.vc).update(borrowing=1)
        answer = patch(api(world.manager), world.vc, quotas=[{"gpu_type": "A100", **limit}])
        assert fields_of(answer) == [f"quotas.0.{next(iter(limit))}"]
        assert quota_of(world.vc) == (2, 1, None)

    @pytest.mark.parametrize(("name", "value"), [("weight", 9), ("organisation", None), ("quotas", [])])
    def test_changes_no_limit_of_the_tenant(self, name: str, value: Any, world: World, api: Api) -> None:
        answer = patch(api(world.manager), world.vision, **{name: value})
        assert (answer.status_code, fields_of(answer)) == (422, [name])

    def test_caps_members(self, world: World, api: Api) -> None:
        caps = [{"user": "olivia", "gpus": 2, "time_s": 3600}, {"role": "member", "jobs": 5}, {"gpu_hours_month": 100}]
        answer = patch(api(world.manager), world.vision, caps=caps)
        assert answer.status_code == 200
        assert [(cap["user"], cap["role"]) for cap in answer.json()["caps"]] == [
            (None, None),
            (None, "member"),
            ("olivia", None),
        ]
        assert AuditEntry.objects.get(action="set_caps").object_id == "vision"

    @pytest.mark.parametrize(
        "caps",
        [
            [],
            [{"user": "mary", "gpus": 3}],
            [{"gpus": 2}, {"user": "mary", "gpus": 4}],
            [{"gpus": 2}, {"role": "manager", "gpus": 4}],
            [{"role": "member", "gpus": 2}],
        ],
    )
    def test_raises_no_cap_on_themselves(self, caps: list[dict[str, Any]], world: World, api: Api) -> None:
        Cap.objects.create(tenant=world.vision, gpus=2)
        answer = patch(api(world.manager), world.vision, caps=caps)
        assert answer.status_code == 422
        assert fields_of(answer)[0].startswith("caps.")
        assert "you may not raise your own limit" in problem_of(answer)["detail"]
        assert Cap.objects.get().gpus == 2


class TestTenant:
    def test_operators_give_it_an_organisation_and_gpus_of_its_own(self, world: World, api: Api) -> None:
        Quota.objects.update(gpus=1)
        Organisation.objects.create(name="lab")
        quotas = [{"pool": "main", "gpu_type": "A100", "gpus": 2, "lending_limit": 1}]
        answer = patch(api(world.operator), world.vision, organisation="lab", weight=2, quotas=quotas)
        assert answer.status_code == 200
        assert answer.json()["organisation"] == "lab"
        assert answer.json()["quotas"] == [{**quotas[0], "borrowing_limit": None}]
        quotas[0]["gpus"] = 3
        answer = patch(api(world.operator), world.vision, quotas=quotas)
        assert fields_of(answer) == ["quotas.0.gpus"]

    @pytest.mark.parametrize(
        ("caps", "field"),
        [
            ([{"user": "stan", "gpus": 1}], "caps.0.user"),
            ([{"gpus": -1}], "caps.0.gpus"),
            ([{"time_s": 0}], "caps.0.time_s"),
            ([{"jobs": 1}, {"jobs": 2}], "caps.1"),
            ([{"user": "olivia", "role": "member", "jobs": 1}], "caps.0.role"),
        ],
    )
    def test_caps_that_make_no_sense_are_refused(self, caps: Any, field: str, world: World, api: Api) -> None:
        answer = patch(api(world.operator), world.vision, caps=caps)
        assert (answer.status_code, fields_of(answer)) == (422, [field])

    def test_it_is_made_below_an_organisation(self, world: World, api: Api) -> None:
        Organisation.objects.create(name="lab")
        answer = ask(api(world.operator), "POST", TENANTS, {"name": "maths", "organisation": "lab"})
        assert (answer.status_code, answer.json()["organisation"]) == (201, "lab")
        answer = ask(api(world.operator), "POST", TENANTS, {"name": "physics", "organisation": "cern"})
        assert fields_of(answer) == ["organisation"]


class TestOrganisation:
    def test_a_cycle_is_refused(self, world: World, api: Api) -> None:
        top = Organisation.objects.create(name="top")
        middle = Organisation.objects.create(name="middle", parent=top)
        Organisation.objects.create(name="low", parent=middle)
        for name in ("top", "middle", "low"):
            answer = patch(api(world.operator), top, parent=name)
            assert (answer.status_code, fields_of(answer)) == (422, ["parent"])
        assert patch(api(world.operator), middle, parent=None).status_code == 200

    def test_it_is_made_and_deleted_once_nothing_is_below_it(self, world: World, api: Api) -> None:
        operator = api(world.operator)
        made = ask(operator, "POST", ORGANISATIONS, {"name": "lab", "weight": 2})
        assert made.status_code == 201
        path = f"{ORGANISATIONS}/{made.json()['id']}"
        patch(operator, world.vision, organisation="lab")
        answer = ask(operator, "DELETE", path)
        assert (answer.status_code, problem_of(answer)["detail"][:9]) == (409, "1 tenants")
        patch(operator, world.vision, organisation=None)
        assert ask(operator, "DELETE", path).status_code == 204

    def test_members_see_what_is_above_them_and_the_tenants_beside_them(self, world: World, api: Api) -> None:
        lab = Organisation.objects.create(name="lab", parent=Organisation.objects.create(name="top"))
        Organisation.objects.create(name="elsewhere")
        Tenant.objects.filter(pk__in=[world.vision.pk, make_tenant("beside").pk]).update(organisation=lab)
        results = ask(api(world.owner), "GET", ORGANISATIONS).json()["results"]
        assert [(one["name"], one["tenants"], one["organisations"], one["may"]) for one in results] == [
            ("lab", ["beside", "vision"], [], "read"),
            ("top", [], ["lab"], "read"),
        ]


class TestLoans:
    def test_a_tenant_reads_no_name_of_another_organisation(self, world: World, api: Api) -> None:
        Loan.objects.create(borrower=world.vc, lender_vc=world.other_vc, gpu_type="A100", gpus=2)
        path = f"{VCS}/{world.vc.pk}"

        def other(user: User) -> str:
            (loan,) = ask(api(user), "GET", path).json()["loans"]
            assert (loan["direction"], loan["gpus"], loan["until"]) == ("borrowed", 2, None)
            return str(loan["other"])

        assert (other(world.owner), other(world.operator)) == ("another tenant", "speech-vc")
        lab = Organisation.objects.create(name="lab")
        Tenant.objects.update(organisation=lab)
        assert other(world.owner) == "speech-vc"

    def test_the_quota_says_how_much_is_lent_and_borrowed(self, world: World, api: Api) -> None:
        Loan.objects.create(borrower=world.other_vc, lender_vc=world.vc, gpu_type="A100", gpus=1)
        results = ask(api(world.operator), "GET", VCS).json()["results"]
        told = {one["name"]: (one["quotas"][0]["lent"], one["quotas"][0]["borrowed"]) for one in results}
        assert told == {"vision-vc": (1, 0), "speech-vc": (0, 1)}


class TestDeletion:
    def test_of_one_with_running_or_waiting_jobs_is_refused_with_their_number(self, world: World, api: Api) -> None:
        path = f"{VCS}/{world.vc.pk}"
        answer = ask(api(world.operator), "DELETE", path)
        assert (answer.status_code, problem_of(answer)["detail"][:25]) == (409, "1 jobs of vision-vc run: ")
        Job.objects.filter(pk=world.running.pk).update(state=JobState.SUCCEEDED, ended_at=DatabaseNow())
        answer = ask(api(world.operator), "DELETE", path)
        assert (answer.status_code, problem_of(answer)["detail"][:25]) == (409, "1 jobs of vision-vc wait:")
        world.vc.refresh_from_db()
        assert (world.vc.closed_at, quota_of(world.vc)[0]) == (None, 2)

    def test_moves_waiting_jobs_to_another_one_of_the_tenant(self, world: World, api: Api) -> None:
        Job.objects.filter(pk=world.running.pk).update(state=JobState.SUCCEEDED, ended_at=DatabaseNow())
        Job.objects.filter(pk=world.waiting.pk).update(bumped=3, own_rank=1.0)
        target = make_vc(world.vision, world.pool, "vision-small", quotas={})
        answer = ask(api(world.operator), "DELETE", f"{VCS}/{world.vc.pk}?merge_into=speech-vc")
        assert fields_of(answer) == ["merge_into"]
        answer = ask(api(world.operator), "DELETE", f"{VCS}/{world.vc.pk}?merge_into=vision-small")
        assert answer.status_code == 204
        world.waiting.refresh_from_db()
        assert (world.waiting.vc_id, world.waiting.spec["vc"]) == (target.pk, "vision-small")
        assert (world.waiting.bumped, world.waiting.own_rank) == (0, None)
        assert not Quota.objects.filter(vc=world.vc).exists()
        assert [one["name"] for one in ask(api(world.owner), "GET", VCS).json()["results"]] == ["vision-small"]
        answer = ask(api(world.owner), "POST", "/api/v1/jobs", {"command": "true", "gpus": 1, "vc": "vision-vc"})
        assert fields_of(answer) == ["vc"]


class TestCapsOnOneJob:
    @pytest.mark.parametrize(
        ("spec", "field"),
        [({"gpus": 3}, "gpus"), ({"time": "3h"}, "time"), ({"time": None}, "time"), ({"nodes": 3}, "gpus")],
    )
    def test_are_checked_when_it_is_submitted(self, spec: Any, field: str, world: World, api: Api) -> None:
        Cap.objects.create(tenant=world.vision, job_gpus=2, time_s=7200)
        fits = {"command": "true", "gpus": 1, "nodes": 2, "time": "2h"}
        assert ask(api(world.owner), "POST", "/api/v1/jobs", fits).status_code == 201
        answer = ask(api(world.owner), "POST", "/api/v1/jobs", {**fits, **spec})
        assert (answer.status_code, fields_of(answer)) == (422, [field])

    def test_are_checked_when_its_time_is_edited(self, world: World, api: Api) -> None:
        Cap.objects.create(tenant=world.vision, user=world.owner, time_s=7200)
        job = make_job(world.vc, world.owner)
        path = f"/api/v1/jobs/{job.pk}"
        assert fields_of(ask(api(world.owner), "PATCH", path, {"time": "3h"})) == ["time"]
        assert fields_of(ask(api(world.manager), "PATCH", path, {"time": "3h"})) == ["time"]
        assert ask(api(world.owner), "PATCH", path, {"time": "1h"}).status_code == 200

    def test_the_most_specific_cap_counts_for_each_limit(self, world: World, api: Api) -> None:
        Cap.objects.create(tenant=world.vision, job_gpus=1, time_s=60)
        Cap.objects.create(tenant=world.vision, role="member", job_gpus=2)
        Cap.objects.create(tenant=world.vision, user=world.owner, time_s=7200)
        body = {"command": "true", "gpus": 2, "time": "2h"}
        assert ask(api(world.owner), "POST", "/api/v1/jobs", body).status_code == 201
        assert fields_of(ask(api(world.manager), "POST", "/api/v1/jobs", body)) == ["gpus", "time"]
