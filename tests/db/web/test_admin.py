"""The admin: who enters, what it stores, and what it writes into the audit log."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from muster.accounts.models import ApiToken, User
from muster.accounts.services import user_of_token
from muster.common.secrets import digest
from muster.dispatch.models import Cycle, Lane, Planner, Target
from muster.events.models import AuditEntry, Event, Outbox, Restore
from muster.failures.models import LogRuleBook, RuleBook
from muster.fleet.models import Gpu, HealthReport, Maintenance, Node, Strike
from muster.jobs.models import Job, JobGroup
from muster.links.models import Server
from muster.notices.models import Webhook
from muster.offers.models import Framework, Offer
from muster.offers.models import Role as OfferRole
from muster.sbatch.models import SlurmTable
from muster.screening.models import PoolScreening, ScreeningResult
from muster.settings import PASSWORD_HASHERS
from muster.shells.models import Shell
from muster.tenants.models import (
    Organisation,
    PrivateRegistry,
    RegistryCredentials,
    Tenant,
    Volume,
)
from muster.tenants.roles import Role
from scheduler.model.lifecycle import Desired, JobState, NodeAdmin
from tests.factories import (
    make_attempt,
    make_job,
    make_node,
    make_pool,
    make_tenant,
    make_token,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db

READ_ONLY = [
    "events_event",
    "events_auditentry",
    "dispatch_cycle",
    "jobs_attempt",
    "jobs_allocation",
    "fleet_gpu",
    "fleet_strike",
    "offers_framework",
    "offers_offer",
    "shells_shell",
    "notices_webhook",
]


@pytest.fixture
def operator() -> User:
    return make_user("olga", operator=True)


@pytest.fixture
def browser(operator: User, client: Client) -> Client:
    client.force_login(operator)
    return client


def our_models() -> list[str]:
    models = [model for model in admin.site._registry if model.__module__.startswith("muster.")]
    return sorted(f"{model._meta.app_label}_{model._meta.model_name}" for model in models)


def one_of_each() -> None:
    """A row of every model, with what a page shows of it."""
    pool = make_pool()
    vc = make_vc(pool=pool)
    node = make_node(pool, gpus=2)
    job = make_job(vc, name="<script>alert(1)</script>")
    attempt = make_attempt(job, [node])
    make_token(job.owner)
    JobGroup.objects.create(
        kind="sweep", tenant=vc.tenant, vc=vc, pool=pool, owner=job.owner, name="<script>", spec={}, size=2, parallel=1
    )
    SlurmTable.objects.create(version=1, text="shared_folders: [/shared]", author="<script>alert(1)</script>")
    Lane.objects.create(pool=pool)
    planner = Planner.objects.create(pool=pool, name="second")
    planner.clusters.create(vc=make_vc(pool=pool))
    Target.objects.create(pool=pool, config={}, reason="<script>alert(1)</script>")
    at = timezone.now()
    Restore.objects.create(backup_at=at, nodes_known=True, last_job=0, last_uid=0, resumed_at=at)
    Shell.objects.create(
        job=job,
        allocation=attempt.allocations.get(),
        user=job.owner,
        address="127.0.0.1",
        token_digest="x",
        terminal=True,
        term="xterm",
        rows=24,
        cols=80,
    )
    bad = {"node": node, "gpu": node.gpus.first(), "detail": "<script>alert(1)</script>"}
    HealthReport.objects.create(**bad, kind="xid", xid=79, level="failure", action="drain_node", words="off the bus")
    Strike.objects.create(
        node=node,
        gpu=node.gpus.first(),
        reason="gpu_lost",
        job_id=job.pk,
        attempt_id=1,
        detail="<script>alert(1)</script>",
    )
    Maintenance.objects.create(
        pool=pool,
        node=node,
        begins_at="2030-01-01T00:00Z",
        ends_at="2030-01-02T00:00Z",
        reason="<script>alert(1)</script>",
        created_by="ada",
    )
    Organisation.objects.create(name="lab")
    Volume.objects.create(tenant=vc.tenant, name="data", path="/data/<script>alert(1)</script>")
    RegistryCredentials.objects.create(
        tenant=vc.tenant,
        registry=PrivateRegistry.objects.create(host="ghcr.io"),
        username="<script>alert(1)</script>",
        sealed_password="sealed",
        changed_by="ada",
    )
    Webhook.objects.create(user=job.owner, url="https://hooks.example.org/a-secret-path", sealed_secret="sealed")
    Server.objects.create(
        node=node,
        host="h",
        user="u",
        sealed_key="x",
        sealed_credential="x",
        public_key="ssh-ed25519 AAAA",
        reason="<b>",
    )
    Cycle.objects.create(pool=pool, trigger="sweep", snapshot=b"x")
    PoolScreening.objects.create(pool=pool, screening_pool=make_pool())
    ScreeningResult.objects.create(
        job=job, tenant=vc.tenant, pool=pool, verdict="failed", gpus_asked=8, line="<script>alert(1)</script>"
    )
    Event.objects.create(kind="job.submitted", actor="ada", job_id=job.pk)
    AuditEntry.objects.create(actor="ada", action="create", object_type="node", object_id="n1", after={"a": 1})
    Outbox.objects.create(topic="mail", payload={})
    changes = [{"job": job.pk, "before": "a", "after": "b", "line": "<script>alert(1)</script>"}]
    RuleBook.objects.create(text="", note="<script>alert(1)</script>", author="ada", preview={"changes": changes})
    matches = [{"job": job.pk, "rule": "a", "called": "a", "line": "<script>alert(1)</script>"}]
    found = {"met": 1, "tried": 2, "matches": matches}
    LogRuleBook.objects.create(text="", note="<script>alert(1)</script>", author="ada", preview=found)
    role = OfferRole.objects.create(name="research", vc=vc)
    framework = Framework.objects.create(role=role, user=job.owner)
    Offer.objects.create(
        framework=framework, node=node, gpu_ids=[1], cpus=1, memory_mib=1, expires_at=framework.registered_at
    )


def formset(prefix: str, rows: list[dict[str, Any]], *, stored: int = 0) -> dict[str, Any]:
    """The fields that the browser sends for an inline."""
    data: dict[str, Any] = {
        f"{prefix}-TOTAL_FORMS": len(rows),
        f"{prefix}-INITIAL_FORMS": stored,
        f"{prefix}-MIN_NUM_FORMS": 0,
        f"{prefix}-MAX_NUM_FORMS": 1000,
    }
    for index, row in enumerate(rows):
        data |= {f"{prefix}-{index}-{name}": value for name, value in row.items()}
    return data


def last_audit(object_type: str) -> AuditEntry:
    entry = AuditEntry.objects.filter(object_type=object_type).order_by("-id").first()
    assert entry is not None
    return entry


@pytest.mark.parametrize("page", our_models())
def test_every_page_opens_for_an_operator(page: str, browser: Client) -> None:
    one_of_each()
    listed = browser.get(reverse(f"admin:{page}_changelist"))
    assert listed.status_code == 200
    model = next(m for m in admin.site._registry if f"{m._meta.app_label}_{m._meta.model_name}" == page)
    row = model._default_manager.order_by("pk").first()
    assert row is not None
    changed = browser.get(reverse(f"admin:{page}_change", args=[row.pk]))
    assert changed.status_code == 200
    assert b"<script>alert(1)" not in listed.content + changed.content


def test_the_start_page_leads_to_every_page(browser: Client) -> None:
    text = browser.get(reverse("admin:index")).content.decode()
    missing = [page for page in our_models() if reverse(f"admin:{page}_changelist") not in text]
    assert missing == []
    assert 'href="/"' in text


def test_the_start_page_offers_what_operators_do(browser: Client) -> None:
    text = browser.get(reverse("admin:index")).content.decode()
    for title in (
        *("Add a node", "Add a tenant", "Add a user", "Change a quota", "Drain a node", "See failed jobs"),
        *("Replace a key", "Read the audit log", "Choose a policy", "Look at health"),
    ):
        assert f"<strong>{title}</strong>" in text


def test_the_audit_log_shows_the_reason_what_changed_and_the_second_in_utc(browser: Client) -> None:
    entry = AuditEntry.objects.create(
        actor="ada",
        action="drain",
        object_type="node",
        object_id="n1",
        before={"admin": "active", "memory_mib": 7},
        after={"admin": "draining", "reason": "new fans"},
    )
    text = browser.get(reverse("admin:events_auditentry_changelist")).content.decode()
    for shown in ("new fans", "admin: active, memory (MiB): 7", "admin: draining", f"{entry.at:%Y-%m-%d %H:%M:%S} UTC"):
        assert shown in text


@pytest.mark.parametrize("page", our_models())
def test_a_manager_of_a_tenant_does_not_enter(page: str, client: Client) -> None:
    client.force_login(make_user(tenant=make_tenant(), role=Role.MANAGER))
    answer = client.get(reverse(f"admin:{page}_changelist"))
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/admin/login/")


@pytest.mark.parametrize("page", READ_ONLY)
def test_the_record_can_neither_be_added_to_nor_edited(page: str, browser: Client) -> None:
    one_of_each()
    assert browser.get(reverse(f"admin:{page}_add")).status_code == 403
    model = next(m for m in admin.site._registry if f"{m._meta.app_label}_{m._meta.model_name}" == page)
    row = model._default_manager.order_by("pk").first()
    assert row is not None
    assert browser.post(reverse(f"admin:{page}_change", args=[row.pk]), {}).status_code == 403
    assert browser.post(reverse(f"admin:{page}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    assert model._default_manager.filter(pk=row.pk).exists()


def test_a_webhook_is_shown_without_its_path_and_can_be_disabled_and_enabled(browser: Client) -> None:
    one_of_each()
    webhook = Webhook.objects.get()
    pages = [reverse("admin:notices_webhook_changelist"), reverse("admin:notices_webhook_change", args=[webhook.pk])]
    for page in pages:
        text = browser.get(page).content.decode()
        assert "hooks.example.org" in text
        assert "a-secret-path" not in text
        assert "sealed" not in text
    for action, disabled in (("disable", True), ("enable", False)):
        browser.post(pages[0], {"action": action, ACTION_CHECKBOX_NAME: [str(webhook.pk)]})
        webhook.refresh_from_db()
        assert (webhook.disabled_at is not None) is disabled
    assert set(AuditEntry.objects.filter(object_type="webhook").values_list("action", flat=True)) == {
        "disable",
        "enable",
    }


def test_a_role_is_stored_audited_and_keeps_its_name(browser: Client) -> None:
    data = {"name": "research", "vc": make_vc().pk, "weight": "2", "revocable": "on"}
    assert browser.post(reverse("admin:offers_role_add"), data).status_code == 302
    role = OfferRole.objects.get()
    assert (role.weight, role.revocable, last_audit("role").action) == (2, True, "create")
    changed = {"name": "other", "weight": "3"}
    assert browser.post(reverse("admin:offers_role_change", args=[role.pk]), changed).status_code == 302
    role.refresh_from_db()
    assert (role.name, role.weight, role.revocable) == ("research", 3, False)
    assert last_audit("role").before == {"weight": 2, "revocable": True}


def test_a_planner_is_added_edited_and_deleted_and_what_is_wrong_is_named(browser: Client) -> None:
    pool, elsewhere = make_pool(), make_vc(pool=make_pool("elsewhere"))
    vc = make_vc(pool=pool)
    data = {
        "pool": pool.pk,
        "name": "research",
        "policy": "las",
        "policy_params": "{}",
        "placement": "best_fit",
        "placement_params": "{}",
        "virtual_clusters": [vc.pk],
    }
    url = reverse("admin:dispatch_planner_add")
    wrong = [
        ({"virtual_clusters": [elsewhere.pk]}, f"{elsewhere.name} is in pool elsewhere; planner research is of"),
        ({"policy": "fiifo"}, "Select a valid choice"),
        ({"policy_params": '{"speed": 1}'}, "speed"),
        ({"name": ""}, "This field is required"),
    ]
    for change, message in wrong:
        assert message in browser.post(url, data | change).content.decode()
    assert not Planner.objects.exists()
    assert browser.post(url, data | {"all_or_nothing": "on"}).status_code == 302
    planner = Planner.objects.get()
    assert (planner.policy, planner.all_or_nothing, planner.clusters.get().vc) == ("las", True, vc)
    assert "already exists" in browser.post(url, data).content.decode()
    Planner.objects.update(fallback={"instead_of": {}, "config": {}})
    page = reverse("admin:dispatch_planner_change", args=[planner.pk])
    assert browser.post(page, data | {"policy": "fifo", "name": "other", "virtual_clusters": []}).status_code == 302
    planner.refresh_from_db()
    assert (planner.name, planner.policy, planner.fallback, planner.clusters.exists()) == (
        "research",
        "fifo",
        None,
        False,
    )
    assert last_audit("planner").before["virtual_clusters"] == [vc.name]
    assert browser.post(page, data).status_code == 302
    answer = browser.post(reverse("admin:dispatch_planner_delete", args=[planner.pk]), {"post": "yes"}, follow=True)
    assert f"The default planner of pool {pool.name} decides on {vc.name}" in answer.content.decode()
    assert not Planner.objects.exists()
    assert last_audit("planner").action == "delete"


def test_where_jobs_are_tried_is_edited_audited_and_never_the_pool_itself(browser: Client) -> None:
    pool, small = make_pool(), make_pool()
    url = reverse("admin:screening_poolscreening_add")
    data = {"pool": pool.pk, "screening_pool": small.pk, "min_gpus": 4, "minutes": 2, "world": 2}
    data |= {"max_wait_s": 60, "trust_days": 1, "tenant_gpus": 2}
    answer = browser.post(url, {**data, "screening_pool": pool.pk})
    assert "a pool cannot screen for itself" in answer.content.decode()
    assert browser.post(url, data).status_code == 302
    row = PoolScreening.objects.get(pool=pool)
    assert (row.screening_pool, last_audit("screening").action) == (small, "create")
    answer = browser.post(reverse("admin:screening_poolscreening_change", args=[row.pk]), {**data, "minutes": -1})
    assert "longer than 0 minutes" in answer.content.decode()
    assert (
        browser.post(reverse("admin:screening_poolscreening_delete", args=[row.pk]), {"post": "yes"}).status_code == 302
    )
    assert not PoolScreening.objects.exists()


def test_the_join_token_of_a_new_node_is_shown_once(browser: Client) -> None:
    pool = make_pool()
    data = {"name": "gpu01", "pool": pool.pk, "address": "10.0.0.1", "rack": "r1"}
    answer = browser.post(reverse("admin:fleet_node_add"), data, follow=True)
    secrets = re.findall(r"mjoin_[A-Za-z0-9_-]+", answer.content.decode())
    node = Node.objects.get(name="gpu01")
    assert node.join_digest == digest(secrets[0])
    assert node.lease.epoch == 0
    assert "mjoin_" not in browser.get(reverse("admin:fleet_node_change", args=[node.pk])).content.decode()
    entry = last_audit("node")
    assert entry.action == "create"
    assert "mjoin_" not in str(entry.after)


def test_a_renewed_join_token_replaces_the_old_one(browser: Client) -> None:
    node = make_node()
    data = {"action": "renew_join_token", "_selected_action": [node.pk]}
    answer = browser.post(reverse("admin:fleet_node_changelist"), data, follow=True)
    secret = re.findall(r"mjoin_[A-Za-z0-9_-]+", answer.content.decode())[0]
    node.refresh_from_db()
    assert node.join_digest == digest(secret)


@pytest.mark.parametrize(
    ("action", "start", "end"),
    [("cordon", "active", "cordoned"), ("drain", "active", "draining"), ("move_jobs_off", "cordoned", "draining")],
)
def test_a_node_is_changed_with_a_reason(action: str, start: str, end: str, browser: Client) -> None:
    node = make_node(admin=start)
    url, data = reverse("admin:fleet_node_changelist"), {"action": action, "_selected_action": [node.pk]}
    asked = browser.post(url, data)
    assert asked.status_code == 200
    assert 'name="reason"' in asked.content.decode()
    assert browser.post(url, {**data, "apply": "1", "reason": ""}).status_code == 200
    node.refresh_from_db()
    assert node.admin == start
    assert browser.post(url, {**data, "apply": "1", "reason": "new fans"}).status_code == 302
    node.refresh_from_db()
    assert (node.admin, node.reason) == (end, "new fans")
    assert last_audit("node").actor == "olga"


def test_a_node_is_resumed_at_once_and_keeps_no_reason(browser: Client) -> None:
    node = make_node(admin="cordoned", reason="new fans")
    browser.post(reverse("admin:fleet_node_changelist"), {"action": "resume", "_selected_action": [node.pk]})
    node.refresh_from_db()
    assert (node.admin, node.reason) == ("active", "")
    assert last_audit("node").actor == "olga"


def test_strikes_are_forgiven_with_a_reason(browser: Client) -> None:
    node, without = make_node(), make_node()
    Strike.objects.create(node=node, reason="launch_failed", job_id=1, attempt_id=1)
    page = browser.get(reverse("admin:fleet_node_change", args=[node.pk])).content.decode()
    listed = reverse("admin:fleet_strike_changelist") + f"?node__id__exact={node.pk}"
    assert re.search(rf'1 <a href="{re.escape(listed)}">', page)
    assert "launch_failed" in browser.get(listed).content.decode()
    data = {"action": "forgive", "_selected_action": [node.pk, without.pk], "apply": "1"}
    url = reverse("admin:fleet_node_changelist")
    assert browser.post(url, {**data, "reason": ""}).status_code == 200
    assert Strike.objects.filter(forgiven_at=None).exists()
    answer = browser.post(url, {**data, "reason": "new disk"}, follow=True).content.decode()
    assert f"{node.name}: forgive is done" in answer
    assert f"{without.name}: node {without.name} has no strikes" in answer
    assert not Strike.objects.filter(forgiven_at=None).exists()
    entry = last_audit("node")
    assert (entry.actor, entry.action, entry.object_id) == ("olga", "forgive", node.name)


def test_unhealthy_gpus_are_given_back_with_a_reason(browser: Client) -> None:
    node, sound = make_node(gpus=3), make_node()
    broken, gone, fine = Gpu.objects.filter(node=node).order_by("index")
    Gpu.objects.filter(pk__in=[broken.pk, gone.pk]).update(health="failure")
    Gpu.objects.filter(pk=gone.pk).update(present=False)
    data = {"action": "repair", "_selected_action": [node.pk, sound.pk], "apply": "1", "reason": "a new riser"}
    answer = browser.post(reverse("admin:fleet_node_changelist"), data, follow=True).content.decode()
    assert f"{node.name}: repair is done" in answer
    assert f"{sound.name}: node {sound.name} has no unhealthy GPU that its agent reports" in answer
    found = {gpu.pk: gpu.healthy for gpu in Gpu.objects.filter(node=node)}
    assert found == {broken.pk: True, gone.pk: False, fine.pk: True}
    before, node.version = node.version, Node.objects.get(pk=node.pk).version
    assert node.version == before + 1
    entry = last_audit("node")
    assert (entry.actor, entry.action, entry.before) == ("olga", "repair", {"unhealthy": [broken.uuid]})


def test_a_move_that_the_table_does_not_have_is_told(browser: Client) -> None:
    node = make_node(admin=NodeAdmin.RETIRED)
    data = {"action": "cordon", "_selected_action": [node.pk], "apply": "1", "reason": "why not"}
    answer = browser.post(reverse("admin:fleet_node_changelist"), data, follow=True)
    assert "cannot become cordoned" in answer.content.decode()


def test_an_edit_of_a_node_leaves_alone_what_its_agent_writes(browser: Client) -> None:
    node = make_node(rack="r1", cpus=64)
    page = browser.get(reverse("admin:fleet_node_change", args=[node.pk]))
    assert page.status_code == 200
    Node.objects.filter(pk=node.pk).update(cpus=128, health="suspect")
    gpus = [{"id": gpu.pk, "node": node.pk} for gpu in Gpu.objects.filter(node=node)]
    data = {"address": node.address, "rack": "r2", "labels": "{}", **formset("gpus", gpus, stored=len(gpus))}
    assert browser.post(reverse("admin:fleet_node_change", args=[node.pk]), data).status_code == 302
    before = node.version
    node.refresh_from_db()
    assert (node.rack, node.cpus, node.health, node.version) == ("r2", 128, "suspect", before + 1)


def test_a_password_is_hashed_and_audited_nowhere(browser: Client, settings: Any) -> None:
    settings.PASSWORD_HASHERS = PASSWORD_HASHERS
    secret = "a long and winding road"
    data = {"username": "ada", "email": "", "password1": secret, "password2": secret, **formset("memberships", [])}
    assert browser.post(reverse("admin:accounts_user_add"), data).status_code == 302
    ada = User.objects.get(username="ada")
    assert ada.password.startswith("argon2")
    assert ada.check_password(secret)
    again = "another long and winding road"
    url = reverse("admin:auth_user_password_change", args=[ada.pk])
    assert browser.post(url, {"password1": again, "password2": again}).status_code == 302
    ada.refresh_from_db()
    assert ada.check_password(again)
    entries = [str((entry.before, entry.after)) for entry in AuditEntry.objects.all()]
    assert last_audit("user").action == "set_password"
    assert not any("argon2" in text or "winding" in text for text in entries)


def test_a_node_is_one_line_of_words_with_its_gpus(browser: Client) -> None:
    node = make_node(make_pool(), gpus=2, gpu_type="A100")
    Gpu.objects.filter(node=node, index=0).update(health="failure")
    text = browser.get(reverse("admin:fleet_node_changelist")).content.decode()
    assert "2 A100 (1 failed)" in text
    assert re.search(r"State\s*</a>", text)


def test_the_way_to_a_page_names_the_row_as_it_is_called(browser: Client) -> None:
    tenant = make_tenant("speech")
    text = browser.get(reverse("admin:tenants_tenant_change", args=[tenant.pk])).content.decode()
    ways = re.findall(
        r'<a href="/admin/tenants/(?:tenant/)?(?:\d+/change/)?" class="align-middle[^>]*>\s*(\S+)\s*</a>', text
    )
    assert ways == ["Tenants", "speech"]


def test_an_operator_is_made_and_unmade_by_one_mark(browser: Client) -> None:
    ada = make_user("ada")
    url = reverse("admin:accounts_user_change", args=[ada.pk])
    data = {"username": "ada", "email": "", "is_active": "on", "gids": "[]", "uid": "4321"} | formset("memberships", [])
    assert browser.post(url, {**data, "is_staff": "on"}).status_code == 302
    ada.refresh_from_db()
    assert (ada.is_staff, ada.is_superuser, ada.uid) == (True, True, 4321)
    assert browser.post(url, data).status_code == 302
    ada.refresh_from_db()
    assert (ada.is_staff, ada.is_superuser) == (False, False)


def test_operators_cannot_shut_themselves_out(browser: Client, operator: User) -> None:
    data = {"username": "olga", "email": "", "gids": "[]"} | formset("memberships", [])
    assert browser.post(reverse("admin:accounts_user_change", args=[operator.pk]), data).status_code == 302
    action = {"action": "deactivate", "_selected_action": [operator.pk]}
    browser.post(reverse("admin:accounts_user_changelist"), action)
    operator.refresh_from_db()
    assert (operator.is_active, operator.is_staff) == (True, True)


def test_the_tokens_of_a_deactivated_user_end_to_work(browser: Client) -> None:
    ada = make_user("ada")
    secret = make_token(ada)
    assert user_of_token(secret) == ada
    browser.post(reverse("admin:accounts_user_changelist"), {"action": "deactivate", "_selected_action": [ada.pk]})
    assert user_of_token(secret) is None
    entry = last_audit("user")
    assert (entry.action, entry.before, entry.after) == ("deactivate", {"is_active": True}, {"is_active": False})


def test_a_token_is_revoked_in_the_operators_name_and_its_digest_never_shown(browser: Client) -> None:
    secret = make_token(make_user("ada"))
    token = ApiToken.objects.get()
    page = browser.get(reverse("admin:accounts_apitoken_change", args=[token.pk])).content.decode()
    assert token.digest not in page
    browser.post(reverse("admin:accounts_apitoken_changelist"), {"action": "revoke", "_selected_action": [token.pk]})
    assert user_of_token(secret) is None
    assert last_audit("token").actor == "olga"


def test_jobs_are_cancelled_from_the_list(browser: Client) -> None:
    waiting, done = make_job(), make_job(state=JobState.SUCCEEDED)
    data = {"action": "cancel", "_selected_action": [waiting.pk, done.pk]}
    answer = browser.post(reverse("admin:jobs_job_changelist"), data, follow=True)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.desired) == (JobState.CANCELLED, Desired.STOP)
    assert f"job {done.pk} has succeeded already" in answer.content.decode()
    assert Job.objects.get(pk=done.pk).state == JobState.SUCCEEDED


def test_a_tenant_with_virtual_clusters_is_not_deleted(browser: Client) -> None:
    tenant = make_vc().tenant
    answer = browser.post(reverse("admin:tenants_tenant_delete", args=[tenant.pk]), {"post": "yes"})
    assert answer.status_code == 200
    assert Tenant.objects.filter(pk=tenant.pk).exists()


def test_a_deletion_is_audited(browser: Client) -> None:
    tenant = make_tenant("vision")
    assert browser.post(reverse("admin:tenants_tenant_delete", args=[tenant.pk]), {"post": "yes"}).status_code == 302
    entry = last_audit("tenant")
    assert (entry.action, entry.object_id) == ("delete", "vision")


def test_admin_without_its_slash_leads_there(client: Client) -> None:
    assert client.get("/admin").headers["Location"] == "/admin/"


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example",
        "//evil.example",
        "///evil.example",
        "https:evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://testserver@evil.example",
        "javascript:alert(1)",
    ],
)
def test_signing_in_to_the_admin_does_not_lead_to_another_site(address: str, client: Client) -> None:
    make_user("otto", password="correct horse", operator=True)
    path = f"{reverse('admin:login')}?{urlencode({'next': address})}"
    assert f'value="{address}"' not in client.get(path).content.decode()
    answer = client.post(path, {"username": "otto", "password": "correct horse", "next": address})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/")
