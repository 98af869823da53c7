from __future__ import annotations

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "muster.api"
    verbose_name = "REST API"

    def ready(self) -> None:
        """Register the system checks, and how answers come into the OpenAPI document."""
        from muster.api import checks  # noqa: F401, PLC0415  (Django's settings are ready only now)
        from muster.api.openapi import answers  # noqa: F401, PLC0415  (Django's settings are ready only now)
