from __future__ import annotations

from django.apps import AppConfig


class NoticesConfig(AppConfig):
    name = "muster.notices"
    verbose_name = "Notices"
