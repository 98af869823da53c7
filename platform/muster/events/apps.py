from __future__ import annotations

from django.apps import AppConfig

from muster.events.labels import label_columns


class EventsConfig(AppConfig):
    name = "muster.events"

    def ready(self) -> None:
        """Label the columns of all apps, whose models are loaded by now."""
        label_columns()
