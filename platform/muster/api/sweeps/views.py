"""Sweeps: the list, submitting, and what is done with one."""

from __future__ import annotations

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.api import limits
from muster.api.base import Act, ApiView, SpecView, body_of, caller, describe, group_to_change, query_of
from muster.api.jobs.bodies import ANY_VALUES, CloneChanges
from muster.api.jobs.views import KEY, SPEC_BODY, SUBMIT_PROBLEMS, idempotency_key
from muster.api.pages import decode_cursor, page_of
from muster.api.sweeps.bodies import SweepFilter
from muster.api.sweeps.render import sweep_document, sweep_list
from muster.jobs.groups.progress import first_member, get_group, matching_groups
from muster.jobs.groups.services import cancel_group
from muster.jobs.groups.submit import changed_spec, warnings_of
from muster.jobs.models import JobGroup
from muster.jobs.submit.notes import notes_of
from muster.sweeps import services
from muster.sweeps.retry import members_to_retry, retry_sweep
from muster.sweeps.selectors import members_of
from muster_client.answers.sweeps import MemberList, RetriedSweep, SubmittedSweep, Sweep, SweepPage
from scheduler.model.lifecycle import GroupKind

SWEEP_BODY = SPEC_BODY | {"application/json": ANY_VALUES}


class Sweeps(SpecView):
    @describe("list_sweeps", "sweeps", {200: SweepPage}, parameters=[SweepFilter])
    def get(self, request: Request) -> Response:
        """A page of sweeps, newest first."""
        query = query_of(request, SweepFilter)
        rows = matching_groups(caller(request), GroupKind.SWEEP, state=query.get("state"), mine=query["mine"])
        if "cursor" in query:
            rows = rows.filter(pk__lt=decode_cursor(query["cursor"])[0])
        page, following = page_of(rows, query["limit"], lambda last: (last.pk,))
        return Response(SweepPage(results=sweep_list(page), next=following))

    @describe(
        "submit_sweep",
        "sweeps",
        {200: SubmittedSweep, 201: SubmittedSweep},
        problems=SUBMIT_PROBLEMS,
        request=SWEEP_BODY,
        parameters=[KEY],
    )
    def post(self, request: Request) -> Response:
        """Submit a sweep: 201, or 200 if the key shows that it was submitted before.

        The body is a job spec with the key `sweep`. All members are stored as jobs, or nothing is.
        """
        user = caller(request)
        limits.take(limits.SUBMIT, user.pk, cost=services.size_of(request.data))
        group, created = services.submit_sweep(user=user, data=request.data, idempotency_key=idempotency_key(request))
        return Response(_submitted(group), status=status.HTTP_201_CREATED if created else status.HTTP_200_OK)


class OneSweep(ApiView):
    @describe("get_sweep", "sweeps", {200: Sweep}, problems=(404,))
    def get(self, request: Request, sweep_id: int) -> Response:
        """The sweep with its spec and its progress."""
        return Response(sweep_document(get_group(caller(request), GroupKind.SWEEP, sweep_id)))


class SweepMembers(ApiView):
    @describe("list_sweep_members", "sweeps", {200: MemberList}, problems=(404,))
    def get(self, request: Request, sweep_id: int) -> Response:
        """All members, up to 1,000, in order."""
        group = get_group(caller(request), GroupKind.SWEEP, sweep_id)
        return Response(MemberList(results=members_of(group)))


class CancelSweep(Act):
    @describe("cancel_sweep", "sweeps", {202: Sweep}, problems=(404, 409), request=None)
    def post(self, request: Request, sweep_id: int) -> Response:
        """Cancel all members that have not ended; running ones get their grace period."""
        user = caller(request)
        cancel_group(user=user, group=group_to_change(request, GroupKind.SWEEP, sweep_id))
        return Response(sweep_document(get_group(user, GroupKind.SWEEP, sweep_id)), status=status.HTTP_202_ACCEPTED)


class RetrySweep(Act):
    @describe("retry_sweep", "sweeps", {202: RetriedSweep}, problems=(404, 409, 429), request=None)
    def post(self, request: Request, sweep_id: int) -> Response:
        """Run the failed members again, inside the sweep, and those that were stopped with the whole sweep.

        They keep their numbers and parameters, and their values count. A sweep that has ended goes on.
        """
        user, group = caller(request), group_to_change(request, GroupKind.SWEEP, sweep_id)
        limits.take(limits.SUBMIT, user.pk, cost=max(1, members_to_retry(group).count()))
        retried = retry_sweep(user=user, group=group)
        answer: RetriedSweep = {**sweep_document(get_group(user, GroupKind.SWEEP, sweep_id)), "retried": retried}
        return Response(answer, status=status.HTTP_202_ACCEPTED)


class CloneSweep(ApiView):
    @describe("clone_sweep", "sweeps", {201: SubmittedSweep}, problems=SUBMIT_PROBLEMS, request=CloneChanges)
    def post(self, request: Request, sweep_id: int) -> Response:
        """Submit a new sweep with the same spec, except for the keys that the body changes.

        Of `sweep` only the given keys change; null removes a key.
        """
        user = caller(request)
        source, body = get_group(user, GroupKind.SWEEP, sweep_id), body_of(request, CloneChanges)
        limits.take(limits.SUBMIT, user.pk, cost=services.size_of(changed_spec(source, body["spec"])))
        group = services.clone_sweep(user=user, group=source, changes=body["spec"])
        return Response(_submitted(group), status=status.HTTP_201_CREATED)


def _submitted(group: JobGroup) -> SubmittedSweep:
    member = first_member(group)
    return {**sweep_document(group), "warnings": warnings_of(member), "notes": notes_of(member)}
