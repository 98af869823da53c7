"""How pools decide, and what they can be told to decide by."""

from __future__ import annotations

from dataclasses import asdict

from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.models import User
from muster.api.base import ApiView, body_of, caller, describe
from muster.api.jobs.render import Json
from muster.api.policies import bodies
from muster.common.errors import Forbidden, NotFound
from muster.dispatch.config.knowledge import knowledge_of, needs_of
from muster.dispatch.config.plugins import KINDS
from muster.dispatch.config.settings import SETTINGS, change_settings, config_of, fallback_of
from muster.dispatch.explain.auctions import last_auctions
from muster.dispatch.explain.decided import last_round
from muster.dispatch.models import PolicyState
from muster.fleet.models import Pool
from muster_client.answers import policies as answers
from scheduler.presets import PRESETS

_PLURALS = {"policy": "policies", "placement": "placements", "admission": "admissions"}


class Policies(ApiView):
    """The plug-ins."""

    @describe("list_policies", tag="cluster", answers={200: answers.PlugIns})
    def get(self, request: Request) -> Response:
        """Every policy, placement and admission with the JSON Schema of its parameters, and the presets."""
        plugins = {
            _PLURALS[kind]: [{"name": name, "params_schema": registry.schema(name)} for name in registry.names]
            for kind, registry in KINDS.items()
        }
        presets = [
            {"name": one.name, "title": one.title, "purpose": one.purpose, "settings": one.settings}
            for one in PRESETS.values()
        ]
        return Response({**plugins, "presets": presets})


class OnePoolPolicy(ApiView):
    """The settings by which one pool decides."""

    @describe("get_pool_policy", tag="cluster", answers={200: answers.PoolPolicy}, problems=(403, 404))
    def get(self, request: Request, name: str) -> Response:
        """The pool's policy, placement and admission with their parameters, and whether it has fallen back. For
        operators."""
        require_operator(caller(request))
        return Response(_settings(pool_named(name)))

    @describe(
        "change_pool_policy",
        tag="cluster",
        answers={200: answers.PoolPolicy},
        problems=(403, 404, 413, 415, 422),
        request=bodies.PoolPolicyChange,
    )
    def put(self, request: Request, name: str) -> Response:
        """Let the pool decide in another way from its next cycle on; what runs goes on. For operators."""
        user = caller(request)
        require_operator(user)
        pool = pool_named(name)
        changes = body_of(request, bodies.PoolPolicyChange)
        reason = changes.pop("reason", "")
        return Response(_settings(change_settings(pool=pool, changes=changes, actor=user.username, reason=reason)))


class PoolDecisions(ApiView):
    """What the policy of one pool decided, and by what knowledge."""

    @describe("get_pool_decisions", tag="cluster", answers={200: answers.PoolDecisions}, problems=(403, 404))
    def get(self, request: Request, name: str) -> Response:
        """What the pool's policy needs to know, how well the pool knows it now, the last round of a policy that gives
        out shares of time, and the last auctions of `themis`. For operators."""
        require_operator(caller(request))
        pool = pool_named(name)
        config, found = config_of(pool), last_round(pool)
        return Response(
            {
                "policy": config.policy,
                "policy_params": config.policy_params,
                "needs": sorted(needs_of(config.policy, config.policy_params)),
                "knows": asdict(knowledge_of(pool)),
                "last_round": found and asdict(found),
                "auctions": last_auctions(pool),
                "wakes_at": PolicyState.objects.filter(pool=pool).values_list("wake_at", flat=True).first(),
            }
        )


def require_operator(user: User) -> None:
    """Return if the user is an operator."""
    if not user.is_operator:
        raise Forbidden("only operators may see and change how a pool decides")


def pool_named(name: str) -> Pool:
    """The pool; `NotFound` if there is none."""
    pool = Pool.objects.filter(name=name).first()
    if pool is None:
        raise NotFound(f"there is no pool {name}")
    return pool


def _settings(pool: Pool) -> Json:
    fallback = fallback_of(pool)
    return {
        **{name: getattr(pool, name) for name in SETTINGS},
        "fallback": fallback
        and {
            **{kind: fallback["config"][kind] for kind in KINDS},
            "since": fallback["since"],
            "why": fallback["why"],
            "cycle": fallback["cycle"],
        },
    }
