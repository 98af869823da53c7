"""How the admin looks: its name and its navigation."""

from __future__ import annotations

from typing import Any

from django.urls import reverse_lazy


def _item(title: str, icon: str, model: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse_lazy(f"admin:{model}_changelist")}


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Muster",
    "SITE_HEADER": "Muster",
    "SITE_SUBHEADER": "For operators",
    "SITE_URL": "/",
    "SITE_SYMBOL": "grid_view",
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
                ]
            },
            {
                "title": "People",
                "separator": True,
                "items": [
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
                    _item("Attempts", "replay", "jobs_attempt"),
                    _item("Allocations", "splitscreen", "jobs_allocation"),
                    _item("Trials", "labs", "screening_trial"),
                    _item("Rules for failures", "rule", "failures_rulebook"),
                    {
                        "title": "Unknown failures",
                        "icon": "question_mark",
                        "link": reverse_lazy("admin:failures_unknown"),
                    },
                    _item("Scheduling cycles", "cycle", "dispatch_cycle"),
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
                ],
            },
        ],
    },
}
