"""Pools in the admin: what decides in them, their timers, and what their containers may have."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.urls import reverse

from muster.accounts.models import User
from muster.dispatch.forms import field_names
from muster.dispatch.plugins import KINDS
from muster.dispatch.settings import config_of, fall_back, fallback_of
from muster.events.models import AuditEntry
from muster.fleet.models import Pool
from scheduler.engine.cycle import CycleConfig
from tests.factories import make_job, make_pool, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> User:
    return make_user("olga", operator=True)


@pytest.fixture
def browser(operator: User, client: Client) -> Client:
    client.force_login(operator)
    return client


def last_audit(object_type: str) -> AuditEntry:
    entry = AuditEntry.objects.filter(object_type=object_type).order_by("-id").first()
    assert entry is not None
    return entry


def pool_form(**changes: Any) -> dict[str, Any]:
    text = "policy policy_params placement placement_params admission admission_params name id"
    defaults = {
        field.name: "" if (value := field.get_default()) is None else value
        for field in Pool._meta.concrete_fields
        if field.editable and field.name not in text.split()
    }
    plugins = {"policy": "fifo", "placement": "consolidate", "admission": "quota"}
    return {"name": "main", **defaults, **plugins, **changes}


def test_whatever_a_pool_has_can_be_changed(browser: Client) -> None:
    page = browser.get(reverse("admin:fleet_pool_change", args=[make_pool().pk]))
    shown = set(page.context["adminform"].form.fields)
    stored = {field.name for field in Pool._meta.concrete_fields if field.editable} - {"id", "name"}
    assert stored - {f"{kind}_params" for kind in KINDS} - shown == set()


def test_each_policy_tells_what_it_needs_and_the_pools_own_by_its_parameters(browser: Client) -> None:
    pool = make_pool(policy="gavel", policy_params={"objective": "makespan", "aware": False})
    make_job(make_vc(make_tenant(), pool), make_user("ada"), gpus=2, expected_s=60)
    page = browser.get(reverse("admin:fleet_pool_change", args=[pool.pk]))
    form = page.context["adminform"].form
    told = {name: form[f"needs__{name}"].initial for name in KINDS["policy"].names}
    known = "Of 1 job with GPUs, rates are known for 0, and the expected run time for 1."
    assert told["gavel"] == f"This policy needs expected run times. {known}"
    assert told["optimus"] == f"This policy needs rates and expected run times. {known}"
    assert told["fifo"].endswith("It needs neither rates nor expected run times.")
    assert known in page.content.decode()
    assert page.context["adminform"].model_admin.conditional_fields["needs__gavel"] == "policy == 'gavel'"


def test_a_pool_is_stored(browser: Client) -> None:
    answer = browser.post(reverse("admin:fleet_pool_add"), pool_form(policy__fifo__skip_blocked="false"))
    assert answer.status_code == 302
    assert Pool.objects.get().policy_params == {"skip_blocked": False}
    assert last_audit("pool").object_id == "main"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"policy": "lottery"}, "lottery is not one of the available choices"),
        ({"policy__fifo__skip_blocked": "3"}, "3 is not one of the available choices"),
        ({"policy__fifo__patience_s": "-1"}, "greater than or equal to 0"),
        ({"policy": "tiresias", "policy__tiresias__limits_gpu_s": "[1, "}, "limits_gpu_s takes a list in brackets"),
        ({"policy": "tiresias", "policy__tiresias__limits_gpu_s": "[-1]"}, "limits_gpu_s[0] must be at least 0"),
        ({"suspect_after_s": "1"}, "cannot be shorter than beat_s"),
        ({"suspect_after_s": "9", "beat_s": "1"}, "10 s at least"),
        ({"unreachable_after_s": "5", "suspect_after_s": "4", "beat_s": "1"}, "10 s at least"),
        ({"claim_timeout_s": "3"}, "10 s at least"),
        ({"suspect_after_s": "15", "beat_s": "8"}, "two beats at least, 16 s"),
        ({"gang_network": "bridge"}, "Write host, refuse, or the name of a network"),
        ({"gang_network": "container:x"}, "Write host, refuse, or the name of a network"),
        ({"gang_network": "-x"}, "Write host, refuse, or the name of a network"),
        ({"name": "Not A Slug"}, "Use a-z"),
    ],
)
def test_a_pool_that_could_not_decide_is_refused(changes: dict[str, Any], reason: str, browser: Client) -> None:
    answer = browser.post(reverse("admin:fleet_pool_add"), pool_form(**changes))
    assert answer.status_code == 200
    assert reason in answer.content.decode()
    assert not Pool.objects.exists()


def test_what_containers_of_a_pool_may_have_is_stored_and_audited(browser: Client) -> None:
    browser.post(reverse("admin:fleet_pool_add"), pool_form())
    pool = Pool.objects.get()
    page = reverse("admin:fleet_pool_change", args=[pool.pk])
    assert browser.post(page, pool_form(gang_network="overlay-1", infiniband="on")).status_code == 302
    pool.refresh_from_db()
    assert (pool.gang_network, pool.infiniband) == ("overlay-1", True)
    entry = last_audit("pool")
    assert (entry.before, entry.after) == (
        {"gang_network": "", "infiniband": False},
        {"gang_network": "overlay-1", "infiniband": True},
    )


def test_a_pool_whose_timers_are_shorter_already_can_be_edited_otherwise(browser: Client) -> None:
    pool = make_pool("main", beat_s=1, suspect_after_s=3, unreachable_after_s=6, claim_timeout_s=5)
    timers = {"beat_s": "1", "suspect_after_s": "3", "unreachable_after_s": "6", "claim_timeout_s": "5"}
    page = reverse("admin:fleet_pool_change", args=[pool.pk])
    assert browser.post(page, pool_form(**timers, cpus_per_gpu="7")).status_code == 302
    pool.refresh_from_db()
    assert (pool.cpus_per_gpu, pool.suspect_after_s) == (7, 3)
    refused = browser.post(page, pool_form(**{**timers, "suspect_after_s": "2"}))
    assert "10 s at least" in refused.content.decode()


def test_hours_that_are_granted_and_taken_back_are_remembered(browser: Client) -> None:
    pool = make_pool("main")
    page = reverse("admin:fleet_pool_change", args=[pool.pk])
    for stop_after_s in ("7200", "600"):
        assert browser.post(page, pool_form(stop_after_s=stop_after_s)).status_code == 302
    pool.refresh_from_db()
    assert (pool.stop_after_s, pool.lowered_from_s, pool.lowered_at is None) == (600, 7200, False)


class TestTheParametersOfPlugIns:
    def url(self, pool: Pool) -> str:
        return reverse("admin:fleet_pool_change", args=[pool.pk])

    def test_each_has_a_field_that_is_shown_while_its_plug_in_is_chosen(self, browser: Client) -> None:
        pool = make_pool(policy="tiresias", policy_params={"limits_gpu_s": [50, 60], "tie": "submitted"})
        answer = browser.get(self.url(pool))
        form, page = answer.context["adminform"].form, answer.content.decode()
        assert form["policy__tiresias__limits_gpu_s"].value() == "[50, 60]"
        assert form["policy__tiresias__tie"].value() == '"submitted"'
        assert form["policy__tiresias__promote_knob"].value() == 0
        assert "attained service" in form["policy__tiresias__limits_gpu_s"].help_text
        assert "Default: [57600]." in form["policy__tiresias__limits_gpu_s"].help_text
        assert 'x-show="policy == &#x27;tiresias&#x27;"' in page
        for kind in KINDS:
            for name in field_names(kind):
                assert f'name="{name}"' in page

    def test_each_plug_in_is_explained_by_its_own_summary(self, browser: Client) -> None:
        form = browser.get(self.url(make_pool())).context["adminform"].form
        for kind, registry in KINDS.items():
            explained = {name: f"{name}: {registry.summary(name)}" for name in registry.names}
            assert dict(form.fields[kind].choices) == explained

    def test_a_refusal_shows_what_is_stored(self, browser: Client) -> None:
        pool = make_pool("main", policy="tiresias", policy_params={"limits_gpu_s": [50]}, cpus_per_gpu=4)
        changes = {"policy": "fifo", "policy__fifo__patience_s": "-1", "cpus_per_gpu": "5"}
        answer = browser.post(self.url(pool), pool_form(**changes))
        form = answer.context["adminform"].form
        assert (form["policy"].value(), form["cpus_per_gpu"].value()) == ("fifo", "5")
        assert form.fields["policy"].help_text == "Stored: tiresias."
        assert form.fields["cpus_per_gpu"].help_text.endswith("÷ its GPUs. Stored: 4.")
        assert form.fields["policy__fifo__patience_s"].help_text.endswith("Stored: nothing.")
        assert "Stored" not in form.fields["admission"].help_text
        assert answer.context["original"].policy == "tiresias"

    def test_what_is_edited_is_stored_and_audited_and_what_is_a_default_is_not(self, browser: Client) -> None:
        pool = make_pool("main")
        changes = {
            "policy": "tiresias",
            "policy__tiresias__limits_gpu_s": "[100, 200.5]",
            "policy__tiresias__promote_knob": "1.5",
            "policy__tiresias__tie": '"entered"',
            "policy__fifo__skip_blocked": "false",
        }
        assert browser.post(self.url(pool), pool_form(**changes)).status_code == 302
        pool.refresh_from_db()
        assert pool.policy == "tiresias"
        assert pool.policy_params == {"limits_gpu_s": [100, 200.5], "promote_knob": 1.5}
        audited = last_audit("pool")
        assert audited.before == {"policy": "fifo", "policy_params": {}}
        assert audited.after == {"policy": "tiresias", "policy_params": pool.policy_params}

    def test_blank_is_the_default_or_null(self, browser: Client) -> None:
        pool = make_pool("main", policy="fair", policy_params={"min_share_timeout_s": 5, "preemption_share": 0.5})
        changes = {"policy": "fair", "policy__fair__min_share_timeout_s": "", "policy__fair__preemption_share": ""}
        changes["policy__fair__fair_share_timeout_s"] = "900"
        assert browser.post(self.url(pool), pool_form(**changes)).status_code == 302
        pool.refresh_from_db()
        assert pool.policy_params == {"min_share_timeout_s": None}

    def test_a_form_that_is_sent_back_as_it_was_changes_nothing(self, browser: Client) -> None:
        pool = make_pool("main", policy="tiresias", policy_params={"limits_gpu_s": [50], "tie": "submitted"})
        form = browser.get(self.url(pool)).context["adminform"].form
        shown = {name: form[name].value() for name in form.fields if form[name].value() is not None}
        assert browser.post(self.url(pool), shown).status_code == 302
        assert not AuditEntry.objects.filter(object_type="pool").exists()
        assert Pool.objects.get().policy_params == pool.policy_params

    def test_the_page_says_that_and_why_a_pool_has_fallen_back_and_gives_it_another_chance(
        self, browser: Client
    ) -> None:
        pool = make_pool("main", policy="gone")
        failed = config_of(pool)
        fall_back(pool, failed=failed, to=CycleConfig(), why="there is no policy 'gone'", cycle_id=7)
        assert fallback_of(pool) is not None
        page = browser.get(self.url(pool)).content.decode()
        assert "failed in cycle 7: there is no policy" in page
        assert "failed in cycle 7" in browser.get(reverse("admin:fleet_pool_changelist")).content.decode()
        data = {"action": "try_again", ACTION_CHECKBOX_NAME: [pool.pk]}
        assert browser.post(reverse("admin:fleet_pool_changelist"), data).status_code == 302
        assert fallback_of(Pool.objects.get()) is None
        assert last_audit("pool").action == "try_again"
