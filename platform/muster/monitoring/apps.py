from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "muster.monitoring"
    verbose_name = "Monitoring of jobs"
