"""Speeds of jobs in their places: alone, beside others on their GPUs, spread over nodes and racks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.model import Running
from scheduler.sim.options import Options
from scheduler.sim.sharing import Sharing
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import Layout
from scheduler.sim.world import World

# The time over which a speed is measured: so short that hardly any job ends within it.
_MEASUREMENT_S = 1e-3


@dataclass(slots=True)
class Execution:
    """The execution of a job: its progress, and its speed since a moment."""

    done: float = 0.0
    version: int = 0  # raised whenever scheduled events of the job become invalid
    since: float = 0.0
    gpu_type: str = ""
    layout: Layout = ()
    speed: float = 1.0
    useful_gpu_s: float = 0.0  # computed in this attempt and not lost


class Speeds:
    """The speeds of the running jobs of one simulation; only where it `measures` are policies told of them."""

    def __init__(
        self,
        world: World,
        options: Options,
        jobs: Mapping[int, TraceJob],
        executions: Mapping[int, Execution],
        sharing: Sharing,
        *,
        measures: bool,
    ) -> None:
        self._world, self._options, self._jobs, self._executions = world, options, jobs, executions
        self._sharing, self._measures = sharing, measures
        self._distributed: Counter[int] = Counter()  # jobs on several nodes, by node

    def changed_by(self, run: Running, times: int) -> Iterable[int]:
        """Count a distributed job on its nodes; returns the jobs there and on its GPUs whose speed changes."""
        if run.job.request.shares_gpu:
            return sorted({*self._sharing_jobs(run), *self.interfered_by(run, times)})
        return self.interfered_by(run, times)

    def interfered_by(self, run: Running, times: int) -> Iterable[int]:
        """Count a distributed job on its nodes; returns the distributed jobs there."""
        if len(run.allocations) < 2 or not self._options.interference:
            return ()
        affected: set[int] = set()
        for share in run.allocations:
            self._distributed[share.node_id] += times
            node = self._world.node_by_id[share.node_id]
            affected |= {holder for gpu in node.gpus for holder in self._world.holders_of_gpu.get(gpu.id, ())}
        return sorted(job_id for job_id in affected - {run.job.id} if len(self._executions[job_id].layout) > 1)

    def _sharing_jobs(self, run: Running) -> Iterable[int]:
        """The ids of the jobs that share GPUs with this one."""
        held = (gpu_id for share in run.allocations for gpu_id in share.gpu_ids)
        there = {job_id for gpu_id in held for job_id in self._world.holders_of_gpu.get(gpu_id, ())}
        return sorted(there - {run.job.id})

    def shared_rate(self, run: Running) -> float | None:
        """The job's lowest speed beside the jobs that share its GPUs; None if none does."""
        if not run.job.request.shares_gpu:
            return None
        job, gpu_type = self._jobs[run.job.id], self._executions[run.job.id].gpu_type
        return min(
            (self._sharing.rate(job, self._jobs[other], gpu_type) for other in self._sharing_jobs(run)),
            default=None,
        )

    def measured(self, run: Running) -> float | None:
        """The job's progress per second in its place, if the policy judges by it."""
        if not self._measures or not (len(run.allocations) > 1 or run.job.request.max_gpus or run.job.policy_state):
            return None
        execution, work = self._executions[run.job.id], self._jobs[run.job.id].work
        done = work.advance(execution.done, execution.gpu_type, execution.layout, execution.speed, _MEASUREMENT_S)
        return (done - execution.done) / _MEASUREMENT_S

    def of(self, run: Running, rate: float | None) -> float:
        """The job's speed relative to alone on near GPUs; `rate` is that beside the jobs that share them."""
        options, speed = self._options, 1.0 if rate is None else rate
        if len(run.allocations) < 2:
            return speed
        speed *= 1.0 - options.spread_penalty
        if options.rack_penalty and len({self._world.node_by_id[one.node_id].rack for one in run.allocations}) > 1:
            speed *= 1.0 - options.rack_penalty
        if options.interference and any(self._distributed[one.node_id] > 1 for one in run.allocations):
            speed *= 1.0 - options.interference
        return speed
