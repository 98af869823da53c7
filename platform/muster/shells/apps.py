from __future__ import annotations

from django.apps import AppConfig


class ShellsConfig(AppConfig):
    name = "muster.shells"
    verbose_name = "Shells"
