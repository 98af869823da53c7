"""The queue of a virtual cluster: seeing it, and what is done with the jobs in it."""

from __future__ import annotations

from collections.abc import Callable

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.models import User
from muster.accounts.scopes import Scope
from muster.api.base import Act, ApiView, body_of, caller, describe, group_to_change, query_of
from muster.api.jobs.views import job_act
from muster.api.pages import decode_cursor
from muster.api.queue.bodies import QueueFilter, QueueOrdering
from muster.api.queue.render import queue_document
from muster.api.scopes import require_scope, token_of
from muster.common.rows import require_first
from muster.jobs import queue
from muster.jobs.groups.services import hold_group, release_group
from muster.jobs.models import Job as JobRow
from muster.tenants.models import VirtualCluster
from muster.tenants.selectors import virtual_clusters_of
from muster_client.answers.queue import HeldMembers, Queue
from scheduler.model.lifecycle import GroupKind


class QueueOfCluster(ApiView):
    @describe("get_queue", "queue", {200: Queue}, problems=(404,), parameters=[QueueFilter])
    def get(self, request: Request, vc_id: int) -> Response:
        """The waiting jobs of a virtual cluster in the order of its policy, with their places and reasons."""
        query = query_of(request, QueueFilter)
        first = decode_cursor(query["cursor"])[0] if "cursor" in query else 0
        user = caller(request)
        return Response(
            queue_document(user, _cluster(user, vc_id), mine=query["mine"], limit=query["limit"], first=first)
        )


class ReorderQueue(ApiView):
    @describe("reorder_queue", "queue", {204: None}, problems=(404, 409), request=QueueOrdering)
    def post(self, request: Request, vc_id: int) -> Response:
        """Let jobs of one owner share out the places that they hold, in the order of the body.

        No other owner's job moves. If one of the jobs has started meanwhile, nothing changes (409).
        """
        user = caller(request)
        vc, ids = _cluster(user, vc_id), body_of(request, QueueOrdering)["jobs"]
        if JobRow.objects.filter(pk__in=ids, vc=vc).exclude(owner=user).exists():
            require_scope(token_of(request), Scope.MANAGE)
        queue.reorder_jobs(user=user, vc=vc, job_ids=ids)
        return Response(status=status.HTTP_204_NO_CONTENT)


_HOLD = "Hold the waiting job until it is released; it keeps its time of submission."
_BUMP = """Put the waiting job before all others of its virtual cluster. For managers.

It passes no job of another virtual cluster."""
_UNBUMP = "Undo the bump: the job gets its former place in the queue. For managers."
HoldJob = job_act("hold_job", "queue", queue.hold_job, _HOLD)
ReleaseJob = job_act("release_job", "queue", queue.release_job, "Let the held job wait for its turn again.")
BumpJob = job_act("bump_job", "queue", queue.bump_job, _BUMP)
UnbumpJob = job_act("unbump_job", "queue", queue.unbump_job, _UNBUMP)


def _group_act(operation: str, kind: GroupKind, act: Callable[..., int], told: str) -> type[ApiView]:
    """The view of what is done with the waiting members of a group; `told` describes the operation."""

    class GroupAct(Act):
        @describe(operation, "queue", {200: HeldMembers}, problems=(404,), request=None, description=told)
        def post(self, request: Request, **numbers: int) -> Response:
            (group_id,) = numbers.values()
            return Response(
                HeldMembers(members=act(user=caller(request), group=group_to_change(request, kind, group_id)))
            )

    return GroupAct


_HOLD_MEMBERS = "Hold the waiting members until they are released; running members go on."
_RELEASE_MEMBERS = "Let the held members wait for their turns again."
HoldSweep = _group_act("hold_sweep", GroupKind.SWEEP, hold_group, _HOLD_MEMBERS)
ReleaseSweep = _group_act("release_sweep", GroupKind.SWEEP, release_group, _RELEASE_MEMBERS)
HoldArray = _group_act("hold_array", GroupKind.ARRAY, hold_group, _HOLD_MEMBERS)
ReleaseArray = _group_act("release_array", GroupKind.ARRAY, release_group, _RELEASE_MEMBERS)


def _cluster(user: User, vc_id: int) -> VirtualCluster:
    rows = virtual_clusters_of(user).select_related("pool").filter(pk=vc_id)
    return require_first(rows, f"there is no virtual cluster {vc_id}")
