"""Arrays: the list, submitting, and what is done with one."""

from __future__ import annotations

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.api import limits
from muster.api.arrays.bodies import ArrayFilter, ArrayIndices, ArrayMemberFilter
from muster.api.arrays.render import array_document, array_list
from muster.api.base import ApiView, SpecView, body_of, caller, describe, group_to_change, query_of
from muster.api.jobs.bodies import ANY_VALUES, CloneChanges
from muster.api.jobs.views import KEY, SPEC_BODY, SUBMIT_PROBLEMS, idempotency_key
from muster.api.pages import decode_cursor, page_of
from muster.arrays import services
from muster.arrays.selectors import array_member, members_of_array
from muster.jobs.groups.progress import first_member, get_group, matching_groups
from muster.jobs.groups.submit import changed_spec, warnings_of
from muster.jobs.models import JobGroup
from muster.jobs.submit.notes import notes_of
from muster_client.answers.arrays import Array, ArrayMemberPage, ArrayPage, RetriedArray, SubmittedArray
from scheduler.model.lifecycle import GroupKind

ARRAY_BODY = SPEC_BODY | {"application/json": ANY_VALUES}
MEMBERS_PER_TOKEN = 10
"""Members are stored in one statement, so that ten of them cost what one job does."""


class Arrays(SpecView):
    @describe("list_arrays", "arrays", {200: ArrayPage}, parameters=[ArrayFilter])
    def get(self, request: Request) -> Response:
        """A page of arrays, newest first."""
        query = query_of(request, ArrayFilter)
        rows = matching_groups(caller(request), GroupKind.ARRAY, state=query.get("state"), mine=query["mine"])
        if "cursor" in query:
            rows = rows.filter(pk__lt=decode_cursor(query["cursor"])[0])
        page, following = page_of(rows.defer("spec"), query["limit"], lambda last: (last.pk,))
        return Response(ArrayPage(results=array_list(page), next=following))

    @describe(
        "submit_array",
        "arrays",
        {200: SubmittedArray, 201: SubmittedArray},
        problems=SUBMIT_PROBLEMS,
        request=ARRAY_BODY,
        parameters=[KEY],
    )
    def post(self, request: Request) -> Response:
        """Submit an array: 201, or 200 if the key shows that it was submitted before.

        The body is a job spec with the key `array`. All members are stored as jobs, or nothing is.
        """
        user = caller(request)
        limits.take(limits.SUBMIT, user.pk, cost=_cost(services.size_of(request.data)))
        group, created = services.submit_array(user=user, data=request.data, idempotency_key=idempotency_key(request))
        return Response(_submitted(group), status=status.HTTP_201_CREATED if created else status.HTTP_200_OK)


class OneArray(ApiView):
    @describe("get_array", "arrays", {200: Array}, problems=(404,))
    def get(self, request: Request, array_id: int) -> Response:
        """The array with its spec and its progress."""
        return Response(array_document(get_group(caller(request), GroupKind.ARRAY, array_id)))


class ArrayMembers(ApiView):
    @describe("list_array_members", "arrays", {200: ArrayMemberPage}, problems=(404,), parameters=[ArrayMemberFilter])
    def get(self, request: Request, array_id: int) -> Response:
        """A page of members by their index, up to 1,000; all of them, or those in one state or with some indices."""
        query = query_of(request, ArrayMemberFilter)
        group = get_group(caller(request), GroupKind.ARRAY, array_id)
        after = decode_cursor(query["cursor"])[0] if "cursor" in query else 0
        rows = members_of_array(group, state=query.get("state"), indices=query.get("indices"), after=after)
        page, following = page_of(rows, query["limit"], lambda last: (last["member"],))
        return Response(ArrayMemberPage(results=[array_member(row) for row in page], next=following))


class CancelArray(ApiView):
    @describe("cancel_array", "arrays", {202: Array}, problems=(404, 409), request=ArrayIndices)
    def post(self, request: Request, array_id: int) -> Response:
        """Cancel the members that have not ended, or those that the body names; running ones get their
        grace period."""
        user, indices = caller(request), body_of(request, ArrayIndices)["indices"]
        group = group_to_change(request, GroupKind.ARRAY, array_id)
        services.cancel_array(user=user, group=group, indices=indices)
        return Response(array_document(get_group(user, GroupKind.ARRAY, array_id)), status=status.HTTP_202_ACCEPTED)


class RetryArray(ApiView):
    @describe("retry_array", "arrays", {202: RetriedArray}, problems=(404, 409, 429), request=ArrayIndices)
    def post(self, request: Request, array_id: int) -> Response:
        """Run the failed members again, inside the array; an array that has ended goes on.

        With indices: those of these members that have failed or were cancelled.
        """
        user, indices = caller(request), body_of(request, ArrayIndices)["indices"]
        group = group_to_change(request, GroupKind.ARRAY, array_id)
        limits.take(limits.SUBMIT, user.pk, cost=_cost(services.members_to_retry(group, indices).count()))
        retried = services.retry_array(user=user, group=group, indices=indices)
        answer: RetriedArray = {
            **array_document(get_group(user, GroupKind.ARRAY, array_id)),
            "retried": retried,
        }
        return Response(answer, status=status.HTTP_202_ACCEPTED)


class CloneArray(ApiView):
    @describe("clone_array", "arrays", {201: SubmittedArray}, problems=SUBMIT_PROBLEMS, request=CloneChanges)
    def post(self, request: Request, array_id: int) -> Response:
        """Submit a new array with the same spec, except for the keys that the body changes.

        Of `array` only the given keys change; null removes a key.
        """
        user = caller(request)
        source, body = get_group(user, GroupKind.ARRAY, array_id), body_of(request, CloneChanges)
        limits.take(limits.SUBMIT, user.pk, cost=_cost(services.size_of(changed_spec(source, body["spec"]))))
        group = services.clone_array(user=user, group=source, changes=body["spec"])
        return Response(_submitted(group), status=status.HTTP_201_CREATED)


def _cost(members: int) -> int:
    return max(1, members // MEMBERS_PER_TOKEN)


def _submitted(group: JobGroup) -> SubmittedArray:
    member = first_member(group)
    return {**array_document(group), "warnings": warnings_of(member), "notes": notes_of(member)}
