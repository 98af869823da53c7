"""The admin's pages of the tree of tenants: organisations, common quotas, caps, and two people who save at once."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from muster.common.models import DatabaseNow
from muster.events.models import AuditEntry
from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.tenants.edits import edit_group
from muster.tenants.models import Cap, CommonQuota, Organisation, Quota, Tenant, VirtualCluster
from scheduler.model.lifecycle import JobState
from tests.db.web.test_admin import browser, formset, last_audit, operator
from tests.db.web.test_admin_tenants import STORED
from tests.factories import make_job, make_node, make_pool, make_tenant, make_user, make_vc

__all__ = ["browser", "operator"]

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool() -> Pool:
    """Eight A100, of which a virtual cluster is promised three."""
    pool = make_pool("main")
    make_node(pool, gpus=8)
    make_vc(make_tenant("vision", weight=1), pool, "vision-vc", quotas={"A100": 3})
    return pool


def save(browser: Client, row: Organisation | Tenant | VirtualCluster, **fields: Any) -> str:
    """Save the form; return the page's answer, empty if it stored it."""
    row.refresh_from_db()
    data: dict[str, Any] = {"weight": row.weight, "loaded_version": row.version, **formset("quotas", [])}
    if isinstance(row, Tenant):
        data = {**STORED, **data, **formset("memberships", [])}
    page = reverse(f"admin:tenants_{row._meta.model_name}_change", args=[row.pk])
    answer = browser.post(page, {**data, **fields})
    assert answer.status_code in {200, 302}
    return "" if answer.status_code == 302 else answer.content.decode()


class TestOrganisations:
    def test_one_is_made_with_quotas_and_audited(self, browser: Client, pool: Pool) -> None:
        top = Organisation.objects.create(name="top")
        rows = formset("quotas", [{"pool": pool.pk, "gpu_type": "A100", "gpus": 5, "lending": 1}])
        data = {"name": "lab", "parent": top.pk, "weight": "2", **rows}
        assert browser.post(reverse("admin:tenants_organisation_add"), data).status_code == 302
        lab = Organisation.objects.get(name="lab")
        assert (lab.parent, lab.weight, lab.version, lab.changed_by) == (top, 2, 1, "olga")
        quota = lab.quotas.get()
        assert (quota.gpus, quota.borrowing, quota.lending) == (5, None, 1)
        entry = last_audit("organisation")
        assert (entry.actor, entry.action, entry.object_id) == ("olga", "create", "lab")
        assert last_audit("commonquota").object_id == "lab in main: 5 A100"

    def test_a_cycle_is_refused_at_the_parent(self, browser: Client) -> None:
        top = Organisation.objects.create(name="top")
        low = Organisation.objects.create(name="low", parent=Organisation.objects.create(name="middle", parent=top))
        assert "low is top itself or below it" in save(browser, top, parent=low.pk)
        assert "top is top itself or below it" in save(browser, top, parent=top.pk)
        top.refresh_from_db()
        assert (top.parent, top.version) == (None, 1)
        assert save(browser, low, parent=top.pk) == ""
        low.refresh_from_db()
        assert (low.parent, low.version, low.changed_by) == (top, 2, "olga")

    @pytest.mark.parametrize("weight", ["0", "-1", "nan", "1e9"])
    def test_a_weight_that_divides_nothing_is_refused(self, weight: str, browser: Client) -> None:
        lab = Organisation.objects.create(name="lab")
        assert save(browser, lab, weight=weight)
        lab.refresh_from_db()
        assert (lab.weight, lab.version) == (1, 1)


