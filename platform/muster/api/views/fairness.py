"""Finish-time fairness: what sharing a pool cost."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.render.fairness import job_fairness
from muster.api.shapes.fairness import JobFairness
from muster.api.views.base import ApiView, caller, describe
from muster.jobs.selectors import get_job
from muster.usage.finish_times import fairness_of


class FairnessOfJob(ApiView):
    """How much longer a job takes than alone."""

    @describe("get_job_fairness", tag="jobs", answers={200: JobFairness}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """The final figures of a job that has ended; of another one as it stands now, if its run time is expected."""
        return Response(job_fairness(fairness_of(get_job(caller(request), job_id))))
