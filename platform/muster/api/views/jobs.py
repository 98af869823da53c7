"""Jobs: the list, submitting, and what is done with one."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.models import User
from muster.api import limits
from muster.api.bodies import BatchParser, JsonParser, TextYamlParser, YamlParser
from muster.api.pages import decode_cursor, encode_cursor
from muster.api.problems import problem_of
from muster.api.render.jobs import for_list, job_document, job_list
from muster.api.shapes.jobs import SPEC, Batch, BatchAnswer, Job, JobEdit, JobFilter, JobPage
from muster.api.views.base import ApiView, caller, checked, describe, job_to_change, known_of
from muster.common.errors import Invalid, unknown_key
from muster.jobs import services
from muster.jobs.models import Job as JobRow
from muster.jobs.selectors import get_job, visible_jobs

SPEC_BODY = {
    "application/json": SPEC,
    "application/yaml": {"type": "string", "description": "The same spec as YAML."},
    "text/yaml": {"type": "string", "description": "The same spec as YAML."},
}
KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="Sending the same body with the same key again answers the same and stores nothing. Kept for 7 days.",
)
BODY_PROBLEMS = (404, 409, 413, 415, 422, 429)
_LARGEST_ID_DIGITS = 18


class Jobs(ApiView):
    """The jobs of the caller's tenants."""

    parser_classes = [JsonParser, YamlParser, TextYamlParser]

    @describe("list_jobs", tag="jobs", answers={200: JobPage}, problems=(422,), parameters=[JobFilter])
    def get(self, request: Request) -> Response:
        """A page of jobs, newest first."""
        user, query = caller(request), _read_filter(request)
        jobs = _filtered(visible_jobs(user), user, query)
        limit = query["limit"]
        # One row more than asked for tells whether there is a next page.
        rows = list(for_list(jobs).order_by("-id")[: limit + 1])
        more = len(rows) > limit
        page = rows[:limit]
        return Response({"results": job_list(page), "next": encode_cursor(page[-1].pk) if more else None})

    @describe(
        "submit_job",
        tag="jobs",
        answers={200: Job, 201: Job},
        problems=BODY_PROBLEMS,
        request=SPEC_BODY,
        parameters=[KEY],
    )
    def post(self, request: Request) -> Response:
        """Submit a job: 201, or 200 if the key shows that it was submitted before."""
        user = caller(request)
        limits.take(limits.SUBMIT, user.pk)
        job, created = services.submit_job(user=user, data=request.data, idempotency_key=_key(request))
        return Response(job_document(job), status=status.HTTP_201_CREATED if created else status.HTTP_200_OK)


class JobBatch(ApiView):
    """Many jobs in one request."""

    parser_classes = [BatchParser]

    @describe(
        "submit_batch",
        tag="jobs",
        answers={201: BatchAnswer},
        problems=BODY_PROBLEMS,
        request=Batch,
        parameters=[KEY],
    )
    def post(self, request: Request) -> Response:
        """Submit up to 1,000 jobs: the valid ones are stored together, the others are answered with their problems."""
        user = caller(request)
        body = request.data
        items = body.get("jobs") if isinstance(body, dict) else None
        if not isinstance(items, list):
            raise Invalid.field("jobs", "send a list of specs")
        for key in sorted(set(body) - {"jobs"}):
            raise Invalid.field(key[:100], unknown_key(key, ["jobs"]))
        limits.take(limits.SUBMIT, user.pk, cost=max(1, min(len(items), services.MOST_IN_A_BATCH)))
        result = services.submit_batch(user=user, items=items, idempotency_key=_key(request))
        errors = [{"index": index, "problem": problem_of(error)} for index, error in result.errors]
        return Response({"jobs": job_list(result.jobs), "errors": errors}, status=status.HTTP_201_CREATED)


class OneJob(ApiView):
    """One job."""

    @describe("get_job", tag="jobs", answers={200: Job}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """The job with its spec."""
        return Response(job_document(get_job(caller(request), job_id)))

    @describe(
        "edit_job",
        tag="jobs",
        answers={200: Job},
        problems=(403, 404, 409, 413, 415, 422),
        request=JobEdit,
    )
    def patch(self, request: Request, job_id: int) -> Response:
        """Change the name, priority, time or tags."""
        user = caller(request)
        job = job_to_change(request, job_id)
        if not isinstance(request.data, dict):
            raise Invalid("the body must be an object")
        return Response(job_document(services.edit_job(user=user, job=job, changes=request.data)))


class _JobAct(ApiView):
    """Something done with one job, without a body."""

    parser_classes = []


class CancelJob(_JobAct):
    """Stopping a job for good."""

    @describe("cancel_job", tag="jobs", answers={202: Job}, problems=(403, 404, 409), request=None)
    def post(self, request: Request, job_id: int) -> Response:
        """Cancel the job; its processes get their grace, so it may take a while to end."""
        user = caller(request)
        job = services.cancel_job(user=user, job=job_to_change(request, job_id))
        return Response(job_document(job), status=status.HTTP_202_ACCEPTED)


class RequeueJob(_JobAct):
    """Stopping a job's attempt and queueing it again."""

    @describe("requeue_job", tag="jobs", answers={202: Job}, problems=(403, 404, 409), request=None)
    def post(self, request: Request, job_id: int) -> Response:
        """Put the job back into the queue; a finished one is a conflict."""
        user = caller(request)
        job = services.requeue_job(user=user, job=job_to_change(request, job_id))
        return Response(job_document(job), status=status.HTTP_202_ACCEPTED)


class CloneJob(_JobAct):
    """Running a job's spec once more."""

    @describe("clone_job", tag="jobs", answers={201: Job}, problems=(403, 404, 409, 422, 429), request=None)
    def post(self, request: Request, job_id: int) -> Response:
        """Submit a new job of the caller's with the same spec."""
        user = caller(request)
        source = get_job(user, job_id)
        limits.take(limits.SUBMIT, user.pk)
        job = services.clone_job(user=user, job=source)
        return Response(job_document(job), status=status.HTTP_201_CREATED)


def _key(request: Request) -> str | None:
    return request.headers.get("Idempotency-Key")


def _read_filter(request: Request) -> dict[str, Any]:
    params = request.query_params
    data: dict[str, Any] = params.dict()
    if "state" in params:
        data["state"] = [word for part in params.getlist("state") for word in part.split(",") if word]
    if "tag" in params:
        data["tag"] = params.getlist("tag")
    return checked(JobFilter, known_of(JobFilter, data))


def _filtered(jobs: QuerySet[JobRow], user: User, query: dict[str, Any]) -> QuerySet[JobRow]:
    exact = {"vc": "vc__name", "owner": "owner__username", "tenant": "tenant__name"}
    jobs = jobs.filter(**{column: query[name] for name, column in exact.items() if name in query})
    if query.get("state"):
        jobs = jobs.filter(state__in=query["state"])
    for tag in query.get("tag", ()):
        key, _, value = tag.partition(":")
        jobs = jobs.filter(tags__contains={key: value})
    if "search" in query:
        text = query["search"]
        found = Q(name__icontains=text)
        if text.isascii() and text.isdigit() and len(text) <= _LARGEST_ID_DIGITS:
            found |= Q(pk=int(text))
        jobs = jobs.filter(found)
    if query.get("mine"):
        jobs = jobs.filter(owner=user)
    if "cursor" in query:
        jobs = jobs.filter(pk__lt=decode_cursor(query["cursor"])[0])
    return jobs
