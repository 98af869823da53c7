"""The admin's pages of tenants and virtual clusters: one form for a new tenant, and quotas that the pool can keep."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from muster.accounts.models import User
from muster.events.models import AuditEntry
from muster.fleet.models import Pool
from muster.jobs.services import submit_job
from muster.settings import UID_RANGE
from muster.tenants.models import Membership, Quota, Tenant, VirtualCluster
from muster.tenants.roles import Role
from tests.db.web.test_admin import browser, formset, last_audit, operator
from tests.factories import PASSWORD, make_node, make_pool, make_tenant, make_user, make_vc

__all__ = ["browser", "operator"]

pytestmark = pytest.mark.django_db

# What the form of a tenant has beside its name and weight.
TENANT = {"screening": "auto", "idle_action": "warn", "idle_below": "5", "idle_for_s": "3600"}
# What the form of a stored tenant has beside that and its members.
STORED = {**TENANT, "weight": "1", "loaded_version": "1", **formset("quotas", []), **formset("caps", [])}


def test_a_tenants_rule_for_idle_jobs_is_set_and_bounded(browser: Client) -> None:
    tenant = make_tenant("vision", weight=1)
    page = reverse("admin:tenants_tenant_change", args=[tenant.pk])
    rows = formset("memberships", [])
    refused = browser.post(page, {**STORED, "idle_for_s": "60", **rows})
    assert refused.status_code == 200
    stored = {**STORED, "idle_action": "stop", "idle_for_s": "7200", "idle_binding": "on", **rows}
    assert browser.post(page, stored).status_code == 302
    tenant.refresh_from_db()
    assert (tenant.idle_action, tenant.idle_for_s, tenant.idle_binding) == ("stop", 7200, True)
    assert last_audit("tenant").after == {"idle_action": "stop", "idle_for_s": 7200, "idle_binding": True}


def test_a_tenant_is_stored_with_its_members_and_audited(browser: Client) -> None:
    ada = make_user("ada")
    rows = formset("memberships", [{"user": ada.pk, "role": "manager"}])
    answer = browser.post(reverse("admin:tenants_tenant_add"), {"name": "vision", "weight": "2", **TENANT, **rows})
    assert answer.status_code == 302
    assert Membership.objects.get(tenant__name="vision", user=ada).role == Role.MANAGER
    entry = last_audit("tenant")
    assert (entry.actor, entry.action, entry.object_id) == ("olga", "create", "vision")
    assert last_audit("membership").after == {
        "id": Membership.objects.get().pk,
        "tenant": "vision",
        "user": "ada",
        "role": "manager",
    }


class TestANewTenant:
    """Eight A100 in the pool, of which another virtual cluster is promised three."""

    @pytest.fixture
    def pool(self) -> Pool:
        pool = make_pool("main")
        make_node(pool, gpus=8)
        make_vc(pool=pool, name="other", quotas={"A100": 3})
        return pool

    def add(self, browser: Client, pool: Pool, member: dict[str, Any], **fields: Any) -> Any:
        rows = formset("memberships", [{"role": "member", **member}])
        data = {"name": "vision", "weight": "1", **TENANT, "pool": pool.pk, "quota__A100": "5", **rows, **fields}
        return browser.post(reverse("admin:tenants_tenant_add"), data)

    def test_its_new_member_can_submit_at_once(self, browser: Client, pool: Pool) -> None:
        assert self.add(browser, pool, {"username": "nina", "password": PASSWORD}).status_code == 302
        user = User.objects.get(username="nina")
        assert user.check_password(PASSWORD)
        job, _ = submit_job(user=user, data={"command": "true", "gpus": "A100:5"})
        assert (job.vc.name, job.pool, user.uid in UID_RANGE) == ("vision", pool, True)
        audited = AuditEntry.objects.filter(actor="olga").values_list("action", "object_type")
        assert {("create", "tenant"), ("create", "virtual_cluster"), ("set_quota", "virtual_cluster")} <= set(audited)
        assert {("create", "user"), ("create", "membership")} <= set(audited)

    @pytest.mark.parametrize(
        ("member", "fields", "reason"),
        [
            ({"username": "nina", "password": PASSWORD}, {"quota__A100": "6"}, "at most 5 can be given to vision"),
            ({"username": "nina", "password": PASSWORD}, {"vc_name": "other"}, "already exists"),
            ({"username": "nina", "password": "short"}, {}, "This password is too short"),
            ({"username": "olga", "password": PASSWORD}, {}, "A user with that username already exists"),
            ({"username": "no name", "password": PASSWORD}, {}, "Enter a valid username"),
            ({"role": "manager"}, {}, "Choose a user, or name a new one."),
        ],
    )
    def test_it_is_stored_whole_or_not_at_all(
        self, member: dict[str, Any], fields: dict[str, Any], reason: str, browser: Client, pool: Pool
    ) -> None:
        answer = self.add(browser, pool, member, **fields)
        assert answer.status_code == 200
        assert reason in answer.content.decode()
        assert not Tenant.objects.filter(name="vision").exists()
        assert not VirtualCluster.objects.filter(name="vision").exists()
        assert not User.objects.filter(username="nina").exists()

    def test_two_new_members_of_one_name_are_refused(self, browser: Client, pool: Pool) -> None:
        nina = {"username": "nina", "password": PASSWORD, "role": "member"}
        answer = self.add(browser, pool, nina, **formset("memberships", [nina, nina]))
        assert "nina is named twice" in answer.content.decode()
        assert not User.objects.filter(username="nina").exists()

    def test_its_page_leads_to_its_virtual_clusters(self, browser: Client, pool: Pool) -> None:
        vc = VirtualCluster.objects.get(name="other")
        page = browser.get(reverse("admin:tenants_tenant_change", args=[vc.tenant_id])).content.decode()
        assert reverse("admin:tenants_virtualcluster_change", args=[vc.pk]) in page
        assert "3 A100" in page


def test_an_edit_is_audited_with_what_it_was_before(browser: Client) -> None:
    tenant = make_tenant("vision", weight=1)
    data = {**STORED, "name": "ignored", "weight": "3", **formset("memberships", [])}
    assert browser.post(reverse("admin:tenants_tenant_change", args=[tenant.pk]), data).status_code == 302
    tenant.refresh_from_db()
    assert (tenant.name, tenant.weight) == ("vision", 3)
    entry = last_audit("tenant")
    assert (entry.action, entry.before, entry.after) == ("change", {"weight": 1}, {"weight": 3})


def test_a_membership_that_is_removed_is_audited(browser: Client) -> None:
    tenant = make_tenant("vision")
    ada = make_user("ada", tenant=tenant)
    row = {"id": Membership.objects.get().pk, "tenant": tenant.pk, "user": ada.pk, "role": "member", "DELETE": "on"}
    data = {**STORED, **formset("memberships", [row], stored=1)}
    assert browser.post(reverse("admin:tenants_tenant_change", args=[tenant.pk]), data).status_code == 302
    assert not Membership.objects.exists()
    assert last_audit("membership").action == "delete"


class TestQuotas:
    """Eight A100 in the pool, of which another virtual cluster is promised three."""

    @pytest.fixture
    def pool(self) -> Pool:
        pool = make_pool("main")
        make_node(pool, gpus=8)
        make_vc(pool=pool, name="other", quotas={"A100": 3})
        return pool

    def add(self, browser: Client, pool: Pool, rows: list[dict[str, Any]]) -> Any:
        data = {"name": "vision-vc", "tenant": make_tenant().pk, "pool": pool.pk, "weight": 1}
        return browser.post(reverse("admin:tenants_virtualcluster_add"), {**data, **formset("quotas", rows)})

    def save(self, browser: Client, vc: VirtualCluster, rows: list[dict[str, Any]]) -> int:
        vc.refresh_from_db()
        data = {"weight": vc.weight, "loaded_version": vc.version, **formset("quotas", rows, stored=1)}
        return browser.post(reverse("admin:tenants_virtualcluster_change", args=[vc.pk]), data).status_code

    def test_the_types_of_the_pool_are_offered_with_what_is_promised(self, browser: Client, pool: Pool) -> None:
        vc = make_vc(pool=pool, name="vision-vc", quotas={"A100": 5})
        page = browser.get(reverse("admin:tenants_virtualcluster_change", args=[vc.pk]))
        form = page.context["inline_admin_formsets"][0].formset.forms[0]
        assert form.fields["gpu_type"].widget.choices == [("", "Select a type"), ("A100", "A100")]
        capacities = json.loads(form.fields["gpus"].widget.attrs["data-quota-of"])
        assert capacities == {str(pool.pk): {"name": "main", "types": {"A100": [8, 3]}}}

    def test_a_quota_that_the_pool_can_keep_is_stored(self, browser: Client, pool: Pool) -> None:
        assert self.add(browser, pool, [{"gpu_type": "A100", "gpus": 5}]).status_code == 302
        assert Quota.objects.get(vc__name="vision-vc").gpus == 5
        assert last_audit("quota").object_id == "vision-vc: 5 A100"

    @pytest.mark.parametrize(
        ("rows", "reason"),
        [
            ([{"gpu_type": "A100", "gpus": 6}], "at most 5 can be given to vision-vc"),
            ([{"gpu_type": "A100", "gpus": 3}, {"gpu_type": "A100", "gpus": 3}], "correct the duplicate"),
            ([{"gpu_type": "A100", "gpus": -1}], "it cannot be negative"),
            ([{"gpu_type": "H100", "gpus": 1}], "it has: A100"),
        ],
    )
    def test_one_that_it_cannot_keep_is_refused_with_the_reason(
        self, rows: list[dict[str, Any]], reason: str, browser: Client, pool: Pool
    ) -> None:
        answer = self.add(browser, pool, rows)
        assert answer.status_code == 200
        assert reason in answer.content.decode()
        assert not VirtualCluster.objects.filter(name="vision-vc").exists()

    def test_the_row_that_is_edited_does_not_count_against_itself(self, browser: Client, pool: Pool) -> None:
        vc = make_vc(pool=pool, name="vision-vc", quotas={"A100": 5})
        quota = Quota.objects.get(vc=vc)
        row = {"id": quota.pk, "vc": vc.pk, "gpu_type": "A100"}
        assert self.save(browser, vc, [{**row, "gpus": 4}]) == 302
        quota.refresh_from_db()
        assert quota.gpus == 4
        assert self.save(browser, vc, [{**row, "gpus": 6}]) == 200
        quota.refresh_from_db()
        assert quota.gpus == 4

    def test_what_one_row_gives_up_can_go_to_a_new_row(self, browser: Client, pool: Pool) -> None:
        vc = make_vc(pool=pool, name="vision-vc", quotas={"A100": 5})
        quota = Quota.objects.get(vc=vc)
        rows = [
            {"id": quota.pk, "vc": vc.pk, "gpu_type": "A100", "gpus": 5, "DELETE": "on"},
            {"vc": vc.pk, "gpu_type": "A100", "gpus": 2},
        ]
        assert self.save(browser, vc, rows) == 302
        assert list(Quota.objects.filter(vc=vc).values_list("gpus", flat=True)) == [2]
