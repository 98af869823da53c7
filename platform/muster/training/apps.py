from __future__ import annotations

from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "muster.training"
    label = "training"
    verbose_name = "Training"
