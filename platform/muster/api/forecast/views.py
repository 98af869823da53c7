"""The scheduler's answers about a job: the reason for its state, and a forecast before it is submitted."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api import limits
from muster.api.base import ApiView, SpecView, caller, describe
from muster.api.forecast.render import dry_run_document
from muster.api.jobs.render import failure
from muster.api.jobs.views import SPEC_BODY
from muster.api.predictions.render import wait_forecast
from muster.dispatch.explain.forecast import dry_run
from muster.dispatch.explain.selectors import why
from muster.jobs.selectors import get_job
from muster.predictions.waits.outlook import outlook_of, outlook_of_draft
from muster_client.answers.forecast import DryRun, Why


class JobWhy(ApiView):
    @describe("explain_job", "jobs", {200: Why}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """The dominant reason, its evidence, and what would help."""
        job = get_job(caller(request), job_id)
        outlook = outlook_of(job)
        return Response(
            why(job, failure=failure(job), wait=wait_forecast(outlook.forecast), wait_unknown=outlook.unknown)
        )


class JobDryRun(SpecView):
    @describe("dry_run_job", "jobs", {200: DryRun}, problems=(404, 429), request=SPEC_BODY)
    def post(self, request: Request) -> Response:
        """Check a spec: whether it fits the quota and the pool, and whether the job would start now.

        For a spec with `sweep` or `array` the answer is about the first member.
        """
        user = caller(request)
        limits.take(limits.SUBMIT, user.pk)
        result = dry_run(user=user, data=request.data)
        return Response(dry_run_document(result, outlook_of_draft(result.job)))
