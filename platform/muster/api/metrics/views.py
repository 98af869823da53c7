"""Samples of jobs and nodes over time, and the training metrics of a job."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, caller, describe, query_of
from muster.api.metrics import render
from muster.api.metrics.bodies import JobMetricsFilter, MetricsFilter
from muster.common.clock import utc_now
from muster.common.rows import require_first
from muster.fleet.models import Node
from muster.jobs.selectors import get_job
from muster.logs.selectors import attempt_of
from muster.samples.families import GPU
from muster.samples.selectors import Window, window_of
from muster_client.answers.metrics import JobMetrics, JobTraining, NodeMetrics

_AN_HOUR = timedelta(hours=1)
_A_STEP = timedelta(seconds=GPU.levels[0].seconds)


class MetricsOfJob(ApiView):
    @describe("get_job_metrics", "jobs", {200: JobMetrics}, problems=(404,), parameters=[JobMetricsFilter])
    def get(self, request: Request, job_id: int) -> Response:
        """Utilisation, memory, power and more of each GPU, and each rank's use of its host."""
        job = get_job(caller(request), job_id)
        query = query_of(request, JobMetricsFilter)
        attempt = attempt_of(job, query.get("attempt"))
        now = utc_now()
        start, end = (attempt.placed_at, attempt.ended_at or now) if attempt else (now - _AN_HOUR, now)
        # An attempt that was placed in this moment, or whose samples are forgotten, still has a window.
        start = max(min(start, now - _A_STEP), now - GPU.levels[-1].kept_for)
        window = _window(query, start=start, end=max(end, start + _A_STEP), now=now)
        return Response(render.job_metrics(attempt, window))


class MetricsOfNode(ApiView):
    @describe("get_node_metrics", "cluster", {200: NodeMetrics}, problems=(404,), parameters=[MetricsFilter])
    def get(self, request: Request, name: str) -> Response:
        """Utilisation, memory, power and more of each GPU, and processors and memory of the node."""
        node = require_first(Node.objects.filter(name=name), f"there is no node {name}")
        query = query_of(request, MetricsFilter)
        now = utc_now()
        end = min(max(query.get("to", now), now - GPU.levels[-1].kept_for), now)
        return Response(render.node_metrics(node, _window(query, start=end - _AN_HOUR, end=end, now=now)))


def _window(query: dict[str, Any], *, start: datetime, end: datetime, now: datetime) -> Window:
    """The window that is asked for, with `start` and `end` as the defaults."""
    return window_of(GPU, start=query.get("from", start), end=query.get("to", end), step_s=query["step"], now=now)


class TrainingOfJob(ApiView):
    @describe("get_job_training", "jobs", {200: JobTraining}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """Its newest figures, the advice about its loss, and the recommended interval between checkpoints."""
        return Response(render.job_training(get_job(caller(request), job_id)))
