"""The queue of a virtual cluster: seeing it, and what is done with the jobs in it."""

from __future__ import annotations

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.models import User
from muster.accounts.scopes import Scope
from muster.api.base import Act, ApiView, body_of, caller, describe, query_of, sweep_to_change
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


_HOLD = "Hold the waiting job back until it is released; it keeps its time of submission."
_BUMP = """Put the waiting job before all others of its virtual cluster. For managers.

It passes no job of another virtual cluster."""
_UNBUMP = "Give the job the place back that it has without the bump. For managers."
HoldJob = job_act("hold_job", "queue", queue.hold_job, _HOLD)
ReleaseJob = job_act("release_job", "queue", queue.release_job, "Let the held job wait for its turn again.")
BumpJob = job_act("bump_job", "queue", queue.bump_job, _BUMP)
UnbumpJob = job_act("unbump_job", "queue", queue.unbump_job, _UNBUMP)


class HoldSweep(Act):
    @describe("hold_sweep", "queue", {200: HeldMembers}, problems=(404,), request=None)
    def post(self, request: Request, sweep_id: int) -> Response:
        """Hold the waiting members back until they are released; members that run go on."""
        held = hold_group(user=caller(request), group=sweep_to_change(request, sweep_id))
        return Response(HeldMembers(members=held))


class ReleaseSweep(Act):
    @describe("release_sweep", "queue", {200: HeldMembers}, problems=(404,), request=None)
    def post(self, request: Request, sweep_id: int) -> Response:
        """Let the held members wait for their turns again."""
        released = release_group(user=caller(request), group=sweep_to_change(request, sweep_id))
        return Response(HeldMembers(members=released))


def _cluster(user: User, vc_id: int) -> VirtualCluster:
    rows = virtual_clusters_of(user).select_related("pool").filter(pk=vc_id)
    return require_first(rows, f"there is no virtual cluster {vc_id}")
