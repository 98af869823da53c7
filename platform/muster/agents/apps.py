from __future__ import annotations

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "muster.agents"
    verbose_name = "Agents"
