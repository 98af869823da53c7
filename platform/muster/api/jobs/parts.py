"""Parts of one job: its attempts, its events and its files."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, caller, describe, query_of
from muster.api.jobs import render
from muster.api.jobs.bodies import PageFilter
from muster.api.outputs.bodies import OutputFilter
from muster.api.outputs.render import output_file
from muster.api.pages import decode_cursor, page_of
from muster.events.selectors import EventCursor, of_job
from muster.jobs.graph import graph_of
from muster.jobs.models import Attempt
from muster.jobs.selectors import get_job
from muster.outputs.selectors import behind, files_of, summary_of
from muster_client.answers.jobs import AttemptList, DependencyGraph, JobEventPage
from muster_client.answers.outputs import OutputFilePage


class JobAttempts(ApiView):
    @describe("list_attempts", "jobs", {200: AttemptList}, problems=(404,), parameters=[PageFilter])
    def get(self, request: Request, job_id: int) -> Response:
        """The attempts, oldest first."""
        job = get_job(caller(request), job_id)
        query = query_of(request, PageFilter)
        attempts = Attempt.objects.filter(job=job).order_by("number")
        if "cursor" in query:
            attempts = attempts.filter(number__gt=decode_cursor(query["cursor"])[0])
        page, following = page_of(attempts, query["limit"], lambda last: (last.number,))
        return Response(AttemptList(results=render.attempt_list(page), next=following))


class JobDependencies(ApiView):
    @describe("job_dependencies", "jobs", {200: DependencyGraph}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """The dependencies around the job as a graph; a group such as a sweep is one node of it."""
        user = caller(request)
        return Response(render.dependency_graph(graph_of(user, get_job(user, job_id))))


class JobEvents(ApiView):
    @describe("list_job_events", "jobs", {200: JobEventPage}, problems=(404,), parameters=[PageFilter])
    def get(self, request: Request, job_id: int) -> Response:
        """The events, oldest first. The first one of a member of a group is the group's, with the id 0."""
        job = get_job(caller(request), job_id)
        query = query_of(request, PageFilter)
        place = decode_cursor(query["cursor"], parts=2) if "cursor" in query else (0, 0)
        page, following = page_of(of_job(job.pk, EventCursor(*place)), query["limit"], lambda last: (last.tx, last.pk))
        first = [render.submitted_with_group(job)] if job.group_id is not None and "cursor" not in query else []
        return Response(JobEventPage(results=[*first, *(render.event(row) for row in page)], next=following))


class JobFiles(ApiView):
    @describe("list_job_files", "jobs", {200: OutputFilePage}, problems=(404,), parameters=[OutputFilter])
    def get(self, request: Request, job_id: int) -> Response:
        """The files, those of the latest attempt first, and the files that were left out, with reasons."""
        job = get_job(caller(request), job_id)
        query = query_of(request, OutputFilter)
        files = files_of(job, attempt=query.get("attempt"))
        if "cursor" in query:
            files = behind(files, *decode_cursor(query["cursor"], parts=3))
        page, following = page_of(
            files, query["limit"], lambda last: (last.allocation.attempt_id, last.allocation.rank, last.pk)
        )
        answer: OutputFilePage = {
            "results": [output_file(row) for row in page],
            "next": following,
            "summary": summary_of(job),
        }
        return Response(answer)
