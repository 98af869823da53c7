"""Time slicing: a node hosts more jobs than it has GPUs for; each runs for a slice and is then suspended.

1. A job whose slice is over runs on while no job needs its GPUs.
2. Suspended jobs are served in the order of their suspension. Each takes GPUs from jobs on its nodes whose slice is
   over, longest running first.
3. A job that cannot have enough GPUs yet reserves its nodes against later jobs, unless these would end their slice
   before it can begin.
4. A suspended job stays suspended for at least one slice: of n jobs with room for n - 1, one is suspended at the end of
   a slice, not each in a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler.authoring import Job, Locality, Running
from scheduler.policies.gandiva.job_state import (
    NEXT_CHECK,
    SliceNodes,
    lasting_state,
    slice_nodes_left_by,
    slice_nodes_state,
)
from scheduler.policies.gandiva.nodes import Nodes
from scheduler.policies.preemptive import SOON_S
from scheduler.workshop import CycleContext, Demand


class TimeSlices:
    """The time slices during one decision."""

    def __init__(self, context: CycleContext, nodes: Nodes, max_height: float) -> None:
        self.context, self.nodes = context, nodes
        self.slice_s, self.max_height = nodes.slice_s, max_height
        # (node id, virtual cluster, GPU type) -> GPUs whose slice begins now
        self._begun: Counter[tuple[int, int, str | None]] = Counter()
        self._by_affinity: dict[int, list[int]] | None = None  # ids of the nodes of each affinity

    def begin(self, job: Job, slice_nodes: SliceNodes) -> bool:
        """Begin the job's slice on free GPUs of its nodes, or in place of jobs whose slice is over; True if so."""
        context = self.context
        if any(map(self.nodes.is_blocked, slice_nodes)):
            return False
        if context.limit_reached:
            context.deferred.add(job.id)
            return False
        return any(
            self._begin(job, demand, slice_nodes)
            for demand in context.demands(job)
            if context.state.capacity.infeasible(demand) is None
        )

    def may_displace(self, job: Job) -> bool:
        """True if the job has been suspended for long enough to displace others."""
        return self.nodes.may_displace_at(job) <= self.context.now + SOON_S

    def next_slice_at(self, job: Job, slice_nodes: SliceNodes) -> float | None:
        """The time at which enough GPUs come free for the job's slice by themselves; None: never on these nodes."""
        moments = [self._when(demand, slice_nodes) for demand in self.context.demands(job)]
        known = [moment for moment in moments if moment is not None]
        return max(min(known), self.nodes.may_displace_at(job)) if known else None

    def wait(self, job: Job, slice_nodes: SliceNodes, at: float) -> float:
        """The next check of a job whose slice can begin at this moment; reserves its nodes if necessary."""
        now = self.context.now
        if at <= now + SOON_S:  # it lacks something else: a place in this cycle, or for instance quota
            return now if job.id in self.context.deferred else now + self.slice_s
        if self.may_displace(job) and at < now + self.slice_s - SOON_S:
            self.nodes.block(slice_nodes)
        return at

    def find_slice_nodes(self, job: Job, demands: Sequence[Demand], *, own: bool) -> SliceNodes | None:
        """Nodes on which the job can time-slice: nodes that host jobs of its size, the least loaded first.

        With `own`, the other jobs must be of its virtual cluster, which has no quota left.
        """
        if not job.request.needs_gpus or not (job.checkpoints and job.preemptible):
            return None
        for demand in demands:
            if self.context.state.capacity.infeasible(demand) is not None:
                continue
            ranked = sorted(self._ranked(job, demand), key=lambda one: one[:3])
            for _, _, _, slice_nodes in ranked:
                enough = all(
                    self._sliceable_gpus(node_id, demand.gpu_type, job.vc_id if own else None) >= gpus
                    for node_id, gpus in slice_nodes.items()
                )
                if enough:
                    return slice_nodes
        return None

    def is_suspendable(self, run: Running) -> bool:
        """True if a running job can be suspended at all."""
        return run.job.preemptible and run.job.checkpoints

    def placed(self, job: Job) -> None:
        """Note that the job was placed: its slice begins now, and the affinities of nodes change."""
        self._by_affinity = None
        for share in self.context.places[job.id].allocations:
            for gpu_id in share.gpu_ids:
                self._begun[share.node_id, job.vc_id, self.nodes.free.type_of(gpu_id)] += 1

    def _over_at(self, run: Running) -> float:
        return run.placed_at + self.slice_s

    def _begin(self, job: Job, demand: Demand, slice_nodes: SliceNodes) -> bool:
        context, nodes = self.context, self.nodes
        gone: list[Running] = []
        found = None if context.quota_denial(job, demand) else nodes.place_on(demand, slice_nodes)
        if found is None and self.may_displace(job):
            poor = context.quota_denial(job, demand) is not None
            for run in self._expired(job, slice_nodes, first_of=job.vc_id if poor else None):
                if not self._brings_closer(run, job, demand, slice_nodes):
                    continue
                context.release(run)
                gone.append(run)
                found = None if context.quota_denial(job, demand) else nodes.place_on(demand, slice_nodes)
                if found is not None:
                    break
        if found is None:
            for run in reversed(gone):
                context.undo_release(run)
            return False
        context.take(job, found)
        self.placed(job)
        for run in reversed(gone):
            if context.can_stay(run):
                context.undo_release(run)
                continue
            left = slice_nodes_left_by(run)
            context.preempt(run, job.id, "its time slice is over, and another job's begins")
            context.note(
                run.job,
                run,
                {**lasting_state(run.job), **slice_nodes_state(left), NEXT_CHECK: context.now + self.slice_s},
            )
            nodes.host(run.job, left, 1)
        return True

    def _expired(self, job: Job, slice_nodes: SliceNodes, first_of: int | None) -> list[Running]:
        """The jobs on these nodes whose slice is over, longest running first."""
        there = {
            run.job.id: run for node_id in slice_nodes if self._known(node_id) for run in self.nodes.runs_on(node_id)
        }
        over = [
            run
            for run in there.values()
            if self._over_at(run) <= self.context.now + SOON_S
            and self.is_suspendable(run)
            and not self.context.on_loan(job, run)
        ]
        return sorted(over, key=lambda run: (first_of not in (None, run.vc_id), run.placed_at, run.job.id))

    def _brings_closer(self, run: Running, job: Job, demand: Demand, slice_nodes: SliceNodes) -> bool:
        """True if stopping this run brings the job closer to its slice."""
        if run.vc_id == job.vc_id and self.context.quota_denial(job, demand) is not None:
            return True
        held = (share for share in run.allocations if share.node_id in slice_nodes)
        return any(self.nodes.place_on(demand, {share.node_id: slice_nodes[share.node_id]}) is None for share in held)

    def _known(self, node_id: int) -> bool:
        return node_id in self.context.view.node_by_id and self.nodes.free.node(node_id) is not None

    def _when(self, demand: Demand, slice_nodes: SliceNodes) -> float | None:
        now, at = self.context.now, self.context.now
        for node_id, gpus in slice_nodes.items():
            node = self.nodes.free.node(node_id)
            if node is None:
                return None
            takable, ends = self.nodes.gpus_of(node_id, demand.gpu_type), list[tuple[float, int]]()
            for run in self.nodes.runs_on(node_id):
                held = self.nodes.held(run, node_id, demand.gpu_type)
                if self.is_suspendable(run):
                    ends.append((max(now, self._over_at(run)), held))
                else:
                    takable -= held
            if takable < gpus:
                return None
            ends.sort()
            lacking = gpus - node.count(demand.gpu_type)
            # All other GPUs, such as those of slices that begin now, are available after one slice.
            for over_at, held in (*ends, (now + self.slice_s, lacking)):
                if lacking > 0:
                    at = max(at, over_at)
                    lacking -= held
        return at

    def _sliceable_gpus(self, node_id: int, gpu_type: str | None, vc_id: int | None) -> int:
        """The GPUs of the type that a node can time-slice: all but those of jobs that cannot be suspended.

        With a virtual cluster, only GPUs that its own jobs hold.
        """
        if not self._known(node_id):
            return 0
        runs = list(self.nodes.runs_on(node_id))
        if vc_id is not None:
            own = (run for run in runs if self.is_suspendable(run) and run.vc_id == vc_id)
            return self._begun[node_id, vc_id, gpu_type] + sum(self.nodes.held(run, node_id, gpu_type) for run in own)
        return self.nodes.gpus_of(node_id, gpu_type) - sum(
            self.nodes.held(run, node_id, gpu_type) for run in runs if not self.is_suspendable(run)
        )

    def _ranked(self, job: Job, demand: Demand) -> Iterator[tuple[bool, float, tuple[int, ...], SliceNodes]]:
        """Each place that hosts jobs of this size: whether it is a last choice, its height, and its nodes."""
        size = demand.gpus * demand.nodes
        ids = self._affine(size)
        for slice_nodes in self._candidate_nodes(job, demand, ids):
            free_nodes = [node for node in map(self.nodes.free.node, slice_nodes) if node is not None]
            grown = [self.nodes.height(node) + slice_nodes[node.id] / self.nodes.gpus(node.id) for node in free_nodes]
            if len(grown) == len(slice_nodes) and max(grown) <= self.max_height + SOON_S:
                last_choice = any(node_id in job.avoid_nodes for node_id in slice_nodes)
                yield last_choice, max(grown), tuple(node.place for node in free_nodes), slice_nodes

    def _candidate_nodes(self, job: Job, demand: Demand, ids: Sequence[int]) -> Iterator[SliceNodes]:
        size, whole = demand.gpus * demand.nodes, set(ids)
        if demand.nodes == 1:
            for node_id in ids:
                if self._sliceable_gpus(node_id, demand.gpu_type, None) >= size:
                    yield {node_id: size}
        if demand.within is Locality.NODE or (demand.nodes == 1 and not demand.divisible):
            return
        # A job of several nodes time-slices with one of its own size, on all nodes of that job.
        seen = set[tuple[int, ...]]()
        for slice_nodes in self._multi_node_candidates(ids, size):
            racks = {self.context.view.node_by_id[node_id].rack for node_id in slice_nodes}
            alike = len(slice_nodes) > 1 and (demand.divisible or set(slice_nodes.values()) == {demand.gpus})
            if alike and whole >= slice_nodes.keys() and not (demand.within is Locality.RACK and len(racks) > 1):
                if tuple(slice_nodes) not in seen:
                    yield slice_nodes
                seen.add(tuple(slice_nodes))

    def _multi_node_candidates(self, ids: Sequence[int], size: int) -> Iterator[SliceNodes]:
        runs = {run.job.id: run for node_id in ids for run in self.nodes.runs_on(node_id)}
        for run in runs.values():
            if run.job.request.gpus_total == size and self.is_suspendable(run):
                yield slice_nodes_left_by(run)
        for one in self.nodes.suspended.of_size(size):
            yield one.slice_nodes

    def _affine(self, size: int) -> Sequence[int]:
        if self._by_affinity is None:
            self._by_affinity = {}
            for node in self.nodes.free.by_fit(None, 0):
                self._by_affinity.setdefault(self.nodes.affinity(node), []).append(node.id)
        return self._by_affinity.get(size, ())
