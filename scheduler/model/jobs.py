"""Jobs and their groups, live attempts, allocations and reservations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.given import Given
from scheduler.model.lifecycle import AttemptState, JobClass
from scheduler.model.nodes import HALF, SLOTS
from scheduler.model.request import REQUEST_FIELDS, Request, request_of


@dataclass(frozen=True, slots=True)
class Rate:
    """A job's rate: the mean and the standard deviation in its own unit per second, and the source of both.

    A `deviation` of None is unknown.
    """

    mean: float
    deviation: float | None
    source: str


@dataclass(frozen=True, slots=True)
class KnownRate:
    """The rate of a job alone on `gpus` GPUs of one type, on all its nodes together.

    `slowdown` is the rate on the fewest nodes that hold the GPUs, divided by the rate on more. None: unknown.
    """

    gpu_type: str
    gpus: int
    rate: Rate
    slowdown: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A waiting or running job: its `request`, its owner, its limits and the service that it has received.

    Predictions may be wrong. A prediction of None is unknown.
    """

    id: int
    tenant_id: int
    vc_id: int
    owner_id: int
    priority: int
    job_class: JobClass
    request: Request
    submitted_at: float
    eligible_at: float
    time_limit_s: float | None
    attained_gpu_s: float  # in attempts that have ended
    avoid_nodes: tuple[int, ...]
    preemptible: bool
    still_stopping: bool
    speeds: tuple[float, ...] = ()  # predicted on 1, 2, 3 … GPUs, relative to one GPU
    checkpoints: bool = False
    ran_s: float = 0.0  # with GPUs, in attempts that have ended
    requeued_at: float = 0.0  # the last return to the queue
    expected_s: float | None = None  # predicted, from the first start to the end, on its first choice
    expected_p10_s: float | None = None  # exceeded with a probability of 0.9, where a distribution is predicted
    expected_p90_s: float | None = None  # exceeded with a probability of 0.1
    remaining_s: float | None = None  # the part of `expected_s` that was left when the last attempt ended
    utilization: float | None = None  # per GPU, 0 to 1
    policy_state: Mapping[str, float] = field(default_factory=dict)  # numbers that the policy stored with the job
    grace_s: float = 0.0  # from its stop signal to its kill
    fixed_until: float = 0.0  # until then an elastic job has one size, and no range in its request
    rates: tuple[KnownRate, ...] = ()  # by GPU type and number of GPUs; others are unknown
    expected_rate: float | None = None  # the rate for which `expected_s` and `remaining_s` hold; None: unknown
    deadline_at: float | None = None  # when it should have ended, for policies that know deadlines
    group_id: int | None = None  # the group whose member it is
    bumped: int = 0  # a manager put it before the jobs of its virtual cluster with smaller numbers; 0: not bumped
    own_rank: float | None = None  # its place among its owner's ranked jobs, by which these share out their places

    @classmethod
    def of(cls, **fields: Any) -> Job:
        """A job from its own fields and the fields of its request, as `request_of` takes them."""
        flat = {name: fields.pop(name) for name in REQUEST_FIELDS & fields.keys()}
        return cls(**fields, request=request_of(**flat))

    @property
    def max_run_s(self) -> float:
        """The longest time that a run holds its GPUs, s: the time limit and the grace; infinity without a limit."""
        return math.inf if self.time_limit_s is None else self.time_limit_s + self.grace_s

    @property
    def slots(self) -> int:
        """The slots that the job takes on each of its GPUs."""
        return HALF if self.request.shares_gpu else SLOTS

    @property
    def waiting_since(self) -> float:
        """The start of the present wait. A back-off is not part of it."""
        return max(self.submitted_at, self.requeued_at, self.eligible_at)

    def speed_on(self, gpus: int) -> float:
        """The predicted speed on `gpus` GPUs relative to the first choice; constant beyond the last prediction."""
        if not self.speeds:
            return 1.0
        last = len(self.speeds)
        return self.speeds[min(max(gpus, 1), last) - 1] / self.speeds[min(max(self.request.gpus_total, 1), last) - 1]


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that are one application, such as a sweep, while at least one of its members waits or runs."""

    id: int
    tenant_id: int
    submitted_at: float
    done_gpu_s: float  # the service of its members that have ended
    to_come_gpu_s: float | None  # the expected work of members that do not wait or run yet; None: unknown


@dataclass(frozen=True, slots=True)
class AllocationView:
    """The resources that one rank holds on one node: `slots` of each GPU, CPUs and memory.

    `cells` are the ids of the virtual cells that the GPUs count for, one for each of `gpu_ids`; empty where the
    admission has no cells, and for opportunistic jobs.
    """

    node_id: int
    rank: int
    gpu_ids: tuple[int, ...]
    cpus: int
    memory_mib: int
    slots: int = SLOTS
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A live attempt of a job. It holds its allocations in every state.

    - `speed` is the measured speed on the present GPUs, shared or not, in the job's own unit per second. None: unknown.
    - `rate` is `speed` divided by the speed of the same job alone on the same GPUs. None: unknown.
    - `progress` is the predicted work per second, in seconds of the job's `remaining_s`. None: use the job's `speeds`.
    - `given` are the values that the decision handed to its environment.
    - Another planner decides on a `foreign` job. Its `preemptible` is false here; if it is `reclaimable`, jobs that may
      reclaim its GPUs may preempt it.
    """

    attempt_id: int
    job: Job
    state: AttemptState
    allocations: tuple[AllocationView, ...]
    placed_at: float
    rate: float | None = None
    speed: float | None = None
    progress: float | None = None
    foreign: bool = False
    reclaimable: bool = False
    given: Given = ()

    @property
    def evictable(self) -> bool:
        """True if a job that may reclaim its GPUs may preempt it."""
        return self.job.preemptible or self.reclaimable

    @property
    def job_id(self) -> int:
        """The id of the job."""
        return self.job.id

    @property
    def vc_id(self) -> int:
        """The virtual cluster of the job."""
        return self.job.vc_id

    @property
    def gpus(self) -> int:
        """The number of GPUs that the attempt holds."""
        return sum(len(share.gpu_ids) for share in self.allocations)

    @property
    def stopping(self) -> bool:
        """True if the attempt is stopping."""
        return self.state is AttemptState.STOPPING

    def attained_gpu_s(self, now: float) -> float:
        """The attained service of the job in GPU-seconds, including this attempt."""
        return self.job.attained_gpu_s + self.gpus * max(0.0, now - self.placed_at)

    def ran_s(self, now: float) -> float:
        """The run time of the job with GPUs, s, including this attempt."""
        return self.job.ran_s + max(0.0, now - self.placed_at)

    @property
    def work_rate(self) -> float:
        """The predicted work per second, s/s; 1 at the speed for which the run time was predicted."""
        if self.progress is not None:
            return self.progress
        return self.job.speed_on(self.gpus) if self.job.speeds else 1.0

    def remaining_s(self, now: float) -> float | None:
        """The predicted work that remains now, in seconds on the first choice; never below 0. None: unknown."""
        if self.job.remaining_s is None:
            return None
        return max(0.0, self.job.remaining_s - self.work_rate * max(0.0, now - self.placed_at))


@dataclass(frozen=True, slots=True)
class Reservation:
    """Allocations that only one job may take before `until`, while other jobs on them stop.

    A standing offer to an outside scheduler is a reservation too. Its `job_id` is the negated id of the offer. A
    `foreign` reservation is that of a job on which another planner decides. The job starts with the `given` values.
    """

    job_id: int
    allocations: tuple[AllocationView, ...]
    until: float
    foreign: bool = False
    given: Given = ()

    @property
    def offered(self) -> bool:
        """True if this is a standing offer."""
        return self.job_id < 0
