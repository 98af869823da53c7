"""The app of the served documents."""

from __future__ import annotations

from django.apps import AppConfig


class HelpConfig(AppConfig):
    """Documents as pages."""

    name = "muster.help"
    verbose_name = "Help"
