"""The settings by which a pool decides, and the fallback to simpler ones after a failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.db import transaction

from muster.common.clock import database_now, utc_now
from muster.common.errors import FieldError, Invalid
from muster.dispatch.config.plugins import KINDS, SETTINGS, clash, objections
from muster.dispatch.config.policy_state import set_timer
from muster.dispatch.models import Planner
from muster.events.services import audit, mail_operators, record, wake_pool
from muster.fleet.models import Pool
from scheduler.engine.cycle import CycleConfig
from scheduler.model.codec import from_json, to_json

MAX_PLACES = 256


def config_of(pool: Pool, planner: Planner | None = None) -> CycleConfig:
    """The configuration of a planner of the pool: its settings, unless it has fallen back from exactly these."""
    fallback = fallback_of(pool, planner)
    return from_json(CycleConfig, fallback["config"]) if fallback else _settings_of(pool, planner)


def fallback_of(pool: Pool, planner: Planner | None = None) -> dict[str, Any] | None:
    """A planner's fallback: the failed settings (`instead_of`), the ones in use (`config`), `since` when and `why`.

    None while it decides by its settings; edited settings are tried again.
    """
    fallback: dict[str, Any] | None = (pool if planner is None else planner).fallback
    if fallback:
        failed = from_json(CycleConfig, fallback["instead_of"] | {"max_places": MAX_PLACES})
        return fallback if failed == _settings_of(pool, planner) else None
    return None


def simpler_config(config: CycleConfig) -> CycleConfig | None:
    """The next simpler configuration: first the default policy, then all defaults; None if these failed."""
    default = CycleConfig(max_places=config.max_places)
    if (config.policy, dict(config.policy_params)) != (default.policy, {}):
        return replace(config, policy=default.policy, policy_params={})
    return None if config == default else default


def fall_back(
    pool: Pool, planner: Planner | None = None, *, failed: CycleConfig, to: CycleConfig, why: str, cycle_id: int | None
) -> None:
    """Let the planner decide by simpler settings until its own are edited, and notify its operators.

    `cycle_id` is the cycle that failed; None: a solve of the pool's lane.
    """
    holder = pool if planner is None else planner
    which = f"Pool {pool.name}" if planner is None else f"Planner {planner}"
    data = {
        "pool": pool.name,
        **({} if planner is None else {"planner": planner.name}),
        "policy": failed.policy,
        "placement": failed.placement,
        "admission": failed.admission,
        "why": why,
        "cycle": cycle_id,
    }
    instead_of = to_json(_settings_of(pool, planner))
    del instead_of["max_places"]  # it is no setting
    holder.fallback = {
        "instead_of": instead_of,
        "config": to_json(to),
        "since": utc_now().isoformat(timespec="seconds"),
        "why": why,
        "cycle": cycle_id,
    }
    failure = "A solve" if cycle_id is None else f"Cycle {cycle_id}"
    with transaction.atomic():
        type(holder)._default_manager.filter(pk=holder.pk).update(fallback=holder.fallback)
        record("pool.fell_back", actor="scheduler", data=data | {"to": to.policy})
        mail_operators(
            subject=f"{which} has fallen back to {to.policy}",
            body=f"{failure} of pool {pool.name} failed under {failed.policy}: {why}\n\n"
            f"It decides by {to.policy} until its settings are edited. What runs is not touched.",
        )


def forget_fallback(pool: Pool, *, actor: str) -> None:
    """Let the pool decide by its own settings again, within the caller's transaction."""
    before, after = {"fallback": pool.fallback}, {"fallback": None}
    audit("try_again", actor=actor, object_type="pool", object_id=pool.name, before=before, after=after)
    Pool.objects.filter(pk=pool.pk).update(fallback=None)
    decide_again(pool)


def change_settings(*, pool: Pool, changes: Mapping[str, Any], actor: str, reason: str = "") -> Pool:
    """Change the plug-ins or parameters of the pool from the next cycle on; `Invalid` names a wrong setting.

    A plug-in that is named without parameters gets its defaults. Saving ends a fallback, even if nothing changed.
    """
    with transaction.atomic():
        pool = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        before = {name: getattr(pool, name) for name in SETTINGS}
        after = dict(before)
        for kind in KINDS:
            if kind in changes and changes[kind] != before[kind]:
                after[f"{kind}_params"] = {}
        after |= changes
        wrong = [
            FieldError(field, message)
            for kind in KINDS
            for field, message in objections(kind, after[kind], after[f"{kind}_params"])
        ]
        if not wrong and (problem := clash(after)):
            wrong.append(FieldError("admission", problem))
        if wrong:
            raise Invalid.fields(wrong)
        edited = [name for name in SETTINGS if after[name] != before[name]]
        Pool.objects.filter(pk=pool.pk).update(fallback=None, **{name: after[name] for name in edited})
        if edited:
            old = {name: before[name] for name in edited}
            new = {name: after[name] for name in edited} | ({"reason": reason} if reason else {})
            audit("change", actor=actor, object_type="pool", object_id=pool.name, before=old, after=new)
        decide_again(pool)
    pool.refresh_from_db()
    return pool


def decide_again(pool: Pool, planner: Planner | None = None) -> None:
    """Let the new settings decide at once, about running jobs too."""
    set_timer(pool, planner, database_now().timestamp())
    wake_pool(pool.pk)


def _settings_of(pool: Pool, planner: Planner | None) -> CycleConfig:
    holder = pool if planner is None else planner
    return CycleConfig(
        policy=holder.policy,
        policy_params=holder.policy_params,
        placement=holder.placement,
        placement_params=holder.placement_params,
        admission=pool.admission,
        admission_params=pool.admission_params,
        max_places=MAX_PLACES,
    )
