"""Jobs: the list, submitting, and what is done with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.models import User
from muster.accounts.scopes import Scope
from muster.api import limits
from muster.api.base import Act, ApiView, SpecView, body_of, caller, checked, describe, job_to_change
from muster.api.bodies import BatchParser
from muster.api.jobs.bodies import SPEC, Batch, CancelSelector, CloneChanges, JobEdit, JobFilter, JobSelector
from muster.api.jobs.render import finish, for_list, job_document, job_list, submitted_document, submitted_list
from muster.api.pages import decode_cursor, encode_cursor
from muster.api.problems import problem_of
from muster.api.scopes import token_of
from muster.common.errors import Invalid, unknown_key
from muster.dispatch.explain.finish import finish_by_type
from muster.jobs import services
from muster.jobs.models import Job as JobRow
from muster.jobs.selectors import cancellable_jobs, count_jobs, get_job, matching_jobs, search_rank
from muster.jobs.submit.notes import notes_of
from muster.sweeps.retry import retry_member
from muster_client.answers.jobs import BatchAnswer, CancelAnswer, Job, JobCount, JobPage, SubmittedJob
from scheduler.model.lifecycle import JOB_TERMINAL

_AS_YAML = {"type": "string", "description": "The same spec as YAML."}
SPEC_BODY = {"application/json": SPEC, "application/yaml": _AS_YAML, "text/yaml": _AS_YAML}
KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="Sending the same body with the same key again answers the same and stores nothing. Kept for 7 days.",
)
SUBMIT_PROBLEMS = (404, 409, 429)


class Jobs(SpecView):
    @describe("list_jobs", "jobs", {200: JobPage}, parameters=[JobFilter])
    def get(self, request: Request) -> Response:
        """A page of jobs, newest first; with `group` its members in the order of their numbers.

        With `members=false` one row stands for each group, such as a sweep.
        """
        query = _selection_of(request, JobFilter)
        page = {name: query.pop(name) for name in ("limit", "cursor") if name in query}
        rows, following = _page_of(matching_jobs(caller(request), **query), query | page)
        return Response(JobPage(results=job_list(rows, collapsed=not query["members"]), next=following))

    @describe(
        "submit_job",
        "jobs",
        {200: SubmittedJob, 201: SubmittedJob},
        problems=SUBMIT_PROBLEMS,
        request=SPEC_BODY,
        parameters=[KEY],
    )
    def post(self, request: Request) -> Response:
        """Submit a job: 201, or 200 if the key shows that it was submitted before."""
        user = caller(request)
        limits.take(limits.SUBMIT, user.pk)
        job, created = services.submit_job(user=user, data=request.data, idempotency_key=idempotency_key(request))
        if not created:
            # As the job is now, but for its place, which the first answer left out.
            return Response(_with_warnings(job, {**job_document(job), "position": None}))
        return Response(_with_warnings(job, submitted_document(job)), status=status.HTTP_201_CREATED)


class JobCounts(ApiView):
    @describe("count_jobs", "jobs", {200: JobCount}, parameters=[JobSelector])
    def get(self, request: Request) -> Response:
        """The number of jobs that match, by state, with the GPUs that they ask for."""
        user = caller(request)
        return Response(
            count_jobs(user, matching_jobs(user, **_selection_of(request, JobSelector)), others=_may_manage(request))
        )


class CancelJobs(ApiView):
    @describe("cancel_jobs", "jobs", {202: CancelAnswer}, request=CancelSelector)
    def post(self, request: Request) -> Response:
        """Cancel the jobs that match and that the caller may cancel, up to 1,000 in a request.

        Each job is cancelled in a transaction of its own, queued jobs first, so that none of them starts on the GPUs of
        the others. A job that cannot be cancelled stops no other. Sending the request again is harmless.
        """
        user, selection = caller(request), body_of(request, CancelSelector)
        if not selection:
            raise Invalid("name which jobs: send at least one of " + ", ".join(CancelSelector().fields))
        result = services.cancel_jobs(
            user=user, jobs=cancellable_jobs(user, matching_jobs(user, **selection), others=_may_manage(request))
        )
        answer: CancelAnswer = {
            "cancelled": result.cancelled,
            "refused": [{"id": job_id, "problem": problem_of(error)} for job_id, error in result.refused],
            "remaining": result.remaining,
        }
        return Response(answer, status=status.HTTP_202_ACCEPTED)


class JobBatch(ApiView):
    parser_classes = [BatchParser]

    @describe("submit_batch", "jobs", {201: BatchAnswer}, problems=SUBMIT_PROBLEMS, request=Batch, parameters=[KEY])
    def post(self, request: Request) -> Response:
        """Submit up to 1,000 jobs: the valid ones are stored together, the others are answered with their problems."""
        user = caller(request)
        body = request.data
        items = body.get("jobs") if isinstance(body, dict) else None
        if not isinstance(items, list):
            raise Invalid.field("jobs", "send a list of specs")
        for key in sorted(set(body) - {"jobs"}):
            raise Invalid.field(key[:100], unknown_key(key, ["jobs"]))
        limits.take(limits.SUBMIT, user.pk, cost=max(1, min(len(items), services.MAX_JOBS_PER_BATCH)))
        result = services.submit_batch(user=user, items=items, idempotency_key=idempotency_key(request))
        jobs = submitted_list(result.jobs)
        if not result.created:
            jobs = [{**known, "position": None} for known in job_list(result.jobs)]
        answer: BatchAnswer = {
            "jobs": jobs,
            "errors": [{"index": index, "problem": problem_of(error)} for index, error in result.errors],
        }
        return Response(answer, status=status.HTTP_201_CREATED)


class OneJob(ApiView):
    @describe("get_job", "jobs", {200: Job}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """The job with its spec, and, while it waits, with its finish on each GPU type that it accepts."""
        job = get_job(caller(request), job_id)
        return Response(job_document(job, finish=finish(finish_by_type(job))))

    @describe("edit_job", "jobs", {200: Job}, problems=(404, 409), request=JobEdit)
    def patch(self, request: Request, job_id: int) -> Response:
        """Change the name, priority, time or tags."""
        user = caller(request)
        job = job_to_change(request, job_id)
        if not isinstance(request.data, dict):
            raise Invalid("the body must be an object")
        return Response(job_document(services.edit_job(user=user, job=job, changes=request.data)))


def job_act(operation: str, tag: str, act: Callable[..., JobRow], told: str, *, code: int = 200) -> type[ApiView]:
    """The view of what is done with one job, without a body; `told` describes the operation."""

    class JobAct(Act):
        @describe(operation, tag, {code: Job}, problems=(404, 409), request=None, description=told)
        def post(self, request: Request, job_id: int) -> Response:
            job = act(user=caller(request), job=job_to_change(request, job_id))
            return Response(job_document(job), status=code)

    return JobAct


def _requeue(*, user: User, job: JobRow) -> JobRow:
    again = job.group_id is not None and job.state in JOB_TERMINAL
    return (retry_member if again else services.requeue_job)(user=user, job=job)


_GRACE = "Cancel the job; its processes get their grace period, so it may take a while to end."
_AGAIN = """Put the job back into the queue.

