"""The policies of pools as JSON."""

from __future__ import annotations

from muster.api.jobs.render import job_rate
from muster.common.clock import moment
from muster.dispatch.config.knowledge import Knowledge as Known
from muster.dispatch.config.plugins import KINDS
from muster.dispatch.config.settings import fallback_of
from muster.dispatch.explain import decided
from muster.fleet.models import Pool
from muster_client.answers.policies import Decided, Fallback, Knowledge, LastRound, PlugIn, PoolPolicy, TypeShare


def plug_ins(kind: str) -> list[PlugIn]:
    """The plug-ins of a kind, each with the JSON Schema of its parameters."""
    registry = KINDS[kind]
    return [{"name": name, "params_schema": registry.schema(name)} for name in registry.names]


def settings(pool: Pool) -> PoolPolicy:
    """The settings by which a pool decides."""
    return {
        "policy": pool.policy,
        "policy_params": pool.policy_params,
        "placement": pool.placement,
        "placement_params": pool.placement_params,
        "admission": pool.admission,
        "admission_params": pool.admission_params,
        "fallback": _fallback(pool),
    }


def _fallback(pool: Pool) -> Fallback | None:
    found = fallback_of(pool)
    if found is None:
        return None
    config = found["config"]
    return {
        "policy": config["policy"],
        "placement": config["placement"],
        "admission": config["admission"],
        "since": found["since"],
        "why": found["why"],
        "cycle": found["cycle"],
    }


def knowledge(known: Known) -> Knowledge:
    """A pool's knowledge of rates and run times."""
    return {"jobs": known.jobs, "rates": known.rates, "by_source": dict(known.by_source), "expected": known.expected}


def last_round(found: decided.LastRound) -> LastRound:
    """The last round of a policy that gives out shares of time."""
    solve = found.solve
    return {
        "solved_at": moment(found.solved_at),
        "counted_at": moment(found.counted_at),
        "ends_at": moment(found.ends_at),
        "round_s": found.round_s,
        "total": found.total,
        "solve": None
        if solve is None
        else {"jobs": solve.jobs, "rows": solve.rows, "parts": solve.parts, "lost": solve.lost},
        "rows": [_decided(row) for row in found.rows],
    }


def _decided(row: decided.Decided) -> Decided:
    return {
        "job_ids": list(row.job_ids),
        "title": row.title,
        "by_type": [_share(one) for one in row.by_type],
        "why": row.why,
    }


def _share(one: decided.TypeShare) -> TypeShare:
    return {
        "gpu_type": one.gpu_type,
        "share": one.share,
        "received": one.received,
        "deficit_s": one.deficit_s,
        "turn": one.turn,
        "rate": None if one.rate is None else job_rate(one.rate),
    }
