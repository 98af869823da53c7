from __future__ import annotations

from django.apps import AppConfig


class LinksConfig(AppConfig):
    name = "muster.links"
    label = "links"
    verbose_name = "Servers over SSH"
