from __future__ import annotations

from django.apps import AppConfig


class IdleConfig(AppConfig):
    name = "muster.idle"
    label = "idle"
    verbose_name = "Idle jobs"