class TestCommonQuotas:
    @pytest.mark.parametrize(
        ("rows", "reason"),
        [
            ([{"gpu_type": "A100", "gpus": 6}], "others are promised 3: at most 5 can be given to"),
            ([{"gpu_type": "A100", "gpus": -1}], "it cannot be negative"),
            ([{"gpu_type": "H100", "gpus": 1}], "it has: A100"),
            ([{"gpu_type": "A100", "gpus": 1, "borrowing": -1}], "greater than or equal to 0"),
            ([{"gpu_type": "A100", "gpus": 1}, {"gpu_type": "A100", "gpus": 2}], "named twice"),
        ],
    )
    @pytest.mark.parametrize("kind", [Organisation, Tenant])
    def test_what_the_pool_cannot_keep_is_refused_at_its_row(
        self, kind: type[Organisation | Tenant], rows: list[dict[str, Any]], reason: str, browser: Client, pool: Pool
    ) -> None:
        group = kind._default_manager.create(name="lab")
        assert reason in save(browser, group, **formset("quotas", [{"pool": pool.pk, **row} for row in rows]))
        assert not CommonQuota.objects.exists()

    def test_a_tenants_own_row_does_not_count_against_itself(self, browser: Client, pool: Pool) -> None:
        tenant = Tenant.objects.get(name="vision")
        quota = CommonQuota.objects.create(tenant=tenant, pool=pool, gpu_type="A100", gpus=4)
        row = {"id": quota.pk, "tenant": tenant.pk, "pool": pool.pk, "gpu_type": "A100", "gpus": 5}
        assert save(browser, tenant, **formset("quotas", [row], stored=1)) == ""
        quota.refresh_from_db()
        assert quota.gpus == 5

    def test_what_a_smaller_pool_no_longer_keeps_stops_no_other_edit(self, browser: Client, pool: Pool) -> None:
        vc = VirtualCluster.objects.get()
        quota = vc.quotas.get()
        Quota.objects.update(gpus=20)
        row = {"id": quota.pk, "vc": vc.pk, "gpu_type": "A100", "gpus": 20}
        assert save(browser, vc, weight="2", **formset("quotas", [row], stored=1)) == ""
        assert save(browser, vc, **formset("quotas", [{**row, "gpus": 15}], stored=1)) == ""
        assert "at most 8" in save(browser, vc, **formset("quotas", [{**row, "gpus": 16}], stored=1))


class TestCaps:
    def test_of_a_member_a_role_and_every_member_are_stored_and_audited(self, browser: Client) -> None:
        tenant = make_tenant("vision")
        ada = make_user("ada", tenant=tenant)
        rows = [{"user": ada.pk, "gpus": 2}, {"role": "member", "jobs": 5}, {"gpu_hours_month": 100}]
        assert save(browser, tenant, **formset("caps", rows)) == ""
        caps = Cap.objects.order_by("pk").values_list("user", "role", "gpus", "jobs", "gpu_hours_month")
        assert list(caps) == [(ada.pk, "", 2, None, None), (None, "member", None, 5, None), (None, "", None, None, 100)]
        created = AuditEntry.objects.filter(object_type="cap", action="create", actor="olga")
        assert sorted(created.values_list("object_id", flat=True)) == [
            "vision: ada",
            "vision: each member",
            "vision: member",
        ]

    @pytest.mark.parametrize(
        ("rows", "reason"),
        [
            ([{"gpus": -1}], "greater than or equal to 0"),
            ([{"time_s": 0}], "greater than or equal to 1"),
            ([{"user": "ada", "role": "member", "gpus": 1}], "a cap is of a user or of a role"),
            ([{"user": "ada", "gpus": 1}, {"user": "ada", "gpus": 2}], "correct the duplicate"),
            ([{"gpus": 1}, {"jobs": 2}], "there are two caps of each member"),
            ([{"user": "stan", "gpus": 1}], "Select a valid choice"),
        ],
    )
    def test_those_that_make_no_sense_are_refused(
        self, rows: list[dict[str, Any]], reason: str, browser: Client
    ) -> None:
        tenant = make_tenant("vision")
        ids = {"ada": make_user("ada", tenant=tenant).pk, "stan": make_user("stan").pk}
        rows = [{**row, "user": ids[row["user"]]} if "user" in row else row for row in rows]
        assert reason in save(browser, tenant, **formset("caps", rows))
        assert not Cap.objects.exists()


class TestTwoPeople:
    def test_the_second_reads_who_was_first_and_nothing_is_stored(self, browser: Client, pool: Pool) -> None:
        tenant = Tenant.objects.get(name="vision")
        otto = make_user("otto", operator=True)
        edit_group(user=otto, node=tenant, version=1, changes={"weight": 2})
        ada = make_user("ada")
        rows = {**formset("memberships", [{"user": ada.pk, "role": "member"}]), **formset("caps", [{"gpus": 1}])}
        answer = save(browser, tenant, loaded_version="1", weight="3", **rows)
        assert "otto changed vision at" in answer
        tenant.refresh_from_db()
        assert (tenant.weight, tenant.version) == (2, 2)
        assert not tenant.memberships.exists()
        assert not tenant.caps.exists()

    @pytest.mark.parametrize("kind", [Organisation, Tenant, VirtualCluster])
    def test_each_save_raises_the_version_and_a_page_without_one_is_refused(
        self, kind: type[Organisation | Tenant | VirtualCluster], browser: Client, pool: Pool
    ) -> None:
        Organisation.objects.create(name="lab")
        row = kind._default_manager.get()
        assert save(browser, row, weight="3") == ""
        row.refresh_from_db()
        assert (row.weight, row.version, row.changed_by) == (3, 2, "olga")
        assert "olga changed" in save(browser, row, weight="4", loaded_version="1")
        assert save(browser, row, weight="4", loaded_version="")
        row.refresh_from_db()
        assert (row.weight, row.version) == (3, 2)

    def test_the_page_has_the_version_that_it_shows_in_a_hidden_field(self, browser: Client) -> None:
        lab = Organisation.objects.create(name="lab", version=7)
        page = browser.get(reverse("admin:tenants_organisation_change", args=[lab.pk])).content.decode()
        assert '<input type="hidden" name="loaded_version" value="7"' in page


