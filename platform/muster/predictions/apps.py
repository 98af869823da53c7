from __future__ import annotations

from django.apps import AppConfig


class PredictionsConfig(AppConfig):
    name = "muster.predictions"
