"""The Django app that carries the commands `manage.py up` and `manage.py demo`."""

from __future__ import annotations

from django.apps import AppConfig


class LocalConfig(AppConfig):
    """It has no models; it exists for its commands."""

    name = "muster.local"
    verbose_name = "Embedded services"
