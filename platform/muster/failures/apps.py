from __future__ import annotations

from django.apps import AppConfig


class FailuresConfig(AppConfig):
    name = "muster.failures"

    def ready(self) -> None:
        from muster.failures.selectors import rules_in_force  # noqa: PLC0415 (models can be imported from here on)
        from muster.jobs.ports import ports  # noqa: PLC0415

        ports.failure_rules = rules_in_force
