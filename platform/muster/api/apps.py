from __future__ import annotations

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "muster.api"
    label = "api"
    verbose_name = "REST API"
