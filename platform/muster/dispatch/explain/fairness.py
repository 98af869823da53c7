"""Verdicts on the fairness of a pool: what its policy, or another one, gives out of snapshots of its own history."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from typing import Any

from muster.common.errors import FieldError, Invalid
from muster.dispatch.config.plugins import objections
from muster.dispatch.config.settings import config_of
from muster.dispatch.models import Cycle
from muster.dispatch.snapshot.records import snapshot_of
from muster.fleet.models import Pool
from scheduler.engine.cycle import CycleConfig
from scheduler.model.codec import to_json
from scheduler.sim.judge import Parties, Shares, judge

log = logging.getLogger(__name__)

SNAPSHOTS = 20
MAX_JOBS = 1000  # a snapshot with more waiting and running jobs is left out
MAX_WITNESSES = 20
WITHIN_S = 1.6  # for all policies together


@dataclass(frozen=True, slots=True)
class Witness:
    """Evidence that a property did not hold in the snapshot of this moment."""

    at: datetime
    sentence: str


@dataclass(slots=True)
class PolicyVerdicts:
    """In how many of the judged snapshots each property held under a policy; `problem` says why some were left out.

    `decided_by` are the policies that had decided these snapshots, with the number of each.
    """

    policy: str
    policy_params: Mapping[str, Any]
    today: bool
    snapshots: int = 0
    decided_by: dict[str, int] = field(default_factory=dict)
    sharing_incentive: int = 0
    pareto_efficiency: int = 0
    kept_by_quotas: int = 0
    envy_freeness: int = 0
    problem: str = ""
    witnesses: list[Witness] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Judged:
    """The three properties of a snapshot, each with its evidence, or the reason why they are unknown."""

    held: tuple[bool, bool, bool] = (False, False, False)
    kept_by_quotas: bool = False
    sentences: tuple[str, ...] = ()
    problem: str = ""


_KNOWN: dict[tuple[int, datetime, Parties, str], _Judged] = {}
_MAX_KNOWN = 2000


def pool_verdicts(pool: Pool, *, policy: str | None, by: Parties) -> list[PolicyVerdicts]:
    """The verdicts on the policy of the pool, then on the named one with its defaults; `Invalid` if there is none such.

    Shares are the quotas of virtual clusters. The newest snapshots with waiting jobs are judged while there is time.
    """
    configs = [config_of(pool)]
    if policy is not None:
        wrong = [FieldError(name, message) for name, message in objections("policy", policy, {})]
        if wrong:
            raise Invalid(wrong[0].message, errors=tuple(wrong))
        configs.append(replace(configs[0], policy=policy, policy_params={}))
    found = [PolicyVerdicts(one.policy, one.policy_params, today=number == 0) for number, one in enumerate(configs)]
    import_module("scipy.optimize")  # the solver, once in each process: loading it is no part of the time
    until = time.monotonic() + WITHIN_S
    cycles = Cycle.objects.filter(pool=pool, planner="", waiting__gt=0, snapshot__isnull=False).order_by("-pk")
    for cycle_id, at, decided_by in cycles.values_list("pk", "started_at", "config__policy")[:SNAPSHOTS]:
        try:
            judged = [_judged(cycle_id, at, config, by, until) for config in configs]
        except TimeoutError:
            _leave_out(found, "there was no time for older snapshots; ask again to have more of them judged")
            break
        for verdicts, judgement in zip(found, judged, strict=True):
            _count(verdicts, judgement, at, decided_by)
    if not any(verdicts.snapshots or verdicts.problem for verdicts in found):
        _leave_out(found, "no snapshot with waiting jobs is stored")
    return found


def _judged(cycle_id: int, at: datetime, config: CycleConfig, by: Parties, until: float) -> _Judged:
    """The judgement of one snapshot, computed once in each process; raises TimeoutError if there is no time for it."""
    key = (cycle_id, at, by, str(to_json(config)))
    if key not in _KNOWN:
        found = _judge(cycle_id, config, by, until)
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = found
    return _KNOWN[key]


def _judge(cycle_id: int, config: CycleConfig, by: Parties, until: float) -> _Judged:
    packed = Cycle.objects.values_list("snapshot", flat=True).get(pk=cycle_id)
    snapshot = snapshot_of(packed or b"")
    if len(snapshot.waiting) + len(snapshot.running) > MAX_JOBS:
        return _Judged(problem=f"snapshots with more than {MAX_JOBS:,} jobs are left out")
    try:
        found = judge(snapshot, config, by=by, shares=Shares.QUOTA, remaining_s=lambda: until - time.monotonic())
    except TimeoutError:
        raise
    # A plug-in may fail in any way, and jobs that share GPUs have no verdicts.
    except Exception as error:
        log.exception("judge_failed policy=%s", config.policy)
        return _Judged(problem=f"some snapshots could not be judged: {error}"[:300])
    verdicts = found.verdicts
    held = (not verdicts.losses, verdicts.better is None, not verdicts.envies)
    return _Judged(held, verdicts.kept_by_shares, found.sentences()[:MAX_WITNESSES])


def _count(verdicts: PolicyVerdicts, found: _Judged, at: datetime, decided_by: str) -> None:
    if found.problem:
        verdicts.problem = found.problem
        return
    incentive, efficiency, no_envy = found.held
    verdicts.snapshots += 1
    verdicts.decided_by[decided_by] = verdicts.decided_by.get(decided_by, 0) + 1
    verdicts.sharing_incentive += incentive
    verdicts.pareto_efficiency += efficiency
    verdicts.kept_by_quotas += found.kept_by_quotas
    verdicts.envy_freeness += no_envy
    room = MAX_WITNESSES - len(verdicts.witnesses)
    verdicts.witnesses += [Witness(at, sentence) for sentence in found.sentences[:room]]


def _leave_out(found: Sequence[PolicyVerdicts], problem: str) -> None:
    for verdicts in found:
        verdicts.problem = verdicts.problem or problem
