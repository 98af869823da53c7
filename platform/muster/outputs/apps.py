from __future__ import annotations

from django.apps import AppConfig


class OutputsConfig(AppConfig):
    name = "muster.outputs"
    verbose_name = "Outputs"
