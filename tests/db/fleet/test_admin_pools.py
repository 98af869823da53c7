"""Pools in the admin: what decides in them, their timers, and what their containers may have."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.urls import reverse

from muster.accounts.models import User
from muster.dispatch.admin.forms import field_names
from muster.dispatch.admin.word_fields import field_of_column
from muster.dispatch.config.plugins import KINDS, SETTINGS
from muster.dispatch.config.settings import config_of, fall_back, fallback_of
from muster.events.models import AuditEntry
from muster.fleet.models import Pool
from scheduler.engine.cycle import CycleConfig
from scheduler.presets import FIRST, GUARANTEED_CELLS, PRESETS
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
    """The form of a new pool's page, with a policy by hand."""
    columns = {}
    for column in Pool._meta.concrete_fields:
        if column.editable and column.name not in {"id", *SETTINGS} and column.get_default() not in {None, ""}:
            field, value = field_of_column(column), column.get_default()
            columns[column.name] = value if field is None else field.prepare_value(value)
    columns = {name: value for name, value in columns.items() if value is not False}
    plugins = {"policy": "fifo", "placement": "consolidate", "admission": "quota", "preset": ""}
    return {**columns, "name": "main", **plugins, **changes}


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
        ({"policy__fifo__patience_s": "-1"}, "&#x27;-1&#x27; is not a duration: write 90s, 30m, 24h or 7d"),
        ({"policy": "tiresias", "policy__tiresias__limits_gpu_s": "[1, "}, "limits_gpu_s takes a list in brackets"),
        ({"policy": "tiresias", "policy__tiresias__limits_gpu_s": "[-1]"}, "limits_gpu_s[0] must be at least 0"),
        ({"policy": "gavel", "policy__gavel__round_s": "0.5s"}, "round_s must be at least 1"),
        ({"policy": "gandiva", "admission": "hived"}, "both choose GPUs themselves"),
        ({"suspect_after_s": "1s"}, "cannot be shorter than beat, which is 5s"),
        ({"suspect_after_s": "9s", "beat_s": "1s"}, "10s at least"),
        ({"unreachable_after_s": "5s", "suspect_after_s": "4s", "beat_s": "1s"}, "10s at least"),
        ({"claim_timeout_s": "3s"}, "10s at least"),
        ({"suspect_after_s": "15s", "beat_s": "8s"}, "two beats at least, 16s"),
        ({"stop_after_s": "600"}, "&#x27;600&#x27; is not a duration: write 90s, 30m, 24h or 7d"),
        ({"log_max_bytes_per_job": "1 GiB"}, "is not a size: write 512MiB or 128GiB"),
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
    timers = {"beat_s": "1s", "suspect_after_s": "3s", "unreachable_after_s": "6s", "claim_timeout_s": "5s"}
    page = reverse("admin:fleet_pool_change", args=[pool.pk])
    assert browser.post(page, pool_form(**timers, cpus_per_gpu="7")).status_code == 302
    pool.refresh_from_db()
    assert (pool.cpus_per_gpu, pool.suspect_after_s) == (7, 3)
    refused = browser.post(page, pool_form(**{**timers, "suspect_after_s": "2s"}))
    assert "10s at least" in refused.content.decode()


