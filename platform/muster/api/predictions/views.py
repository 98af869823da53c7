"""Predictions, and how they compare with what came true."""

from __future__ import annotations

from datetime import timedelta

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, caller, describe, query_of
from muster.api.policies.views import pool_named
from muster.api.predictions.bodies import WaitsFilter, WeeksFilter
from muster.api.predictions.render import calibration_document, when_document
from muster.api.predictions.run_times import run_times_document
from muster.common.clock import database_now, utc_now
from muster.common.errors import NotFound
from muster.jobs.selectors import get_job
from muster.predictions import run_times
from muster.predictions.waits.calibration import waits_of, worst_misses
from muster.predictions.waits.drift import drift_of
from muster.predictions.waits.forecasts import active_model
from muster.predictions.waits.outlook import start_of, why_unknown
from muster.tenants.selectors import virtual_clusters_of
from muster.usage.scope import Asked, scope_of
from muster_client.answers.forecast import RunTimeRecord, WaitCalibration, When


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


class RunTimes(ApiView):
    @describe("get_run_times", "cluster", {200: RunTimeRecord}, parameters=[WeeksFilter])
    def get(self, request: Request) -> Response:
        """Expected run times held against those of the jobs that ended, by week; and how right owners' own are.

        Of the jobs that a report of usage counts for you: all of them for operators, those of their tenants for
        managers, your own else.
        """
        user, query = caller(request), query_of(request, WeeksFilter)
        record = run_times.run_time_record(
            scope_of(user, Asked()), run_times.first_week(database_now(), query["weeks"])
        )
        return Response(run_times_document(record, run_times.active_model()))
