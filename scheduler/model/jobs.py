"""Jobs, the attempts that run, and what they hold, as a decision sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.lifecycle import AttemptState, JobClass, Locality, RuntimeNeed
from scheduler.model.nodes import HALF, SLOTS
from scheduler.model.request import REQUEST_FIELDS, Request, request_of


@dataclass(frozen=True, slots=True)
class Job:
    """A job that waits or runs: what it asks for is its `request`, and the rest says whose it is and what it has had.

    What is predicted may be wrong and may be missing: None says that nobody knows.
    """

    id: int
    tenant_id: int
    vc_id: int
    owner_id: int
    priority: int
    klass: JobClass
    request: Request
    submitted_at: float
    eligible_at: float
    time_limit_s: float | None
    attained_gpu_s: float  # by the attempts that have ended
    avoid_nodes: tuple[int, ...]
    preemptible: bool
    still_stopping: bool
    speeds: tuple[float, ...] = ()  # on 1, 2, 3 … GPUs relative to one
    checkpoints: bool = False
    ran_s: float = 0.0  # with GPUs, in the attempts that have ended
    requeued_at: float = 0.0  # when it last went back to the queue
    expected_s: float | None = None  # predicted run time from the first start to the end, on its first choice
    remaining_s: float | None = None  # of which is left, when the last attempt ended
    utilization: float | None = None  # of each of its GPUs, 0 to 1
    memo: Mapping[str, float] = field(default_factory=dict)  # what the policy asked to be told again
    grace_s: float = 0.0  # from its stop signal to its kill

    @classmethod
    def of(cls, **fields: Any) -> Job:
        """The job whose request is spelled by fields of its own, as `request_of` takes them; the rest are the job's."""
        flat = {name: fields.pop(name) for name in REQUEST_FIELDS & fields.keys()}
        return cls(**fields, request=request_of(**flat))

    @property
    def gpu_type(self) -> str | None:
        """The one GPU type that will do; None where there are several, or any will do."""
        return self.request.choices[0].gpu_type if len(self.request.choices) == 1 else None

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types that will do, where there are several."""
        return self.request.gpu_types if len(self.request.choices) > 1 else ()

    @property
    def gpus(self) -> int:
        """GPUs per node of its first choice."""
        return self.request.choices[0].gpus

    @property
    def nodes(self) -> int:
        """How many nodes its gang has."""
        return self.request.nodes

    @property
    def cpus(self) -> int:
        """CPUs per node of its first choice."""
        return self.request.choices[0].cpus

    @property
    def memory_mib(self) -> int:
        """Memory per node of its first choice, MiB."""
        return self.request.choices[0].memory_mib

    @property
    def locality(self) -> Locality:
        """How close together its GPUs must lie."""
        return self.request.locality

    @property
    def split(self) -> bool:
        """Whether it is one lot that may lie on any number of nodes."""
        return self.request.divisible

    @property
    def max_gpus(self) -> int:
        """The end of its elastic range; 0 without one."""
        return self.request.elastic.max_gpus if self.request.elastic else 0

    @property
    def packs(self) -> bool:
        """Whether it may have another job beside it on its GPUs."""
        return self.request.shares_gpu

    @property
    def gpu_memory_mib(self) -> int | None:
        """The memory that it needs of each of its GPUs, MiB."""
        return self.request.gpu_memory_mib

    @property
    def form(self) -> RuntimeNeed:
        """What a node must be able to start."""
        return self.request.runtime

    @property
    def max_run_s(self) -> float:
        """Seconds that a run holds its GPUs at most: its agent signals it at the limit and kills it after the grace."""
        return math.inf if self.time_limit_s is None else self.time_limit_s + self.grace_s

    @property
    def gpus_total(self) -> int:
        """GPUs of the whole gang."""
        return self.gpus * self.nodes

    def types_among(self, gpu_types: Sequence[str]) -> Sequence[str]:
        """The GPU types that the job may use, of those that a pool has; a type that it names, in the pool or not."""
        if self.gpu_type is not None:
            return (self.gpu_type,)
        return self.request.types_among(gpu_types)

    @property
    def slots(self) -> int:
        """How many slots it takes of each of its GPUs."""
        return HALF if self.packs else SLOTS

    @property
    def waiting_since(self) -> float:
        """When its present wait began; a back-off is no waiting."""
        return max(self.submitted_at, self.requeued_at, self.eligible_at)

    def speed_on(self, gpus: int) -> float:
        """The predicted speed on so many GPUs relative to what it asks for; beyond the predictions it grows no more."""
        if not self.speeds:
            return 1.0
        last = len(self.speeds)
        return self.speeds[min(max(gpus, 1), last) - 1] / self.speeds[min(max(self.gpus, 1), last) - 1]


@dataclass(frozen=True, slots=True)
class AllocationView:
    """What one rank of a gang holds on one node: so many `slots` of each of the GPUs, and the rest."""

    node_id: int
    rank: int
    gpu_ids: tuple[int, ...]
    cpus: int
    memory_mib: int
    slots: int = SLOTS


@dataclass(frozen=True, slots=True)
class Running:
    """One live attempt of a job: whatever its state, its allocations are held.

    `speed` is what was measured of it where it is now, beside whoever is there, in a unit of the job's own per second;
    `rate` is that by the speed of the same job on the same GPUs with nobody beside it; None: not measured.
    `progress` is the predicted work, in seconds of the job's `remaining_s`, that it does in each second where it is;
    None: as the job's `speeds` say.
    """

    attempt_id: int
    job: Job
    state: AttemptState
    allocations: tuple[AllocationView, ...]
    placed_at: float
    rate: float | None = None
    speed: float | None = None
    progress: float | None = None

    @property
    def job_id(self) -> int:
        """The id of its job."""
        return self.job.id

    @property
    def vc_id(self) -> int:
        """The virtual cluster of its job."""
        return self.job.vc_id

    @property
    def gpus(self) -> int:
        """How many GPUs it holds."""
        return sum(len(share.gpu_ids) for share in self.allocations)

    @property
    def stopping(self) -> bool:
        """Whether it is on its way out already."""
        return self.state is AttemptState.STOPPING

    def attained_gpu_s(self, now: float) -> float:
        """GPU-seconds that the job has had, this attempt included."""
        return self.job.attained_gpu_s + self.gpus * max(0.0, now - self.placed_at)

    def ran_s(self, now: float) -> float:
        """Seconds with GPUs that the job has had, this attempt included."""
        return self.job.ran_s + max(0.0, now - self.placed_at)

    @property
    def work_rate(self) -> float:
        """Seconds of predicted work done in each second: 1 at the speed for which the run time was predicted."""
        if self.progress is not None:
            return self.progress
        return self.job.speed_on(self.gpus) if self.job.speeds else 1.0

    def remaining_s(self, now: float) -> float | None:
        """Predicted work that is left, in seconds on what the job asks for, less what it did since it was placed.

        A prediction that was too short leaves nothing, not less.
        """
        if self.job.remaining_s is None:
            return None
        return max(0.0, self.job.remaining_s - self.work_rate * max(0.0, now - self.placed_at))


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs that wait for one job while those who still hold them stop; nobody else gets them before `until`.

    Those that are offered to a scheduler outside wait for it to answer: then `job_id` is minus the offer's id, which no
    job has; see `scheduler.outside.offers`.
    """

    job_id: int
    allocations: tuple[AllocationView, ...]
    until: float

    @property
    def offered(self) -> bool:
        """Whether they wait for an answer, and not for a job that is known."""
        return self.job_id < 0