class TestPresets:
    def test_a_new_pool_begins_with_the_first_one(self, browser: Client) -> None:
        form = browser.get(reverse("admin:fleet_pool_add")).context["adminform"].form
        shown = {name: form[name].value() for name in form.fields if form[name].value() not in (None, "")}
        shown = {name: value for name, value in shown.items() if value is not False}
        assert shown["preset"] == FIRST.name
        assert browser.post(reverse("admin:fleet_pool_add"), {**shown, "name": "main"}).status_code == 302
        assert {name: getattr(Pool.objects.get(), name) for name in SETTINGS} == FIRST.settings

    def test_the_one_that_is_chosen_counts_whatever_the_fields_below_say(self, browser: Client) -> None:
        pool = make_pool("main")
        page = reverse("admin:fleet_pool_change", args=[pool.pk])
        for preset in PRESETS.values():
            changes = {"preset": preset.name, "policy__fifo__patience_s": "nonsense", "reason": f"for {preset.title}"}
            assert browser.post(page, pool_form(**changes)).status_code == 302, preset.name
            pool.refresh_from_db()
            assert {name: getattr(pool, name) for name in SETTINGS} == preset.settings
            after = last_audit("pool").after
            assert after is not None
            assert after["reason"] == f"for {preset.title}"
            assert browser.get(page).context["adminform"].form["preset"].value() == preset.name

    def test_the_cards_carry_what_the_fields_show(self, browser: Client) -> None:
        form = browser.get(reverse("admin:fleet_pool_add")).context["adminform"].form
        for name, text in form.fields["preset"].widget.values[FIRST.name].items():
            assert str(form[name].value() or "") == str(text or ""), name

    def test_a_switch_is_shown_and_stored_only_with_a_reason(self, browser: Client) -> None:
        pool = make_pool("main")
        page = reverse("admin:fleet_pool_change", args=[pool.pk])
        for changes in ({"policy": "srsf"}, {"admission": "hived"}, {"preset": GUARANTEED_CELLS.name}):
            refused = browser.post(page, pool_form(**changes))
            form = refused.context["adminform"].form
            assert form.errors.keys() == {"reason"}
            assert "<tr><th>" in form.fields["preview"].widget.render("preview", None)
            pool.refresh_from_db()
            assert (pool.policy, pool.admission) == ("fifo", "quota")
        assert browser.post(page, pool_form(policy__fifo__skip_blocked="false")).status_code == 302

    def test_what_a_form_would_change_can_be_asked_and_changes_nothing(self, browser: Client, client: Client) -> None:
        pool = make_pool("main")
        url = reverse("admin:fleet_pool_preview", args=[pool.pk])
        told = browser.post(url, pool_form(preset=GUARANTEED_CELLS.name)).content.decode()
        assert "<th>admission</th><td>quota</td><td>→ hived</td>" in told
        assert "No cells are promised, so all guarantees go" in told
        assert browser.post(url, pool_form()).content == b""
        assert "both choose GPUs" in browser.post(url, pool_form(policy="gandiva", admission="hived")).content.decode()
        assert Pool.objects.get().admission == "quota"
        assert browser.get(url).status_code == 404
        client.force_login(make_user("ada"))
        assert client.post(url, pool_form()).status_code in {302, 403}


def test_durations_and_sizes_are_words_with_their_defaults(browser: Client) -> None:
    pool = make_pool("main", keep_failed_max_s=5400)
    page = browser.get(reverse("admin:fleet_pool_change", args=[pool.pk]))
    form, titles = page.context["adminform"].form, [title for title, _ in page.context["adminform"].fieldsets]
    shown = [form[name].value() for name in ("beat_s", "check_every_s", "keep_failed_max_s", "log_max_bytes_per_job")]
    assert shown == ["5s", "6h", "90m", "1GiB"]
    assert (form["beat_s"].label, form["memory_mib_per_gpu"].label) == ("Beat", "Memory per GPU")
    assert form["check_every_s"].help_text.endswith("Default: 6h.")
    assert form["policy__fifo__patience_s"].label == "patience"
    assert "Default: 6m." in form["policy__gavel__round_s"].help_text
    assert "Jobs (1 changed)" in titles
    assert "Agents" in titles


def test_hours_that_are_granted_and_taken_back_are_remembered(browser: Client) -> None:
    pool = make_pool("main")
    page = reverse("admin:fleet_pool_change", args=[pool.pk])
    for stop_after_s in ("2h", "10m"):
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
            "reason": "short jobs wait too long",
        }
        assert browser.post(self.url(pool), pool_form(**changes)).status_code == 302
        pool.refresh_from_db()
        assert pool.policy == "tiresias"
        assert pool.policy_params == {"limits_gpu_s": [100, 200.5], "promote_knob": 1.5}
        audited = last_audit("pool")
        assert audited.before == {"policy": "fifo", "policy_params": {}}
        after = {"policy": "tiresias", "policy_params": pool.policy_params, "reason": "short jobs wait too long"}
        assert audited.after == after

    def test_blank_is_the_default_or_null(self, browser: Client) -> None:
        pool = make_pool("main", policy="fair", policy_params={"min_share_timeout_s": 5, "preemption_share": 0.5})
        changes = {"policy": "fair", "policy__fair__min_share_timeout_s": "", "policy__fair__preemption_share": ""}
        changes["policy__fair__fair_share_timeout_s"] = "15m"
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
