"""Predictions, and how they compare with what came true."""

from __future__ import annotations

from datetime import timedelta

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, caller, describe, query_of
from muster.api.policies.views import pool_named
from muster.api.predictions.bodies import WaitsFilter
from muster.api.predictions.render import calibration_document, when_document
from muster.common.clock import database_now, utc_now
from muster.common.errors import NotFound
from muster.jobs.selectors import get_job
from muster.predictions.waits.calibration import waits_of, worst_misses
from muster.predictions.waits.drift import drift_of
from muster.predictions.waits.forecasts import active_model
from muster.predictions.waits.outlook import start_of, why_unknown
from muster.tenants.selectors import virtual_clusters_of
from muster_client.answers.forecast import WaitCalibration, When


class JobWhen(ApiView):
    @describe("get_job_start", "jobs", {200: When}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """When the job will start and how sure that is, beside the forecast as of its submission; or when it started.

        The wait counts from the moment at which the job may start, and ends when it gets its GPUs, after its screening
        run if it has one.
        """
        return Response(when_document(start_of(get_job(caller(request), job_id)), database_now()))


class WaitsOfPool(ApiView):
    @describe("get_waits", "cluster", {200: WaitCalibration}, problems=(404,), parameters=[WaitsFilter])
    def get(self, request: Request) -> Response:
        """Forecasts of waits held against the waits, by week, for operators and members with a virtual cluster in the
        pool."""
        user, query = caller(request), query_of(request, WaitsFilter)
        pool = pool_named(query["pool"])
        if not user.is_operator and not virtual_clusters_of(user).filter(pool=pool).exists():
            raise NotFound(f"there is no pool {pool.name}")
        waits = waits_of(pool.pk, utc_now() - timedelta(weeks=query["weeks"]))
        return Response(
            calibration_document(
                pool.name,
                waits,
                unknown=why_unknown(pool.pk),
                worst=worst_misses(waits, user),
                drift=drift_of(pool.pk),
                model=active_model(pool.pk),
            )
        )
