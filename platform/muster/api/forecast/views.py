"""What the scheduler says of a job: why it is where it is, and what would become of it if it was submitted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api import limits
from muster.api.base import ApiView, caller, describe
from muster.api.bodies import JsonParser, TextYamlParser, YamlParser
from muster.api.jobs.render import failure, gpu_choices, sizes
from muster.api.jobs.views import SPEC_BODY
from muster.dispatch.explain.forecast import dry_run
from muster.dispatch.explain.selectors import why
from muster.jobs.selectors import get_job
from muster.jobs.spec.spec_order import in_order
from muster.jobs.submit.notes import notes_of
from muster_client.answers.forecast import DryRun, Why
from scheduler.model.plan import Hold


class JobWhy(ApiView):
    """Why a job is in its state."""

    @describe("explain_job", tag="jobs", answers={200: Why}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """The dominant reason, its evidence, and what would help."""
        job = get_job(caller(request), job_id)
        return Response({**why(job), "failure": failure(job)})


class JobDryRun(ApiView):
    """What a job would meet."""

    parser_classes = [JsonParser, YamlParser, TextYamlParser]

    @describe("dry_run_job", tag="jobs", answers={200: DryRun}, problems=(404, 413, 415, 422, 429), request=SPEC_BODY)
    def post(self, request: Request) -> Response:
        """Check a spec and tell whether it fits the quota and the pool, and whether it would start now.

        Of a spec with `sweep` the first member is told of.
        """
        user = caller(request)
        limits.take(limits.SUBMIT, user.pk)
        result = dry_run(user=user, data=request.data)
        return Response(
            {
                "valid": True,
                "spec": in_order(result.job.spec),
                "gpu_choices": gpu_choices(result.job),
                "sizes": [
                    told | {"cpus_from": size.cpus_from, "memory_from": size.memory_from}
                    for told, size in zip(sizes(result.job), result.sizes, strict=True)
                ],
                "notes": notes_of(result.job),
                "gpus_total": result.job.gpus_total,
                "feasible": result.feasible,
                "fits_quota": result.fits_quota,
                "starts_now": result.starts_now,
                "hold": _hold(result.hold),
                "position": result.position,
                "screening": {
                    "tried": result.outlook.run is not None,
                    "why": result.outlook.why,
                    "starts_now": None if result.screening is None else result.screening.starts_now,
                    "hold": None if result.screening is None else _hold(result.screening.hold),
                },
                "runtime": asdict(result.runtime),
            }
        )


def _hold(hold: Hold | None) -> dict[str, Any] | None:
    return None if hold is None else {"reason": hold.reason, "detail": hold.detail, "helps": list(hold.helps)}
