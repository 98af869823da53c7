"""The policies of pools, and the plug-ins that they can use."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, body_of, describe, operator
from muster.api.policies import bodies, render
from muster.common.clock import moment
from muster.common.rows import require_first
from muster.dispatch.config.knowledge import knowledge_of, needs_of
from muster.dispatch.config.settings import change_settings, config_of
from muster.dispatch.explain.auctions import last_auctions
from muster.dispatch.explain.decided import last_round
from muster.dispatch.models import PolicyState
from muster.fleet.models import Pool
from muster_client.answers import policies as answers
from scheduler.presets import PRESETS

SEE_POLICY = "see and change how a pool decides"


class Policies(ApiView):
    @describe("list_policies", "cluster", {200: answers.PlugIns})
    def get(self, request: Request) -> Response:
        """Every policy, placement and admission with the JSON Schema of its parameters, and the presets."""
        answer: answers.PlugIns = {
            "policies": render.plug_ins("policy"),
            "placements": render.plug_ins("placement"),
            "admissions": render.plug_ins("admission"),
            "presets": [
                {"name": one.name, "title": one.title, "purpose": one.purpose, "settings": one.settings}
                for one in PRESETS.values()
            ],
        }
        return Response(answer)


class OnePoolPolicy(ApiView):
    @describe("get_pool_policy", "cluster", {200: answers.PoolPolicy}, problems=(404,))
    def get(self, request: Request, name: str) -> Response:
        """The pool's policy, placement and admission with their parameters, and whether it has fallen back. For
        operators."""
        operator(request, SEE_POLICY)
        return Response(render.settings(pool_named(name)))

    @describe(
        "change_pool_policy", "cluster", {200: answers.PoolPolicy}, problems=(404,), request=bodies.PoolPolicyChange
    )
    def put(self, request: Request, name: str) -> Response:
        """Change the pool's policy from its next cycle on; running jobs go on. For operators."""
        user, pool = operator(request, SEE_POLICY), pool_named(name)
        changes = body_of(request, bodies.PoolPolicyChange)
        reason = changes.pop("reason", "")
        return Response(
            render.settings(change_settings(pool=pool, changes=changes, actor=user.username, reason=reason))
        )


class PoolDecisions(ApiView):
    @describe("get_pool_decisions", "cluster", {200: answers.PoolDecisions}, problems=(404,))
    def get(self, request: Request, name: str) -> Response:
        """The facts that the pool's policy needs, the pool's knowledge of them, the last round of a policy with
        shares of time, and the last auctions of `themis`. For operators."""
        operator(request, SEE_POLICY)
        pool = pool_named(name)
        config, found = config_of(pool), last_round(pool)
        wakes_at = PolicyState.objects.filter(pool=pool).values_list("wake_at", flat=True).first()
        answer: answers.PoolDecisions = {
            "policy": config.policy,
            "policy_params": config.policy_params,
            "needs": sorted(needs_of(config.policy, config.policy_params)),
            "knows": render.knowledge(knowledge_of(pool)),
            "last_round": None if found is None else render.last_round(found),
            "auctions": last_auctions(pool),
            "wakes_at": moment(wakes_at),
        }
        return Response(answer)


def pool_named(name: str) -> Pool:
    """The pool; `NotFound` if there is none."""
    return require_first(Pool.objects.filter(name=name), f"there is no pool {name}")
