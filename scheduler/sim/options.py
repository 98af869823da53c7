"""The assumptions of a simulation: how it decides, and what a decision costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.engine.cycle import CycleConfig
from scheduler.sim.failures import Failures
from scheduler.sim.readers import Peer
from scheduler.sim.screening import Screening


class Oracle(StrEnum):
    """Run times that the scheduler knows."""

    PERFECT = "perfect"
    LEARNED = "learned"  # as in production: from what has ended; see `scheduler.sim.learned`
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Options:
    """The assumptions of one run; times in seconds.

    Peers' simulators are reproduced with these options, never with another scheduler.
    """

    policy: str = "fifo"
    policy_params: Mapping[str, object] = field(default_factory=dict)
    placement: str = "consolidate"
    placement_params: Mapping[str, object] = field(default_factory=dict)
    admission: str = "quota"
    admission_params: Mapping[str, object] = field(default_factory=dict)
    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # an unnamed vc may use everything
    round_s: float = 0.0  # decide at multiples of this only; 0 = at every event
    first_round_s: float = 0.0  # and not before this
    restart_s: float = 0.0  # with GPUs but without progress, at each start
    first_start_s: float | None = None  # the same for the first start; None = like any other
    whole_ends: bool = False  # record ends as whole seconds; the GPUs are still freed at the exact end
    grace_s: float = 0.0  # how long a preempted job holds its GPUs to save its state
    interference: float = 0.0  # lost speed of distributed jobs that share a node, 0 to 1
    spread_penalty: float = 0.0  # lost speed of a job on more than one node, 0 to 1
    rack_penalty: float = 0.0  # additional lost speed of a job in more than one rack, 0 to 1
    share: bool = False  # jobs may share their GPUs if the policy supports it; see `scheduler.sim.sharing`
    oracle: Oracle = Oracle.PERFECT
    rate_noise: float = 0.0  # standard deviation of log(rate that the scheduler is told / rate), by job and GPU type
    failures: Failures = Failures.NONE  # the source of failures and cancellations
    retries: int = 1  # of a failing job, each from the beginning
    retry_hopeless: bool = True  # also where every attempt fails
    retry_after_s: float = 0.0  # between a failure and the next attempt's place in the queue
    screening: Screening | None = None  # screen gangs on a small pool first
    one_node: bool = False  # jobs that fit on one node run on one node
    opportunistic: bool = False  # jobs that their quota has no room for wait as opportunistic ones
    seed: int = 0
    spans: bool = False  # keep which GPUs each job held
    skip_infeasible: bool = False  # leave out jobs that the cluster could never run, instead of refusing the trace
    audit_every: int = 1_000  # events between two full consistency checks

    @classmethod
    def like(cls, peer: Peer, policy: str) -> Options:
        """The assumptions that a format's authors make in their own simulator."""
        return cls(
            policy=policy,
            policy_params=peer.policies.get(policy, {}),
            placement=peer.placement,
            round_s=peer.round_s or 0.0,
            first_round_s=peer.first_round_s,
            restart_s=peer.restart_s,
            whole_ends=peer.whole_ends,
        )

    @classmethod
    def of(cls, config: CycleConfig, policy: str) -> Options:
        """Options under which the simulator acts like a pool with this configuration and this policy."""
        return cls(
            policy=policy,
            policy_params=config.policy_params if policy == config.policy else {},
            placement=config.placement,
            placement_params=config.placement_params,
            admission=config.admission,
            admission_params=config.admission_params,
        )

    @property
    def retries_hopeless(self) -> bool:
        """True if hopeless jobs are retried: unless the run, or a parameter of its policy, forbids it."""
        return self.retry_hopeless and not self.policy_params.get("no_retry_of_hopeless", False)

    @property
    def config(self) -> CycleConfig:
        """The pool's configuration in production for these decisions, without a limit on places per cycle."""
        return CycleConfig(
            policy=self.policy,
            policy_params=self.policy_params,
            placement=self.placement,
            placement_params=self.placement_params,
            admission=self.admission,
            admission_params=self.admission_params,
            max_places=1_000_000_000,
        )
