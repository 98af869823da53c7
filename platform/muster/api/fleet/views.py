"""Pools, nodes, GPUs and virtual clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, body_of, caller, describe, operator, query_of
from muster.api.fleet import bodies, render
from muster.common.rows import require_first
from muster.fleet.checks import ask_for_checks
from muster.fleet.gone import declare_gone
from muster.fleet.maintenance import call_off, plan_maintenance, planned
from muster.fleet.models import Gpu, Node, Pool, RunningJobs
from muster.fleet.selectors import with_worst_gpu
from muster.fleet.services import cordon_node, drain_node, move_jobs_off, resume_node
from muster_client.answers import fleet as answers
from scheduler.diagnosis.health import HealthLevel
from scheduler.model.lifecycle import NodeAdmin

_ACTIONS: dict[str, Callable[..., None]] = {
    "cordon": cordon_node,
    "drain": drain_node,
    "move-off": move_jobs_off,
    "resume": resume_node,
}


class Pools(ApiView):
    @describe("list_pools", "cluster", {200: answers.PoolList})
    def get(self, request: Request) -> Response:
        """Each pool with its policy, nodes and GPUs."""
        return Response(answers.PoolList(results=render.pool_list(Pool.objects.all()), next=None))


class Nodes(ApiView):
    @describe("list_nodes", "cluster", {200: answers.NodeList}, parameters=[bodies.NodeFilter])
    def get(self, request: Request) -> Response:
        """Each node with its GPUs."""
        health = query_of(request, bodies.NodeFilter).get("health")
        nodes = Node.objects.exclude(admin=NodeAdmin.RETIRED)
        if health in set(HealthLevel):
            nodes = with_worst_gpu(nodes, HealthLevel(health))
        elif health is not None:
            nodes = nodes.filter(health=health)
        return Response(answers.NodeList(results=render.node_list(caller(request), nodes), next=None))


class OneNode(ApiView):
    @describe("get_node", "cluster", {200: answers.NodeDetail}, problems=(404,))
    def get(self, request: Request, name: str) -> Response:
        """The node with its GPUs, their links, and the latest failures that it is blamed for."""
        return self._answer(request, name)

    @describe("change_node", "cluster", {200: answers.NodeDetail}, problems=(404, 409), request=bodies.NodeAction)
    def patch(self, request: Request, name: str) -> Response:
        """Cordon, drain or resume the node, or drain it and move its preemptible jobs off. For operators.

        `running_jobs` of the node lists the jobs that `move-off` would stop and queue again. `resume` needs no reason.
        """
        node, user = _node(name), operator(request, "change nodes")
        body = body_of(request, bodies.NodeAction)
        _ACTIONS[body["action"]](node=node, reason=body.get("reason", ""), actor=user.username)
        return self._answer(request, name)

    def _answer(self, request: Request, name: str) -> Response:
        return Response(render.node_document(caller(request), _node(name)))


class NodeCheck(ApiView):
    @describe("check_node", "cluster", {202: answers.NodeDetail}, problems=(404, 409), request=None)
    def post(self, request: Request, name: str) -> Response:
        """Check the GPUs that no job holds. The results are in `gpu_checks` of the node. For operators."""
        node, user = _node(name), operator(request, "have nodes checked")
        ask_for_checks(node=node, actor=user.username)
        return Response(render.node_document(user, _node(name)), status=status.HTTP_202_ACCEPTED)


class NodeGone(ApiView):
    @describe("declare_node_gone", "cluster", {202: answers.NodeDetail}, problems=(404, 409), request=bodies.NodeGone)
    def post(self, request: Request, name: str) -> Response:
        """Declare a silent node gone: it is cordoned, and its jobs are lost within seconds. For operators.

        Be sure that the machine runs nothing any more: its jobs may start elsewhere at once. 409 if its agent answers.
        """
        node, user = _node(name), operator(request, "declare nodes gone")
        declare_gone(node=node, reason=body_of(request, bodies.NodeGone)["reason"], actor=user.username)
        return Response(render.node_document(user, _node(name)), status=status.HTTP_202_ACCEPTED)


class MaintenanceTimes(ApiView):
    @describe("list_maintenance", "cluster", {200: answers.MaintenanceList})
    def get(self, request: Request) -> Response:
        """The maintenance that is planned or under way in every pool."""
        return Response(answers.MaintenanceList(results=[render.maintenance(row) for row in planned()], next=None))

    @describe(
        "plan_maintenance", "cluster", {201: answers.Maintenance}, problems=(404, 409), request=bodies.NewMaintenance
    )
    def post(self, request: Request) -> Response:
        """Have a node, or every node of a pool, free of jobs for some time. For operators."""
        user = operator(request, "plan maintenance")
        body = body_of(request, bodies.NewMaintenance)
        given: dict[str, Any] = {"pool": None, "node": None, "begins_at": None, **body}
        given["running_jobs"] = RunningJobs(given["running_jobs"])
        row = plan_maintenance(**given, actor=user.username)
        return Response(render.maintenance(row), status=status.HTTP_201_CREATED)


class OneMaintenance(ApiView):
    @describe("call_off_maintenance", "cluster", {204: None}, problems=(404, 409), parameters=[bodies.CallOff])
    def delete(self, request: Request, maintenance_id: int) -> Response:
        """End it now, or call it off before it begins; its nodes take jobs again. For operators."""
        user = operator(request, "plan maintenance")
        rows = planned().filter(pk=maintenance_id)
        row = require_first(rows, f"no maintenance {maintenance_id} is planned or under way")
        reason = query_of(request, bodies.CallOff).get("reason", "")
        call_off(maintenance=row, actor=user.username, reason=reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


class Gpus(ApiView):
    @describe("list_gpus", "cluster", {200: answers.GpuList})
    def get(self, request: Request) -> Response:
        """Each GPU with its newest reading and, where the caller may see it, the job that holds it."""
        gpus = Gpu.objects.exclude(node__admin=NodeAdmin.RETIRED)
        return Response(answers.GpuList(results=render.gpu_list(caller(request), gpus), next=None))


def _node(name: str) -> Node:
    return require_first(Node.objects.filter(name=name), f"there is no node {name}")
