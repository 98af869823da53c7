"""The Django app that carries the commands `manage.py up` and `manage.py demo`."""

from __future__ import annotations

from django.apps import AppConfig


class LocalConfig(AppConfig):
    name = "muster.local"
    verbose_name = "Embedded services"
