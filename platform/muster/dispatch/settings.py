"""How a pool decides: by its settings, or by something plainer since these have failed."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from muster.common.clock import utc_now
from muster.events.services import mail_operators, record
from muster.fleet.models import Pool
from scheduler.cycle import CycleConfig, config_from_dict, config_to_dict

MOST_PLACES = 256


def config_of(pool: Pool) -> CycleConfig:
    """What the pool decides by: its settings, unless it has fallen back from just these."""
    fallback = fallback_of(pool)
    return config_from_dict(fallback["config"]) if fallback else _settings_of(pool)


def fallback_of(pool: Pool) -> dict[str, Any] | None:
    """From which settings the pool has fallen back (`instead_of`), to which (`config`), `since` when and `why`; None
    while it decides by its settings. Settings that have been edited since get a chance again."""
    if pool.fallback and pool.fallback["instead_of"] == _as_data(_settings_of(pool)):
        fallback: dict[str, Any] = pool.fallback
        return fallback
    return None


def plainer(config: CycleConfig) -> CycleConfig | None:
    """What to decide by where a configuration has failed: first another policy, then nothing but defaults; None if
    that is what has failed."""
    default = CycleConfig(max_places=config.max_places)
    if (config.policy, dict(config.policy_params)) != (default.policy, {}):
        return CycleConfig(
            placement=config.placement,
            placement_params=config.placement_params,
            guard=config.guard,
            guard_params=config.guard_params,
            max_places=config.max_places,
        )
    return None if config == default else default


def fall_back(pool: Pool, *, failed: CycleConfig, to: CycleConfig, why: str, cycle_id: int) -> None:
    """Let the pool decide by plainer settings until somebody edits its own, and tell its operators."""
    data = {
        "pool": pool.name,
        "policy": failed.policy,
        "placement": failed.placement,
        "guard": failed.guard,
        "why": why,
        "cycle": cycle_id,
    }
    pool.fallback = {
        "instead_of": _as_data(_settings_of(pool)),
        "config": config_to_dict(to),
        "since": utc_now().isoformat(timespec="seconds"),
        "why": why,
        "cycle": cycle_id,
    }
    with transaction.atomic():
        Pool.objects.filter(pk=pool.pk).update(fallback=pool.fallback)
        record("pool.fell_back", actor="scheduler", data=data | {"to": to.policy})
        mail_operators(
            subject=f"Pool {pool.name} has fallen back to {to.policy}",
            body=f"Cycle {cycle_id} of pool {pool.name} failed under {failed.policy}: {why}\n\n"
            f"It decides by {to.policy} until its settings are edited. What runs is not touched.",
        )


def _settings_of(pool: Pool) -> CycleConfig:
    return CycleConfig(
        policy=pool.policy,
        policy_params=pool.policy_params,
        placement=pool.placement,
        placement_params=pool.placement_params,
        guard=pool.guard,
        guard_params=pool.guard_params,
        max_places=MOST_PLACES,
    )


def _as_data(config: CycleConfig) -> dict[str, Any]:
    return {name: value for name, value in config_to_dict(config).items() if name != "max_places"}
