"""Max-min fairness over GPU types: the slowest job, relative to an equal share of the pool, is as fast as can be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from scheduler.authoring import Config, Cycle, Job, PolicyError, RoundPolicy, Shares, param, preferred


@dataclass(frozen=True, slots=True)
class MaxMin(RoundPolicy):
    """Gives each job the shares of time of the GPU types that make the slowest job fastest."""

    round_s: float = param(360, "The length of a round.", minimum=1)

    def shares(self, cycle: Cycle) -> Shares:
        """Solve for x[job, type], the share of time of each job on each type, and t, the relative speed of the slowest.

        Maximise t, where for each job Σ speed · x ≥ t · (its speed with an equal share), Σ x ≤ 1, and for each type
        Σ GPUs · x ≤ supply.
        """
        jobs = sorted([*cycle.waiting(), *(run.job for run in cycle.running())], key=lambda job: job.id)
        supply = {kind: gpus for kind, gpus in cycle.supply().items() if gpus}
        choices = [(job, config) for job in jobs for config in preferred(cycle.configs(job)).values()]
        options = [(job, config) for job, config in choices if config.gpu_type in supply]
        if not options:
            return {}
        rows = {job.id: row for row, job in enumerate({job.id: job for job, _ in options}.values())}
        columns = len(options) + 1
        slower, whole = np.zeros((len(rows), columns)), np.zeros((len(rows), columns))
        types = {kind: row for row, kind in enumerate(sorted(supply))}
        used = np.zeros((len(types), columns))
        for column, (job, config) in enumerate(options):
            speed = self.speed(cycle, job, config)
            slower[rows[job.id], column] = -speed
            slower[rows[job.id], -1] += speed * supply[str(config.gpu_type)] / sum(supply.values()) / len(rows)
            whole[rows[job.id], column] = 1
            used[types[str(config.gpu_type)], column] = config.gpus
        limits = np.concatenate([np.zeros(len(rows)), np.ones(len(rows)), [supply[kind] for kind in sorted(supply)]])
        goal = np.zeros(columns)
        goal[-1] = -1
        solved = linprog(goal, A_ub=np.concatenate([slower, whole, used]), b_ub=limits, method="highs-ds")
        if not solved.success:
            raise PolicyError(f"the program has no solution: {solved.message}")
        shares: dict[int, dict[str, float]] = {}
        for (job, config), share in zip(options, solved.x[:-1], strict=True):
            shares.setdefault(job.id, {})[str(config.gpu_type)] = float(min(1.0, max(0.0, share)))
        return shares

    def speed(self, cycle: Cycle, job: Job, config: Config) -> float:
        """The speed of the job where it is known; jobs of unknown speed are as fast on all types."""
        rate = cycle.rate(job, config)
        return 1.0 if rate is None else rate.mean
