"""How the training of a job goes."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, caller, describe
from muster.api.training.render import job_training
from muster.jobs.selectors import get_job
from muster_client.answers.metrics import JobTraining


class TrainingOfJob(ApiView):
    @describe("get_job_training", "jobs", {200: JobTraining}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """Its newest figures, what its owner was told of its loss, and how often it should save."""
        return Response(job_training(get_job(caller(request), job_id)))
