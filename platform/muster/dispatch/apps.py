from __future__ import annotations

from django.apps import AppConfig


class DispatchConfig(AppConfig):
    name = "muster.dispatch"

    def ready(self) -> None:
        from muster.dispatch.explain.feasibility import why_infeasible  # noqa: PLC0415 (models can be imported from here on)
        from muster.jobs.submit.feasibility import check_feasibility_by  # noqa: PLC0415

        check_feasibility_by(why_infeasible)
