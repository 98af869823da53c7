from __future__ import annotations

from django.apps import AppConfig


class SamplesConfig(AppConfig):
    name = "muster.samples"

    def ready(self) -> None:
        """Say which attempts have made progress."""
        from muster.jobs.ports import ports  # noqa: PLC0415 (models load after apps)
        from muster.samples.speeds import with_progress  # noqa: PLC0415

        ports.with_progress = with_progress
