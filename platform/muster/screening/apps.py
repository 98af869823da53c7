from __future__ import annotations

from django.apps import AppConfig


class ScreeningConfig(AppConfig):
    name = "muster.screening"

    def ready(self) -> None:
        from muster.jobs.ports import ports  # noqa: PLC0415 (models can be imported from here on)
        from muster.screening.services import Screening  # noqa: PLC0415

        ports.screener = Screening()
