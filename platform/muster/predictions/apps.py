from __future__ import annotations

from django.apps import AppConfig


class PredictionsConfig(AppConfig):
    name = "muster.predictions"

    def ready(self) -> None:
        """Have submissions ask the active model of run times."""
        from muster.jobs.ports import ports  # noqa: PLC0415 (models can be imported from here on)
        from muster.predictions.learned.active import predicted  # noqa: PLC0415

        ports.run_times = predicted
