"""Cells: what a pool has, what its virtual clusters have of it, and changing that."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, body_of, caller, describe, operator
from muster.api.cells import bodies
from muster.api.cells.render import cells_preview, pool_cells, vc_cells
from muster.api.policies.views import pool_named
from muster.common.errors import NotFound
from muster.common.rows import require_first
from muster.dispatch.explain.cells import cells_now, preview, set_cells
from muster.tenants.models import VirtualCluster
from muster.tenants.selectors import virtual_clusters_of
from muster_client.answers import cells as answers


class CellsOfPool(ApiView):
    @describe("get_pool_cells", "cluster", {200: answers.PoolCells}, problems=(404, 409))
    def get(self, request: Request, name: str) -> Response:
        """The physical cells and their content, for operators and for members with a virtual cluster in the pool."""
        user = caller(request)
        pool = pool_named(name)
        visible = virtual_clusters_of(user).filter(pool=pool)
        if not user.is_operator and not visible.exists():
            raise NotFound(f"there is no pool {name}")
        names = set(visible.values_list("name", flat=True))
        return Response(pool_cells(cells_now(pool), measured=not pool.admission_params.get("cluster"), visible=names))


class CellsOfVirtualCluster(ApiView):
    @describe("get_vc_cells", "cluster", {200: answers.VcCells}, problems=(404, 409))
    def get(self, request: Request, vc_id: int) -> Response:
        """Its virtual cells, the physical cells behind them, and the jobs in them."""
        vc = _visible(request, vc_id)
        return Response(vc_cells(vc, cells_now(vc.pool)))

    @describe("set_vc_cells", "cluster", {200: answers.VcCells}, problems=(404, 409), request=bodies.CellsChange)
    def put(self, request: Request, vc_id: int) -> Response:
        """Replace its cells. Running jobs go on; a job whose cell is gone becomes opportunistic."""
        vc = _changeable(request, vc_id)
        body = body_of(request, bodies.CellsChange)
        vc = set_cells(
            vc=vc,
            version=body["version"],
            cells=body.get("cells", {}),
            pinned=body.get("pinned", ()),
            actor=caller(request).username,
        )
        return Response(vc_cells(vc, cells_now(vc.pool)))


class PreviewOfCells(ApiView):
    @describe(
        "preview_vc_cells", "cluster", {200: answers.CellsPreview}, problems=(404, 409), request=bodies.CellsWanted
    )
    def post(self, request: Request, vc_id: int) -> Response:
        """Check whether these cells fit beside those of other virtual clusters; list jobs that would lose theirs."""
        vc = _changeable(request, vc_id)
        body = body_of(request, bodies.CellsWanted)
        return Response(cells_preview(preview(vc=vc, cells=body.get("cells", {}), pinned=body.get("pinned", ()))))


def _visible(request: Request, vc_id: int) -> VirtualCluster:
    rows = virtual_clusters_of(caller(request)).select_related("pool").filter(pk=vc_id)
    return require_first(rows, f"there is no virtual cluster {vc_id}")


def _changeable(request: Request, vc_id: int) -> VirtualCluster:
    vc = _visible(request, vc_id)
    operator(request, "change cells")
    return vc
