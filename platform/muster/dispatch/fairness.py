"""Verdicts on the fairness of a pool: what its policy, or another one, gives out of snapshots of its own history."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from muster.common.errors import FieldError, Invalid
from muster.dispatch.models import Cycle
from muster.dispatch.plugins import objections
from muster.dispatch.records import snapshot_of
from muster.dispatch.settings import config_of
from muster.fleet.models import Pool
from scheduler.engine.cycle import CycleConfig
from scheduler.model import Snapshot
from scheduler.sim.judge import Judgement, Parties, Shares, judge

log = logging.getLogger(__name__)

SNAPSHOTS = 20
MAX_JOBS = 2000  # a snapshot with more waiting and running jobs is left out
MAX_WITNESSES = 20
WITHIN_S = 1.6  # for all policies together


@dataclass(frozen=True, slots=True)
class Witness:
    """What shows that a property did not hold, in the snapshot of this moment."""

    at: datetime
    sentence: str


@dataclass(slots=True)
class PolicyVerdicts:
    """In how many of the judged snapshots each property held under a policy; `problem` says why some were left out."""

    policy: str
    policy_params: Mapping[str, Any]
    today: bool
    snapshots: int = 0
    sharing_incentive: int = 0
    pareto_efficiency: int = 0
    envy_freeness: int = 0
    problem: str = ""
    witnesses: list[Witness] = field(default_factory=list)


def pool_verdicts(pool: Pool, *, policy: str | None, by: Parties) -> list[PolicyVerdicts]:
    """The verdicts on the policy of the pool, then on the named one with its defaults.

    Shares are the quotas of virtual clusters. The newest snapshots with waiting jobs are judged under both, as far as
    the time reaches.

    Raises:
        Invalid: there is no such policy.
    """
    configs = [config_of(pool)]
    if policy is not None:
        wrong = [FieldError(name, message) for name, message in objections("policy", policy, {})]
        if wrong:
            raise Invalid(wrong[0].message, errors=tuple(wrong))
        configs.append(replace(configs[0], policy=policy, policy_params={}))
    found = [PolicyVerdicts(one.policy, one.policy_params, today=number == 0) for number, one in enumerate(configs)]
    until = time.monotonic() + WITHIN_S
    cycles = Cycle.objects.filter(pool=pool, planner="", waiting__gt=0, snapshot__isnull=False).order_by("-pk")
    for cycle in cycles.only("started_at", "snapshot")[:SNAPSHOTS]:
        snapshot = snapshot_of(cycle.snapshot or b"")
        if len(snapshot.waiting) + len(snapshot.running) > MAX_JOBS:
            _leave_out(found, f"snapshots with more than {MAX_JOBS:,} jobs are left out")
            continue
        try:
            judged = [_judged(snapshot, config, by, until) for config in configs]
        except TimeoutError:
            _leave_out(found, "there was no time for older snapshots")
            break
        for verdicts, judgement in zip(found, judged, strict=True):
            _count(verdicts, judgement, cycle.started_at)
    if not any(verdicts.snapshots or verdicts.problem for verdicts in found):
        _leave_out(found, "no snapshot with waiting jobs is stored")
    return found


def _judged(snapshot: Snapshot, config: CycleConfig, by: Parties, until: float) -> Judgement | str:
    """The verdicts, or why there are none; raises TimeoutError if there is no time for them."""
    try:
        return judge(snapshot, config, by=by, shares=Shares.QUOTA, remaining_s=lambda: until - time.monotonic())
    except TimeoutError:
        raise
    # A plug-in may fail in any way, and jobs that share GPUs have no verdicts.
    except Exception as error:
        log.exception("judge_failed policy=%s", config.policy)
        return f"some snapshots could not be judged: {error}"[:300]


def _count(verdicts: PolicyVerdicts, found: Judgement | str, at: datetime) -> None:
    if isinstance(found, str):
        verdicts.problem = found
        return
    verdicts.snapshots += 1
    verdicts.sharing_incentive += not found.verdicts.losses
    verdicts.pareto_efficiency += found.verdicts.better is None
    verdicts.envy_freeness += not found.verdicts.envies
    room = MAX_WITNESSES - len(verdicts.witnesses)
    verdicts.witnesses += [Witness(at, sentence) for sentence in found.sentences()[:room]]


def _leave_out(found: Sequence[PolicyVerdicts], problem: str) -> None:
    for verdicts in found:
        verdicts.problem = verdicts.problem or problem
