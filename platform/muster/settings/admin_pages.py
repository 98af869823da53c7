"""How the admin looks: its name and its navigation."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy


def _item(title: str, icon: str, model: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse_lazy(f"admin:{model}_changelist")}


def _act(title: str, icon: str, link: Any, explanation: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": link, "explanation": explanation}


START = [
    _act("Add a node", "dns", reverse_lazy("admin:fleet_node_add"), "Name it, and get its join token."),
    _act(
        "Add a tenant",
        "groups",
        reverse_lazy("admin:tenants_tenant_add"),
        "With its virtual cluster, quotas and members.",
    ),
    _act("Add a user", "person_add", reverse_lazy("admin:accounts_user_add"), "A person or another operator."),
    _act(
        "Change a quota",
        "pie_chart",
        reverse_lazy("admin:tenants_virtualcluster_changelist"),
        "How many GPUs a virtual cluster may hold.",
    ),
    _act(
        "Drain a node",
        "construction",
        reverse_lazy("admin:fleet_node_changelist"),
        "Select nodes and an action; or plan a maintenance.",
    ),
    _act("See failed jobs", "error", "/jobs?state=failed", "The newest first, with their causes."),
    _act(
        "Replace a key",
        "key",
        reverse_lazy("admin:accounts_apitoken_changelist"),
        "Revoke API tokens here. The platform's own keys: manage.py rotate_keys.",
    ),
    _act(
        "Read the audit log",
        "policy",
        reverse_lazy("admin:events_auditentry_changelist"),
        "Who changed what, when and why.",
    ),
    _act(
        "Choose a policy",
        "workspaces",
        reverse_lazy("admin:fleet_pool_changelist"),
        "How pools schedule, and their timers and limits.",
    ),
    _act(
        "Look at health",
        "monitor_heart",
        reverse_lazy("admin:fleet_healthreport_changelist"),
        "What GPUs reported, by node.",
    ),
]


def start_page(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """The context of the start page: what operators do most."""
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
                    {"title": "Back to the jobs", "icon": "arrow_back", "link": "/"},
                    {"title": "Insights", "icon": "insights", "link": "/insights"},
                    {"title": "Start", "icon": "home", "link": reverse_lazy("admin:index")},
                    {"title": "Help", "icon": "help", "link": "/help"},
                ]
            },
            {
                "title": "People",
                "separator": True,
                "items": [
                    _item("Organisations", "account_tree", "tenants_organisation"),
                    _item("Tenants", "groups", "tenants_tenant"),
                    _item("Virtual clusters", "pie_chart", "tenants_virtualcluster"),
                    _item("Registries", "inventory_2", "tenants_registrycredentials"),
                    _item("Volumes", "hard_drive", "tenants_volume"),
                    _item("Users", "person", "accounts_user"),
                    _item("API tokens", "key", "accounts_apitoken"),
                    _item("Webhooks", "webhook", "notices_webhook"),
                ],
            },
            {
                "title": "Machines",
                "separator": True,
                "items": [
                    _item("Pools", "workspaces", "fleet_pool"),
                    _item("Screening", "filter_alt", "screening_poolscreening"),
                    _item("Nodes", "dns", "fleet_node"),
                    _item("Servers over SSH", "cable", "links_server"),
                    _item("GPUs", "memory", "fleet_gpu"),
                    _item("Maintenance", "construction", "fleet_maintenance"),
                    _item("Health of GPUs", "monitor_heart", "fleet_healthreport"),
                    _item("Strikes", "thumb_down", "fleet_strike"),
                ],
            },
            {
                "title": "Work",
                "separator": True,
                "items": [
                    _item("Jobs", "play_circle", "jobs_job"),
                    _item("Sweeps", "grain", "jobs_jobgroup"),
                    _item("Attempts", "replay", "jobs_attempt"),
                    _item("Allocations", "splitscreen", "jobs_allocation"),
                    _item("Screening runs", "labs", "screening_screeningresult"),
                    _item("Rules for failures", "rule", "failures_rulebook"),
                    {
                        "title": "Unknown failures",
                        "icon": "question_mark",
                        "link": reverse_lazy("admin:failures_unknown"),
                    },
                    _item("Rules for logs", "receipt_long", "failures_logrulebook"),
                    _item("Shells", "terminal", "shells_shell"),
                    _item("Scheduling cycles", "cycle", "dispatch_cycle"),
                    _item("Planners", "call_split", "dispatch_planner"),
                    _item("Lanes", "alt_route", "dispatch_lane"),
                    _item("Targets", "flag", "dispatch_target"),
                    _item("Roles", "handshake", "offers_role"),
                    _item("Frameworks", "hub", "offers_framework"),
                    _item("Offers", "sell", "offers_offer"),
                ],
            },
            {
                "title": "Record",
                "separator": True,
                "items": [
                    _item("Events", "timeline", "events_event"),
                    _item("Audit log", "policy", "events_auditentry"),
                    _item("Outbox", "outbox", "events_outbox"),
                    _item("Restores", "settings_backup_restore", "events_restore"),
                ],
            },
        ],
    },
}
