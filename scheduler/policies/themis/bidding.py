"""An application's bid: its finish-time fairness with more GPUs.

An application is a sweep or a job outside of any group. Its work is counted in GPU-seconds on the GPU type where each
member is fastest, with the GPUs on the fewest nodes. With a its arrival, H its GPUs and R those of the pool:

    T_sh(H) = now - a + max(Σ l_j·S_j / min(|H|, D), max l_j·S_j / d_j)
    T_id    = max(work / min(D₀, R/N), longest member / its gang)
    rho(H)    = T_sh(H) / T_id,  V(H) = 1/rho(H), and 0 without GPUs

l_j is the work left of member j, d_j its gang, D the sum of the gangs, D₀ what it was at the arrival, S_j the slowdown
where its GPUs are on more nodes than needed, and N the mean number of applications since the arrival, each tenant's
by its weight. Where the pool has several types, 1/T_id is the mean over them by their GPUs.

Sources: Mahajan et al., Themis (NSDI 2020), §3 and §5; Subramanya et al., Sia (SOSP 2023), eq. 3, for several types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scheduler.policies.themis.auction import Bid, Row

MAX_ROWS = 8  # sizes of one type in a bid
_MIN_WORK = 1.0  # GPU-seconds


@dataclass(frozen=True, slots=True)
class Member:
    """A live job of an application: GPU-seconds of work left and done, and its gang in GPUs by the types it accepts.

    `speeds` are its work per GPU-second by type, 1 on the fastest; `slowdowns` S by type, 1 where unknown. It holds
    `held` GPUs of the type `on` under its lease. Without a lease it bids; if it runs, `on` is where it may go on.
    """

    job_id: int
    left: float
    done: float
    gangs: Mapping[str, int]
    speeds: Mapping[str, float]
    slowdowns: Mapping[str, float] = field(default_factory=dict)
    on: str | None = None
    held: int = 0
    may_start: bool = True

    @property
    def bids(self) -> bool:
        """True if it needs GPUs in this auction."""
        return self.may_start and not self.held

    @property
    def gang(self) -> int:
        """Its GPUs on the type where it needs fewest."""
        return min(self.gangs.values(), default=1)


# No slots here: the cached sums live in the instance's __dict__.
@dataclass(frozen=True)
class Application:
    """A sweep, or a job outside of any group, at one moment.

    `done` and `to_come` are the work of members that have ended and of those that may not start yet, GPU-seconds.
    """

    key: str
    tenant_id: int
    arrived_at: float
    members: tuple[Member, ...]
    done: float = 0.0
    to_come: float = 0.0

    @cached_property
    def left(self) -> float:
        """The work left, GPU-seconds."""
        return max(_MIN_WORK, math.fsum(member.left for member in self.members) + self.to_come)

    @cached_property
    def work(self) -> float:
        """All its work, GPU-seconds: that of members that have ended included."""
        return self.left + self.done + math.fsum(member.done for member in self.members)

    @cached_property
    def demand(self) -> int:
        """The GPUs that all its members want at once."""
        return sum(member.gang for member in self.members)

    @cached_property
    def held(self) -> Mapping[str, int]:
        """The GPUs under its leases, by type."""
        return self._gpus(leased=True)

    @cached_property
    def has(self) -> Mapping[str, int]:
        """The GPUs that it has at the start of the auction, by type, those without a lease included."""
        return self._gpus(leased=False)

    def _gpus(self, *, leased: bool) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for member in self.members:
            if member.on is not None and (member.held or not leased):
                found[member.on] = found.get(member.on, 0) + (member.held or member.gangs.get(member.on, 0))
        return found

    @cached_property
    def bidding(self) -> tuple[Member, ...]:
        """The members that need GPUs: those that would go on before those that would start, the longest first."""
        found = [member for member in self.members if member.bids]
        return tuple(sorted(found, key=lambda each: (each.on is None, -each.left, each.job_id)))

    @cached_property
    def types(self) -> Sequence[str]:
        """The GPU types that its members accept."""
        return sorted({kind for member in self.members for kind in member.gangs})

    @cached_property
    def speeds(self) -> Mapping[str, float]:
        """The speed of the work left on each type: the mean over the members by their work; 0 where none runs."""
        total = math.fsum(max(_MIN_WORK, member.left) for member in self.members)
        return {
            kind: math.fsum(max(_MIN_WORK, each.left) * each.speeds.get(kind, 0.0) for each in self.members) / total
            for kind in self.types
        }

    def isolated_s(self, pool: Mapping[str, int], contention: float, first_demand: int, *, rest: bool = False) -> float:
        """T_id, s: alone on 1/`contention` of the pool; infinite where none of its members could run there.

        With `rest`, only the time that the work left would take.
        """
        gpus = sum(pool.values())
        fewer = max(1e-9, min(first_demand, gpus / max(1.0, contention)))
        per_s = 0.0
        for kind, number in pool.items():
            speed = self.speeds.get(kind, 0.0)
            if speed > 0:
                longest = max((each.left + each.done * (not rest)) / _pace(each, kind) for each in self.members)
                work = self.left if rest else self.work
                per_s += number / gpus / max(work / (fewer * speed), longest, 1e-9)
        return 1.0 / per_s if per_s > 0 else math.inf

    def shared_s(self, now: float, gpus: Mapping[str, float], *, packed: bool = True) -> float:
        """T_sh, s, with these GPUs by type; infinite without any that it can use."""
        kinds = [kind for kind, number in gpus.items() if number and self.speeds.get(kind, 0.0) > 0]
        if not kinds:
            return math.inf
        number = sum(gpus[kind] for kind in kinds)
        pace = math.fsum(gpus[kind] * self.speeds[kind] for kind in kinds) * min(1.0, self.demand / number)
        slowed, longest = self.to_come, 0.0
        for member in self.members:
            left = member.left * (
                1.0 if packed else max((member.slowdowns.get(kind, 1.0) for kind in kinds), default=1)
            )
            slowed += left
            fastest = max((_pace(member, kind) for kind in kinds), default=0.0)
            longest = max(longest, left / fastest if fastest > 0 else 0.0)
        return max(0.0, now - self.arrived_at) + max(slowed / pace, longest, 1e-9)

    def bid(self, auction: int, offer: Mapping[str, int], *, now: float, isolated_s: float, weight: float) -> Bid:
        """Its bid for what is offered, GPUs by type."""
        rows = [
            Row(kind, gpus, packed, isolated_s / self.shared_s(now, self._with(kind, gpus), packed=packed))
            for kind in self.types
            for gpus in self.sizes(kind, offer.get(kind, 0))
            for packed in ((True, False) if self.slows_on(kind) else (True,))
        ]
        held = isolated_s / self.shared_s(now, self.held)
        return Bid(self.key, auction, tuple(row for row in rows if row.value > 0), held, weight)

    def _with(self, gpu_type: str, gpus: int) -> Mapping[str, int]:
        return {**self.held, gpu_type: self.held.get(gpu_type, 0) + gpus}

    def sizes(self, gpu_type: str, offered: int) -> Sequence[int]:
        """The sizes for which it bids: its first gang, about doublings, and all that it can use of what is offered."""
        sums, total = list[int](), 0
        for member in self.bidding:
            total += member.gangs.get(gpu_type, 0)
            if total > offered:
                break
            if total and (not sums or total > sums[-1]):
                sums.append(total)
        found = sums[:1]
        for size in sums[1:]:
            if size >= 2 * found[-1] and len(found) < MAX_ROWS - 1:
                found.append(size)
        return found if not sums or found[-1] == sums[-1] else [*found, sums[-1]]

    def served(self, gpu_type: str, gpus: int) -> Sequence[Member]:
        """The members that use a won row."""
        found = list[Member]()
        for member in self.bidding:
            gang = member.gangs.get(gpu_type, 0)
            if 0 < gang <= gpus:
                found.append(member)
                gpus -= gang
        return found

    def slows_on(self, gpu_type: str) -> bool:
        """True if a bidding member is slower there on more nodes than needed."""
        return any(each.slowdowns.get(gpu_type, 1.0) > 1 and gpu_type in each.gangs for each in self.bidding)


def _pace(member: Member, gpu_type: str) -> float:
    """The member's work per second with its gang on the type; where it cannot run, as on its best type."""
    kinds = [gpu_type] if member.speeds.get(gpu_type, 0.0) > 0 and gpu_type in member.gangs else list(member.gangs)
    return max((member.gangs[kind] * member.speeds.get(kind, 0.0) for kind in kinds), default=0.0) or 1.0
