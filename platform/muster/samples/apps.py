from __future__ import annotations

from django.apps import AppConfig


class SamplesConfig(AppConfig):
    name = "muster.samples"
    label = "samples"
    verbose_name = "Samples"
