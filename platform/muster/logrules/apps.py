from __future__ import annotations

from django.apps import AppConfig


class LogRulesConfig(AppConfig):
    name = "muster.logrules"
    label = "logrules"
    verbose_name = "Rules for logs"
