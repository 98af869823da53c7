from __future__ import annotations

from django.apps import AppConfig


class LogsConfig(AppConfig):
    name = "muster.logs"
    verbose_name = "Logs"
