"""The policy's memory between decisions: leases, the pool's contention, and the last auctions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.policies.themis.bidding import Application

KEPT_ROUNDS = 6
MAX_ARRIVALS = 10_000  # of applications; those beyond count by the contention of the moment


@dataclass(slots=True)
class Arrival:
    """An application's arrival: the time, the contention counted for its tenant until then, its demand then."""

    at: float
    contention_s: float
    demand: int


@dataclass(slots=True)
class Memory:
    """The leases by job, the arrivals by application, and for each tenant the integral of its contention over time.

    The contention of an application is the number of applications in the pool if each tenant has its weight's part of
    it, and divides that among its own: (sum of the weights / own weight) · own applications.
    """

    at: float = 0.0
    auctions: int = 0
    next_at: float = 0.0
    vain: int = 0  # a checksum of what the last auction was about if it gave nothing out
    lease_ends: dict[int, float] = field(default_factory=dict)
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    contention: dict[int, float] = field(default_factory=dict)  # now, by tenant
    contention_s: dict[int, float] = field(default_factory=dict)  # its integral
    rounds: list[dict[str, Any]] = field(default_factory=list)  # the last ones, the newest last

    @classmethod
    def read(cls, state: Mapping[str, Any] | None) -> Memory:
        """From the state of the pool."""
        if state is None:
            return cls()
        return cls(
            at=state["at"],
            auctions=state["auctions"],
            next_at=state["next_at"],
            vain=state["vain"],
            lease_ends={int(job_id): end for job_id, end in state["lease_ends"].items()},
            arrivals={key: Arrival(*values) for key, values in state["arrivals"].items()},
            contention={int(tenant): value for tenant, value in state["contention"].items()},
            contention_s={int(tenant): value for tenant, value in state["contention_s"].items()},
            rounds=list(state["rounds"]),
        )

    def to_state(self) -> Mapping[str, Any]:
        """As JSON."""
        return {
            "at": self.at,
            "auctions": self.auctions,
            "next_at": self.next_at,
            "vain": self.vain,
            "lease_ends": {str(job_id): round(end, 3) for job_id, end in self.lease_ends.items()},
            "arrivals": {
                key: [round(one.at, 3), round(one.contention_s, 3), one.demand] for key, one in self.arrivals.items()
            },
            "contention": {str(tenant): round(value, 6) for tenant, value in self.contention.items()},
            "contention_s": {str(tenant): round(value, 3) for tenant, value in self.contention_s.items()},
            "rounds": self.rounds,
        }

    def account(self, now: float, live: Mapping[str, int], weights: Mapping[int, float], jobs: Iterable[int]) -> None:
        """Count the time since the last decision, and meet the live applications: their tenants by key."""
        for tenant, value in self.contention.items():
            self.contention_s[tenant] = self.contention_s.get(tenant, 0.0) + value * max(0.0, now - self.at)
        self.at = now
        applications = Counter(live.values())
        total = sum(weights.get(tenant, 1.0) for tenant in applications)
        self.contention = {
            tenant: number * total / weights.get(tenant, 1.0) for tenant, number in sorted(applications.items())
        }
        self.contention_s = {tenant: self.contention_s.get(tenant, 0.0) for tenant in self.contention}
        self.arrivals = {key: one for key, one in self.arrivals.items() if key in live}
        for key, tenant in live.items():
            if key not in self.arrivals and len(self.arrivals) < MAX_ARRIVALS:
                self.arrivals[key] = Arrival(now, self.contention_s[tenant], 0)
        alive = set(jobs)
        self.lease_ends = {job_id: end for job_id, end in self.lease_ends.items() if job_id in alive}

    def mean_contention(self, application: Application) -> float:
        """The mean contention of the application since it was first seen, at least 1."""
        arrival = self.arrivals.get(application.key)
        elapsed_s = 0.0 if arrival is None else self.at - arrival.at
        if arrival is None or elapsed_s <= 0:
            return max(1.0, self.contention[application.tenant_id])
        return max(1.0, (self.contention_s[application.tenant_id] - arrival.contention_s) / elapsed_s)

    def first_demand(self, application: Application) -> int:
        """The demand of the application when an auction first met it."""
        arrival = self.arrivals.get(application.key)
        if arrival is None:
            return application.demand
        arrival.demand = arrival.demand or application.demand
        return arrival.demand

    def log(self, entry: dict[str, Any]) -> None:
        """Keep what an auction did, for the pages."""
        self.rounds = [*self.rounds, entry][-KEPT_ROUNDS:]
