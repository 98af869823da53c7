from __future__ import annotations

from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "muster.monitoring"
    label = "monitoring"
    verbose_name = "Monitoring of jobs"
