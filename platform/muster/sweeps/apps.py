from __future__ import annotations

from django.apps import AppConfig


class SweepsConfig(AppConfig):
    name = "muster.sweeps"
    verbose_name = "Sweeps"