def test_a_deleted_virtual_cluster_has_no_page(browser: Client, pool: Pool) -> None:
    VirtualCluster.objects.update(closed_at=DatabaseNow())
    vc = VirtualCluster.objects.get()
    assert "vision-vc" not in browser.get(reverse("admin:tenants_virtualcluster_changelist")).content.decode()
    page = browser.get(reverse("admin:tenants_tenant_change", args=[vc.tenant_id])).content.decode()
    assert reverse("admin:tenants_virtualcluster_change", args=[vc.pk]) not in page


class TestDeletion:
    def test_what_hinders_it_is_told_and_nothing_is_deleted(self, browser: Client, pool: Pool) -> None:
        vc = VirtualCluster.objects.get()
        page = reverse("admin:tenants_virtualcluster_delete", args=[vc.pk])
        job = make_job(vc)
        answer = browser.post(page, {"post": "yes"}, follow=True).content.decode()
        assert "1 jobs of vision-vc wait: cancel them, or name a virtual cluster" in answer
        Job.objects.filter(pk=job.pk).update(state=JobState.ACTIVE)
        answer = browser.post(page, {"post": "yes", "merge_into": "other"}, follow=True).content.decode()
        assert "no other virtual cluster" in answer
        answer = browser.post(page, {"post": "yes"}, follow=True).content.decode()
        assert "1 jobs of vision-vc run: delete it when they have ended" in answer
        vc.refresh_from_db()
        assert (vc.closed_at, vc.quotas.get().gpus) == (None, 3)
        assert not LogEntry.objects.exists()

    def test_its_waiting_jobs_move_to_one_that_the_page_offers(self, browser: Client, pool: Pool) -> None:
        vc = VirtualCluster.objects.get()
        target = make_vc(vc.tenant, pool, "vision-small", quotas={})
        make_vc(make_tenant("speech"), pool, "speech-vc", quotas={})
        make_vc(vc.tenant, make_pool("far"), "vision-far", quotas={})
        job = make_job(vc)
        page = reverse("admin:tenants_virtualcluster_delete", args=[vc.pk])
        form = browser.get(page).content.decode()
        assert re.findall(r'<option value="([^"]*)"', form) == ["", "vision-small"]
        answer = browser.post(page, {"post": "yes", "merge_into": "vision-small"})
        assert (answer.status_code, answer.headers["Location"]) == (
            302,
            reverse("admin:tenants_virtualcluster_changelist"),
        )
        job.refresh_from_db()
        vc.refresh_from_db()
        assert (job.vc, vc.closed_at is None, vc.quotas.exists()) == (target, False, False)
        entry = last_audit("virtual_cluster")
        assert (entry.actor, entry.action, entry.after) == ("olga", "delete", {"moved_jobs": 1, "to": "vision-small"})

    def test_several_are_not_deleted_at_once(self, browser: Client, pool: Pool) -> None:
        assert "delete_selected" not in browser.get(reverse("admin:tenants_virtualcluster_changelist")).content.decode()


def test_a_tenant_is_given_an_organisation(browser: Client) -> None:
    tenant, lab = make_tenant("vision"), Organisation.objects.create(name="lab")
    assert save(browser, tenant, organisation=lab.pk) == ""
    tenant.refresh_from_db()
    assert tenant.organisation == lab
    assert last_audit("tenant").after == {"organisation": "lab"}
    make_vc(tenant, make_pool(), "vision-vc", quotas={})
    assert "lab" in browser.get(reverse("admin:tenants_virtualcluster_changelist")).content.decode()
