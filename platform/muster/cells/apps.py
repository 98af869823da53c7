from __future__ import annotations

from django.apps import AppConfig


class CellsConfig(AppConfig):
    name = "muster.cells"
    verbose_name = "Cells"
