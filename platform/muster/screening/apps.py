from __future__ import annotations

from django.apps import AppConfig


class ScreeningConfig(AppConfig):
    name = "muster.screening"
    label = "screening"
    verbose_name = "Screening"
