from __future__ import annotations

from django.apps import AppConfig


class LinksConfig(AppConfig):
    name = "muster.links"
    verbose_name = "Servers over SSH"
