"""How long the jobs of a virtual cluster waited, and for what."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, caller, describe, query_of
from muster.api.delays.bodies import DelaysFilter
from muster.api.usage.render import period_document
from muster.common.clock import utc_now
from muster.common.errors import NotFound
from muster.tenants.selectors import virtual_clusters_of
from muster.usage.delays import delays_of
from muster.usage.dimensions import By
from muster.usage.periods import period_of
from muster_client.answers.usage import Delays, DelaysRow


class DelaysOfVirtualCluster(ApiView):
    @describe("get_virtual_cluster_delays", "cluster", {200: Delays}, problems=(404,), parameters=[DelaysFilter])
    def get(self, request: Request, vc_id: int) -> Response:
        """The mean wait of all its jobs that started or wait still, by day or week; for members of its tenant."""
        if not virtual_clusters_of(caller(request)).filter(pk=vc_id).exists():
            raise NotFound(f"there is no virtual cluster {vc_id}")
        query = query_of(request, DelaysFilter)
        now = utc_now()
        period = period_of(start=query.get("from"), end=query.get("to"), since=query.get("since"), now=now)
        rows = delays_of(vc_id, period, By(query["by"]), waiting=period.end == now)
        results: list[DelaysRow] = [
            {
                "begins": row.begins.date().isoformat(),
                "starts": row.starts,
                "waiting": row.waiting,
                "fair_share_s": round(row.fair_share_s, 3),
                "fragmentation_s": round(row.fragmentation_s, 3),
                "other_s": round(row.other_s, 3),
            }
            for row in rows
        ]
        answer: Delays = {**period_document(period), "by": query["by"], "results": results}
        return Response(answer)
