from __future__ import annotations

from django.apps import AppConfig


class CellsConfig(AppConfig):
    name = "muster.cells"
    label = "cells"
    verbose_name = "Cells"
