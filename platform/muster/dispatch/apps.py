from __future__ import annotations

from django.apps import AppConfig


class DispatchConfig(AppConfig):
    name = "muster.dispatch"

    def ready(self) -> None:
        from muster.dispatch.config.plugins import has_cells  # noqa: PLC0415
        from muster.dispatch.explain.feasibility import why_infeasible  # noqa: PLC0415 (models can be imported from here on)
        from muster.jobs.ports import ports  # noqa: PLC0415
        from muster.tenants.ports import ports as tenant_ports  # noqa: PLC0415

        ports.why_infeasible = why_infeasible
        tenant_ports.has_cells = has_cells