A job that has ended is a conflict, except for a failed or cancelled member of a group: it runs again inside
its group."""
CancelJob = job_act("cancel_job", "jobs", services.cancel_job, _GRACE, code=202)
RequeueJob = job_act("requeue_job", "jobs", _requeue, _AGAIN, code=202)


class CloneJob(ApiView):
    @describe("clone_job", "jobs", {201: SubmittedJob}, problems=SUBMIT_PROBLEMS, request=CloneChanges)
    def post(self, request: Request, job_id: int) -> Response:
        """Submit a new job with the same spec, except for the keys that the body changes."""
        user = caller(request)
        source, body = get_job(user, job_id), body_of(request, CloneChanges)
        limits.take(limits.SUBMIT, user.pk)
        job = services.clone_job(user=user, job=source, changes=body["spec"])
        return Response(_with_warnings(job, submitted_document(job)), status=status.HTTP_201_CREATED)


def _with_warnings(job: JobRow, document: Job) -> SubmittedJob:
    return {**document, "warnings": services.warnings_of(job), "notes": notes_of(job)}


def idempotency_key(request: Request) -> str | None:
    """The key of a submission, if there is one."""
    return request.headers.get("Idempotency-Key")


def _may_manage(request: Request) -> bool:
    """Whether the caller's token, if there is one, may act on other members' jobs."""
    token = token_of(request)
    return token is None or Scope.MANAGE in token.scopes


def _selection_of(request: Request, shape: type[JobSelector]) -> dict[str, Any]:
    """The query's parameters, in which `state` and `tag` may be repeated."""
    params = request.query_params
    data: dict[str, Any] = params.dict()
    if "state" in params:
        data["state"] = [word for part in params.getlist("state") for word in part.split(",") if word]
    if "tag" in params:
        data["tag"] = params.getlist("tag")
    return checked(shape, data)


def _page_of(jobs: QuerySet[JobRow], query: dict[str, Any]) -> tuple[list[JobRow], str | None]:
    """A page of the jobs, and the next cursor.

    The newest come first, but exact matches of a search before the others, and of a group its first members.
    """
    limit, cursor = query["limit"], query.get("cursor")
    if "search" in query:
        jobs = jobs.annotate(rank=search_rank(query["search"])).order_by("-rank", "-pk")
        if cursor is not None:
            rank, pk = decode_cursor(cursor, parts=2)
            jobs = jobs.filter(Q(rank__lt=rank) | Q(rank=rank, pk__lt=pk))
    elif "group" in query:
        jobs = jobs.order_by("pk")
        if cursor is not None:
            jobs = jobs.filter(pk__gt=decode_cursor(cursor)[0])
    else:
        jobs = jobs.order_by("-pk")
        if cursor is not None:
            jobs = jobs.filter(pk__lt=decode_cursor(cursor)[0])
    # One row more than asked for tells whether there is a next page.
    rows = list(for_list(jobs)[: limit + 1])
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]
    return rows[:limit], encode_cursor(*([last.rank] if "search" in query else []), last.pk)
