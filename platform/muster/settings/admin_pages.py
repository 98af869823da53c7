"""The admin's name and navigation."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy


def _link(to: str) -> Any:
    """A path, or the page of the admin with this name."""
    return to if to.startswith("/") else reverse_lazy(f"admin:{to}")


def _item(title: str, icon: str, to: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": _link(to)}


def _section(title: str, *items: tuple[str, str, str]) -> dict[str, Any]:
    return {"title": title, "separator": True, "items": [_item(*item) for item in items]}


START = [
    {**_item(title, icon, to), "explanation": explanation}
    for title, icon, to, explanation in (
        ("Add a node", "dns", "fleet_node_add", "Name it, and get its join token."),
        ("Add a tenant", "groups", "tenants_tenant_add", "With its virtual cluster, quotas and members."),
        ("Add a user", "person_add", "accounts_user_add", "A person or another operator."),
        (
            "Change a quota",
            "pie_chart",
            "tenants_virtualcluster_changelist",
            "How many GPUs a virtual cluster may hold.",
        ),
        ("Drain a node", "construction", "fleet_node_changelist", "Select nodes and an action; or plan a maintenance."),
        ("See failed jobs", "error", "/jobs?state=failed", "The newest first, with their causes."),
        (
            "Replace a key",
            "key",
            "accounts_apitoken_changelist",
            "Revoke API tokens here. The platform's own keys: manage.py rotate_keys.",
        ),
        ("Read the audit log", "policy", "events_auditentry_changelist", "Who changed what, when and why."),
        ("Choose a policy", "workspaces", "fleet_pool_changelist", "How pools schedule, and their timers and limits."),
        ("Look at health", "monitor_heart", "fleet_healthreport_changelist", "What GPUs reported, by node."),
    )
]


def start_page(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    return context | {"title": "Start", "start": START}


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Muster",
    "SITE_HEADER": "Muster",
    "SITE_SUBHEADER": "For operators",
    "SITE_URL": "/",
    "SITE_SYMBOL": "grid_view",
    # The pages' own colours, fonts and sizes, which the build puts beside them.
    "STYLES": ["/tokens.css", lambda request: static("muster/admin.css")],
    "SCRIPTS": [lambda request: static("muster/admin.js")],
    "BORDER_RADIUS": "8px",
    "DASHBOARD_CALLBACK": "muster.settings.admin_pages.start_page",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SITE_DROPDOWN": [{"icon": "arrow_back", "title": "Back to the jobs", "link": "/"}],
    "SIDEBAR": {
        "show_search": True,
        "show_all_applications": False,
        "navigation": [
            {
                "items": [
                    _item("Back to the jobs", "arrow_back", "/"),
                    _item("Insights", "insights", "/insights"),
                    _item("Predictions", "target", "/predictions"),
                    _item("Start", "home", "index"),
                    _item("Help", "help", "/docs"),
                ]
            },
            _section(
                "People",
                ("Organisations", "account_tree", "tenants_organisation_changelist"),
                ("Tenants", "groups", "tenants_tenant_changelist"),
                ("Virtual clusters", "pie_chart", "tenants_virtualcluster_changelist"),
                ("Registries", "inventory_2", "tenants_registrycredentials_changelist"),
                ("Volumes", "hard_drive", "tenants_volume_changelist"),
                ("Users", "person", "accounts_user_changelist"),
                ("API tokens", "key", "accounts_apitoken_changelist"),
                ("Webhooks", "webhook", "notices_webhook_changelist"),
            ),
            _section(
                "Machines",
                ("Pools", "workspaces", "fleet_pool_changelist"),
                ("Screening", "filter_alt", "screening_poolscreening_changelist"),
                ("Nodes", "dns", "fleet_node_changelist"),
                ("Servers over SSH", "cable", "links_server_changelist"),
                ("GPUs", "memory", "fleet_gpu_changelist"),
                ("Maintenance", "construction", "fleet_maintenance_changelist"),
                ("Health of GPUs", "monitor_heart", "fleet_healthreport_changelist"),
                ("Strikes", "thumb_down", "fleet_strike_changelist"),
            ),
            _section(
                "Work",
                ("Jobs", "play_circle", "jobs_job_changelist"),
                ("Sweeps and arrays", "grain", "jobs_jobgroup_changelist"),
                ("Attempts", "replay", "jobs_attempt_changelist"),
                ("Allocations", "splitscreen", "jobs_allocation_changelist"),
                ("Screening runs", "labs", "screening_screeningresult_changelist"),
                ("Slurm's words", "translate", "sbatch_slurmtable_changelist"),
                ("Rules for failures", "rule", "failures_rulebook_changelist"),
                ("Unknown failures", "question_mark", "failures_unknown"),
                ("Rules for logs", "receipt_long", "failures_logrulebook_changelist"),
                ("Shells", "terminal", "shells_shell_changelist"),
                ("Scheduling cycles", "cycle", "dispatch_cycle_changelist"),
                ("Planners", "call_split", "dispatch_planner_changelist"),
                ("Lanes", "alt_route", "dispatch_lane_changelist"),
                ("Targets", "flag", "dispatch_target_changelist"),
                ("Roles", "handshake", "offers_role_changelist"),
                ("Frameworks", "hub", "offers_framework_changelist"),
                ("Offers", "sell", "offers_offer_changelist"),
            ),
            _section(
                "Record",
                ("Events", "timeline", "events_event_changelist"),
                ("Audit log", "policy", "events_auditentry_changelist"),
                ("Outbox", "outbox", "events_outbox_changelist"),
                ("Restores", "settings_backup_restore", "events_restore_changelist"),
            ),
        ],
    },
}
