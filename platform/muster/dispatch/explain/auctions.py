"""The last auctions of a pool, with the names of who bid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from muster.common.clock import moment
from muster.dispatch.config.policy_state import pool_state_of
from muster.dispatch.config.settings import config_of
from muster.fleet.models import Pool
from muster.jobs.models import Job, JobGroup
from muster.tenants.models import Tenant
from muster_client.answers.policies import Auction
from scheduler.policies.themis.policy import Themis


def last_auctions(pool: Pool) -> list[Auction]:
    """Offers, bids, winners and payments of the last auctions, the newest first; none for other policies."""
    state = pool_state_of(pool)
    if state is None or (state.policy, state.version) != ("themis", Themis.state_version):
        return []
    if config_of(pool).policy != "themis":
        return []
    rounds: list[dict[str, Any]] = list(state.data["rounds"])  # type: ignore[call-overload]
    names = _names({key for one in rounds for key in one["bids"]})
    tenants = dict(Tenant.objects.values_list("pk", "name"))
    return [_auction(one, names, tenants) for one in reversed(rounds)]


def _auction(one: Mapping[str, Any], names: Mapping[str, str], tenants: Mapping[int, str]) -> Auction:
    return {
        "number": one["auction"],
        "at": moment(datetime.fromtimestamp(one["at"], UTC)),
        "offer": one["offer"],
        "bids": [
            {
                "application": key,
                "name": names.get(key, ""),
                "tenant": tenants.get(bid["tenant"], ""),
                "rho": bid["rho"],
                "rows": [
                    {"gpu_type": kind, "gpus": gpus, "packed": packed, "value": value}
                    for kind, gpus, packed, value in bid["rows"]
                ],
            }
            # The order of the keys is lost in the database: the worst served first, and worst is to hold nothing.
            for key, bid in sorted(one["bids"].items(), key=lambda item: -(item[1]["rho"] or math.inf))
        ],
        "outside": one["outside"],
        "wins": [
            {
                "application": win["application"],
                "name": names.get(win["application"], ""),
                "gpu_type": win["gpu_type"],
                "gpus": win["gpus"],
                "packed": win["packed"],
                "part": win["part"],
                "lease_s": win["lease_s"],
                "job_ids": win["jobs"],
            }
            for win in one["wins"]
        ],
        "drawn": one["drawn"],
        "left": one["left"],
        "refused": [{"application": key, "why": why} for key, why in one["refused"].items()],
        "without_room": one["without_room"],
    }


def _names(keys: Iterable[str]) -> Mapping[str, str]:
    ids: dict[str, list[int]] = {"job": [], "sweep": []}
    for key in keys:
        kind, _, number = key.partition(" ")
        ids[kind].append(int(number))
    found = {f"job {pk}": name for pk, name in Job.objects.filter(pk__in=ids["job"]).values_list("pk", "name")}
    groups = JobGroup.objects.filter(pk__in=ids["sweep"]).values_list("pk", "name")
    return found | {f"sweep {pk}": name for pk, name in groups}
