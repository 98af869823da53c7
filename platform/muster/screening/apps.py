from __future__ import annotations

from django.apps import AppConfig


class ScreeningConfig(AppConfig):
    name = "muster.screening"

    def ready(self) -> None:
        from muster.jobs.attempt.screener import screen_by  # noqa: PLC0415 (models can be imported from here on)
        from muster.screening.services import Screening  # noqa: PLC0415

        screen_by(Screening())
