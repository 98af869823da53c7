"""Gavel: shares of time by job and GPU type; docs/policies/gavel.md describes the objectives and their costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import ClassVar

from scheduler.authoring import Cycle, IdleGpus, Need, RoundPolicy, Shares, Solve, param
from scheduler.policies.gavel import large, objectives
from scheduler.policies.gavel.hierarchy import hierarchical
from scheduler.policies.gavel.large import Equal
from scheduler.policies.gavel.matching import allox
from scheduler.policies.gavel.objectives import needed_rates
from scheduler.policies.gavel.pairs import random_pairs, with_pairs
from scheduler.policies.gavel.problem import Floats, Problem, problem_of, shares_of

OBJECTIVES = (
    *("max_min", "finish_time", "makespan", "throughput", "cost", "fifo", "allox", "gandiva_fair", "random_pairs"),
    "hierarchical",
)
# Beyond this, the pairs would be more than a cycle can look at.
MAX_PAIRED_JOBS = 256
_EQUAL = {"max_min": Equal.RATES, "throughput": Equal.RATES, "cost": Equal.RATES, "gandiva_fair": Equal.RATES}
_WITHOUT_RATES = ("gandiva_fair", "random_pairs")
_WITH_REMAINING = ("finish_time", "makespan", "allox", "cost")
_SIMPLE: Mapping[str, Callable[[Problem], Floats]] = {
    "max_min": objectives.max_min,
    "makespan": objectives.makespan,
    "throughput": objectives.throughput,
    "gandiva_fair": objectives.gandiva_fair,
}

# Where the objective is the minimum of scale · effective rate, the loss of parts has a bound.
_SCALES: Mapping[str, Callable[[Problem], Floats]] = {
    "max_min": objectives.level_scale,
    "makespan": lambda problem: 1.0 / objectives.remaining(problem),
}


@dataclass(frozen=True, slots=True)
class Gavel(RoundPolicy):
    """Solves for the share of time of each job on each GPU type, and hands the shares out in rounds.

    Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
    """

    objective: str = param(
        "max_min",
        "The aim of the shares. All but gandiva_fair and random_pairs need rates; finish_time, makespan"
        " and allox need remaining times, and so does cost for jobs with deadlines.",
        enum=list(OBJECTIVES),
    )
    aware: bool = param(True, "Use each job's rate on each GPU type; otherwise all types count as equally fast.")
    round_s: float = param(360, "The length of a round.", minimum=1)
    reset_s: float = param(
        1920, "The shortest time between two solves; a solve follows jobs that come or go.", minimum=0
    )
    idle_gpus: str = param(
        "all",
        "Who may take GPUs that no share claims: all jobs at any moment, jobs that the last solve knew, or"
        " only jobs with a share of that type.",
        enum=[str(one) for one in IdleGpus],
    )
    prices: Mapping[str, float] = param(
        {},
        "The price of a GPU-hour by GPU type, for the objective cost; others cost 1.",
        additionalProperties={"type": "number", "exclusiveMinimum": 0},
    )
    within: str = param(
        "fair",
        "For the objective hierarchical: the division of a tenant's share between its jobs.",
        enum=["fair", "fifo"],
    )
    shares_gpus: bool = param(False, "Let two jobs that allow it share their GPUs if that is faster than taking turns.")
    exact_up_to: int = param(
        2048,
        "With more jobs, equal jobs are solved as one; with more kinds of jobs, random parts are solved apart.",
        minimum=8,
    )

    preemptive: ClassVar[bool] = True

    @property
    def needs(self) -> frozenset[Need]:
        """By the objective; without `aware` all types count as equally fast."""
        return frozenset(
            ({Need.RATES} if self.aware and self.objective not in _WITHOUT_RATES else set())
            | ({Need.REMAINING} if self.objective in _WITH_REMAINING else set())
        )

    @property
    def shuffles_types(self) -> bool:
        """Without `aware` no type comes first."""
        return not self.aware

    def order_types(self, cycle: Cycle) -> Sequence[str]:
        """The type first that is fastest on average over the jobs, relative to each one's fastest."""
        if not self.aware:
            return sorted(cycle.supply())
        problem = problem_of(cycle, aware=True)
        if not len(problem):
            return sorted(cycle.supply())
        speed = (problem.rates / problem.rates.max(axis=1, keepdims=True)).mean(axis=0)
        fastest = dict(zip(problem.types, speed, strict=True))
        return sorted(cycle.supply(), key=lambda kind: (-fastest.get(kind, 0.0), kind))

    def shares(self, cycle: Cycle) -> Shares:
        problem = problem_of(cycle, aware=self.aware)
        if not len(problem):
            return {}
        if (self.shares_gpus or self.objective == "random_pairs") and len(problem) <= MAX_PAIRED_JOBS:
            problem = with_pairs(cycle, problem, only_faster=self.objective != "random_pairs")
        return shares_of(problem, self._solve(cycle, problem))

    def _solve(self, cycle: Cycle, problem: Problem) -> Floats:
        if self.objective == "fifo":
            return objectives.fifo(problem)
        if self.objective == "allox":
            return self._match(cycle, problem)
        if self.objective == "random_pairs":
            return self._draw(cycle, problem)
        equal = _EQUAL.get(self.objective, Equal.NONE)
        if self.objective == "hierarchical" and self.within == "fair":
            equal = Equal.TENANT
        if self.objective == "cost" and needed_rates(problem).any():
            equal = Equal.NONE
        solved = large.solve(
            problem,
            self._objective(cycle, problem),
            exact_up_to=self.exact_up_to,
            equal=equal,
            seed=cycle.seed,
        )
        lost = None
        if solved.parts > 1 and self.objective in _SCALES:
            scale = _SCALES[self.objective](problem)
            found = float((scale * objectives.effective(problem, solved.x)).min())
            lost = max(0.0, 1.0 - found / large.highest_level(problem, scale))
        cycle.solve = Solve(len(problem), solved.rows, solved.parts, lost)
        return solved.x

    def _objective(self, cycle: Cycle, problem: Problem) -> large.Objective:
        match self.objective:
            case "cost":
                return partial(objectives.cost, prices=self.prices)
            case "hierarchical":
                return partial(hierarchical, fifo_within=self.within == "fifo")
            case "finish_time":
                return partial(objectives.finish_time, isolated_s=self._isolated_s(cycle, problem))
            case _:
                return _SIMPLE[self.objective]

    def _match(self, cycle: Cycle, problem: Problem) -> Floats:
        """The matching of AlloX. A job remembers the type that it got, as a number under the type's name."""
        jobs = {job.id: job for job in [*cycle.waiting(), *(run.job for run in cycle.running())]}
        kept = {job_id: next(iter(jobs[job_id].policy_state), "") for job_id in problem.ids}
        x = allox(problem, kept)
        for row, job_id in enumerate(problem.ids):
            memo = {problem.types[int(x[row].argmax())]: 1.0} if x[row].any() else {}
            if memo != jobs[job_id].policy_state:
                cycle.note(jobs[job_id], memo)
        return x

    def _draw(self, cycle: Cycle, problem: Problem) -> Floats:
        """The pairs of Gandiva's random packing. A job remembers its partner."""
        jobs = {job.id: job for job in [*cycle.waiting(), *(run.job for run in cycle.running())]}
        kept = {job_id: int(jobs[job_id].policy_state.get("partner", 0)) for job_id in problem.ids}
        x, partners = random_pairs(problem, kept, Random(f"{cycle.seed}:{cycle.now}"))  # noqa: S311
        for job_id in problem.ids:
            memo = {"partner": float(partners[job_id])} if job_id in partners else {}
            if memo != jobs[job_id].policy_state:
                cycle.note(jobs[job_id], memo)
        return x

    def _isolated_s(self, cycle: Cycle, problem: Problem) -> Mapping[int, float]:
        """The time that each job's work so far would have taken alone on its part of the pool, s, by id.

        It grows from solve to solve by the work done in between, at the isolated rate of the solve before.
        """
        jobs = {job.id: job for job in [*cycle.waiting(), *(run.job for run in cycle.running())]}
        left, rates = objectives.remaining(problem), objectives.isolated_rates(problem)
        spent_s: dict[int, float] = {}
        for job_id, now_left, rate in zip(problem.ids, left.tolist(), rates.tolist(), strict=True):
            memo = jobs[job_id].policy_state
            spent_s[job_id] = 0.0
            if memo.get("isolated_rate", 0.0) > 0:
                spent_s[job_id] = memo["isolated_s"] + max(0.0, memo["left"] - now_left) / memo["isolated_rate"]
            cycle.note(jobs[job_id], {"isolated_s": spent_s[job_id], "left": now_left, "isolated_rate": rate})
        return spent_s
