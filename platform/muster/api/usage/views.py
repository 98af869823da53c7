"""GPU-hours and delays: by whom, on what, for what, and what of them was wasted."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import CSV, ApiView, caller, describe, query_of
from muster.api.usage import render
from muster.api.usage.bodies import DelaysFilter, DelayUsageFilter, LeastEfficientFilter, PeriodFilter, UsageFilter
from muster.common.clock import utc_now
from muster.common.errors import NotFound
from muster.jobs.selectors import get_job
from muster.tenants.selectors import virtual_clusters_of
from muster.usage.delays import DelayBy, delays, parse_delays_by, waits_of
from muster.usage.efficiency import graded, least_efficient
from muster.usage.periods import Period, period_of
from muster.usage.scope import Asked, Scope, scope_of
from muster.usage.selectors import parse_by, usage
from muster.usage.waste import waste
from muster_client.answers.usage import Delays, DelayUsage, JobDelays, LeastEfficientList, Usage, Waste


class UsageOfGpus(ApiView):
    @describe("get_usage", "usage", {200: Usage}, parameters=[UsageFilter], tables=(200,))
    def get(self, request: Request) -> Any:
        """GPU-hours by the chosen columns: the caller's own; the whole tenant's for its managers; all for operators."""
        query = query_of(request, UsageFilter)
        period, scope = asked(request, query)
        by = parse_by(query["by"])
        total, rows = usage(period, scope, by)
        if query.get("format", accepted(request)) == "csv":
            return table("usage.csv", render.usage_csv(by, rows))
        return Response(render.usage_document(period, by, total, rows))


class WasteOfGpus(ApiView):
    @describe("get_waste", "usage", {200: Waste}, parameters=[PeriodFilter])
    def get(self, request: Request) -> Response:
        """GPU-hours by outcome, state and class of failure, and those of retries."""
        period, scope = asked(request, query_of(request, PeriodFilter))
        return Response(render.waste_document(period, waste(period, scope)))


class DelayUsageOfJobs(ApiView):
    @describe("get_delays", "usage", {200: DelayUsage}, parameters=[DelayUsageFilter])
    def get(self, request: Request) -> Response:
        """Mean waits for a start by their delays: of the caller's own jobs; the whole tenant's for its managers."""
        query = query_of(request, DelayUsageFilter)
        period, scope = asked(request, query)
        by = parse_delays_by(query["by"])
        total, rows = delays(period, scope, by, waiting=query.get("to") is None)
        return Response(render.delays_document(period, by, total, rows))


class LeastEfficientJobs(ApiView):
    @describe("list_least_efficient", "usage", {200: LeastEfficientList}, parameters=[LeastEfficientFilter])
    def get(self, request: Request) -> Response:
        """Runs that ended in the period, the most idle GPU time first."""
        query = query_of(request, LeastEfficientFilter)
        period, scope = asked(request, query)
        rows = least_efficient(period, scope, most=query["limit"])
        return Response(render.least_efficient_document(period, graded(period, scope), rows))


def asked(request: Request, query: dict[str, Any]) -> tuple[Period, Scope]:
    """The period that is asked for, and what the caller may see of whom they ask for."""
    period = period_of(start=query.get("from"), end=query.get("to"), since=query.get("since"), now=utc_now())
    narrowed = Asked(tenant=query.get("tenant", ""), vc=query.get("vc", ""), user=query.get("user", ""))
    return period, scope_of(caller(request), narrowed)


def table(name: str, text: str) -> HttpResponse:
    """A CSV file."""
    answer = HttpResponse(text, content_type=f"{CSV}; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def accepted(request: Request) -> str:
    """The format that the header Accept asks for: CSV if it names that and no JSON."""
    accepted = request.headers.get("Accept", "")
    return "csv" if CSV in accepted and "application/json" not in accepted else "json"


class DelaysOfJob(ApiView):
    @describe("get_job_delays", "jobs", {200: JobDelays}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """The waits of the job before each of its attempts, by their delays, and the present one if it waits."""
        job = get_job(caller(request), job_id)
        return Response(render.job_delays_document(job, waits_of(job, utc_now())))


class DelaysOfVirtualCluster(ApiView):
    @describe("get_virtual_cluster_delays", "cluster", {200: Delays}, problems=(404,), parameters=[DelaysFilter])
    def get(self, request: Request, vc_id: int) -> Response:
        """The mean wait of its started and waiting jobs, by day or week; for members of its tenant."""
        vc = virtual_clusters_of(caller(request)).filter(pk=vc_id).first()
        if vc is None:
            raise NotFound(f"there is no virtual cluster {vc_id}")
        query = query_of(request, DelaysFilter)
        now = utc_now()
        period = period_of(start=query.get("from"), end=query.get("to"), since=query.get("since"), now=now)
        by = DelayBy(query["by"])
        _, rows = delays(period, Scope(None, Asked(vc=vc.name)), [by], waiting=period.end == now)
        answer: Delays = {
            **render.period_document(period),
            "by": query["by"],
            "results": [{"begins": str(render.delay_value(row, by)), **render.delay_figures(row)} for row in rows],
        }
        return Response(answer)
