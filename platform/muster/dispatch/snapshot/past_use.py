"""The decayed past use of a pool's virtual clusters, for policies that share over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any

from django.db import connection

from muster.dispatch.models import Planner
from muster.fleet.models import Pool
from scheduler import model
from scheduler.engine.policy import POLICIES
from scheduler.registry import ConfigError

# Use that is older than this number of half-lives counts less than a thousandth.
_HALF_LIVES = 10

# The integral of the slots of each claim over its time, each second weighed by 2 ^ -(age / half-life).
_PAST_USE = """
SELECT job.vc_id, sum(
    (upper(claim.span) - lower(claim.span)) / %(slots)s::float8
    * (power(2, -extract(epoch FROM now() - coalesce(claim.released_at, now())) / %(half_life_s)s)
       - power(2, -least(extract(epoch FROM now() - claim.claimed_at) / %(half_life_s)s, 1000)))
) * %(half_life_s)s / %(ln2)s
FROM jobs_gpuclaim claim
JOIN jobs_allocation allocation ON allocation.id = claim.allocation_id
JOIN jobs_attempt attempt ON attempt.id = allocation.attempt_id
JOIN jobs_job job ON job.id = attempt.job_id
WHERE job.pool_id = %(pool_id)s
  AND (claim.released_at IS NULL OR claim.released_at > now() - make_interval(secs => %(oldest_s)s))
GROUP BY job.vc_id
"""


def with_past_use(
    vcs: Sequence[model.VirtualCluster], pool: Pool, planner: Planner | None
) -> tuple[model.VirtualCluster, ...]:
    """The virtual clusters with their decayed use, if the policy of the pool or planner asks for it."""
    half_life_s = _half_life_s(pool if planner is None else planner)
    if half_life_s is None:
        return tuple(vcs)
    params: dict[str, Any] = {
        "slots": model.SLOTS,
        "half_life_s": half_life_s,
        "ln2": log(2),
        "pool_id": pool.pk,
        "oldest_s": _HALF_LIVES * half_life_s,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PAST_USE, params)
        past = dict(cursor.fetchall())
    return tuple(replace(vc, past_gpu_s=float(past.get(vc.id, 0.0))) for vc in vcs)


def _half_life_s(holder: Pool | Planner) -> float | None:
    try:
        policy = POLICIES.make(holder.policy, holder.policy_params)
    except ConfigError:
        return None  # the cycle reports it
    half_life_s: float | None = getattr(policy, "half_life_s", None)
    return half_life_s
