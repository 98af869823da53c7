"""Taking turns: more jobs than a node has GPUs for, each of which runs for a while and is then suspended.

1. A job whose turn is over runs on while nobody wants its GPUs.
2. Those that wait for a turn at their home are asked in the order in which they were suspended. Each takes GPUs from
   jobs there whose turn is over, those first that have been running for longest.
3. One who cannot have enough of them yet keeps its nodes from those who would begin later, unless they would be over by
   the time at which it can begin.
4. Who was suspended stays so for as long as a turn takes: of n jobs with room for n - 1 one goes at the end of a turn,
   not each in a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler.engine.context import CycleContext
from scheduler.model import Job, Locality, Running
from scheduler.placement.free import Demand
from scheduler.policies.gandiva.homes import NEXT, Home, home_left_by, home_memo, kept_memo
from scheduler.policies.gandiva.nodes import Nodes
from scheduler.policies.preemptive import SOON_S


class Turns:
    """The turns during one decision."""

    def __init__(self, context: CycleContext, nodes: Nodes, max_height: float) -> None:
        self.context, self.nodes = context, nodes
        self.turn_s, self.max_height = nodes.turn_s, max_height
        # (node id, virtual cluster, GPU type) -> GPUs whose turn begins now
        self._begun: Counter[tuple[int, int, str | None]] = Counter()
        self._by_affinity: dict[int, list[int]] | None = None  # ids of the nodes of each affinity

    def begin(self, job: Job, home: Home) -> bool:
        """Whether the job has got its turn: GPUs of its home that are free, or with jobs whose turn is over."""
        context = self.context
        if any(map(self.nodes.is_blocked, home)):
            return False
        if context.limit_reached:
            context.deferred.add(job.id)
            return False
        return any(
            self._begin(job, demand, home)
            for demand in context.demands(job)
            if context.state.capacity.infeasible(demand) is None
        )

    def rested(self, job: Job) -> bool:
        """Whether the job has been suspended for long enough to take from others."""
        return self.nodes.rested_at(job) <= self.context.now + SOON_S

    def when(self, job: Job, home: Home) -> float | None:
        """When the job can have its turn if nothing else happens, as far as GPUs go; None: never at this home."""
        moments = [self._when(demand, home) for demand in self.context.demands(job)]
        known = [moment for moment in moments if moment is not None]
        return max(min(known), self.nodes.rested_at(job)) if known else None

    def wait(self, job: Job, home: Home, at: float) -> float:
        """When to look again at a job that can have its turn at this moment; keeps its nodes for it if need be."""
        now = self.context.now
        if at <= now + SOON_S:  # it lacks something else: a place in this cycle, else such as quota
            return now if job.id in self.context.deferred else now + self.turn_s
        if self.rested(job) and at < now + self.turn_s - SOON_S:
            self.nodes.block(home)
        return at

    def home_for(self, job: Job, demands: Sequence[Demand], *, own: bool) -> Home | None:
        """Where the job could take turns: nodes that host jobs of its size, the least loaded first.

        With `own`, those with whom it takes turns must be of its virtual cluster, which has no quota left.
        """
        if not job.gpus or not (job.checkpoints and job.preemptible):
            return None
        for demand in demands:
            if self.context.state.capacity.infeasible(demand) is not None:
                continue
            ranked = sorted(self._ranked(job, demand), key=lambda one: one[:3])
            for _, _, _, home in ranked:
                enough = all(
                    self._takable(node_id, demand.gpu_type, job.vc_id if own else None) >= gpus
                    for node_id, gpus in home.items()
                )
                if enough:
                    return home
        return None

    def may_go(self, run: Running) -> bool:
        """Whether a running job can be suspended at all."""
        return run.job.preemptible and run.job.checkpoints

    def placed(self, job: Job) -> None:
        """The job has got its place: its turn begins now, and who is hosted where has to be looked at again."""
        self._by_affinity = None
        for share in self.context.places[job.id].allocations:
            for gpu_id in share.gpu_ids:
                self._begun[share.node_id, job.vc_id, self.nodes.free.type_of(gpu_id)] += 1

    def _over_at(self, run: Running) -> float:
        return run.placed_at + self.turn_s

    def _begin(self, job: Job, demand: Demand, home: Home) -> bool:
        context, nodes = self.context, self.nodes
        gone: list[Running] = []
        found = None if context.quota_denial(job, demand) else nodes.room(demand, home)
        if found is None and self.rested(job):
            poor = context.quota_denial(job, demand) is not None
            for run in self._over(job, home, first_of=job.vc_id if poor else None):
                if not self._helps(run, job, demand, home):
                    continue
                context.release(run)
                gone.append(run)
                found = None if context.quota_denial(job, demand) else nodes.room(demand, home)
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
            left = home_left_by(run)
            context.preempt(run, job.id, "its turn is over, and another job takes its own")
            context.note(run.job, run, {**kept_memo(run.job), **home_memo(left), NEXT: context.now + self.turn_s})
            nodes.host(run.job, left, 1)
        return True

    def _over(self, job: Job, home: Home, first_of: int | None) -> list[Running]:
        """The jobs there whose turn is over, the one that has been running for longest first."""
        there = {run.job.id: run for node_id in home if self._known(node_id) for run in self.nodes.runs_on(node_id)}
        over = [
            run
            for run in there.values()
            if self._over_at(run) <= self.context.now + SOON_S and self.may_go(run) and not self._on_loan(job, run)
        ]
        return sorted(over, key=lambda run: (first_of not in (None, run.vc_id), run.placed_at, run.job.id))

    def _on_loan(self, job: Job, run: Running) -> bool:
        """Whether the job would have what it gets only until the other one wants it back."""
        return self.context.admission.reclaims and self.context.admission.reclaimable_by(job, run.job)

    def _helps(self, run: Running, job: Job, demand: Demand, home: Home) -> bool:
        """Whether the job at home is nearer to its turn once this one lets go."""
        if run.vc_id == job.vc_id and self.context.quota_denial(job, demand) is not None:
            return True
        held = (share for share in run.allocations if share.node_id in home)
        return any(self.nodes.room(demand, {share.node_id: home[share.node_id]}) is None for share in held)

    def _known(self, node_id: int) -> bool:
        return node_id in self.context.view.node_by_id and self.nodes.free.node(node_id) is not None

    def _when(self, demand: Demand, home: Home) -> float | None:
        now, at = self.context.now, self.context.now
        for node_id, gpus in home.items():
            node = self.nodes.free.node(node_id)
            if node is None:
                return None
            takable, ends = self.nodes.gpus_of(node_id, demand.gpu_type), list[tuple[float, int]]()
            for run in self.nodes.runs_on(node_id):
                held = self.nodes.held(run, node_id, demand.gpu_type)
                if self.may_go(run):
                    ends.append((max(now, self._over_at(run)), held))
                else:
                    takable -= held
            if takable < gpus:
                return None
            ends.sort()
            lacking = gpus - node.count(demand.gpu_type)
            # Whatever else there is, such as a turn that begins now, is over a turn from now.
            for over_at, held in (*ends, (now + self.turn_s, lacking)):
                if lacking > 0:
                    at = max(at, over_at)
                    lacking -= held
        return at

    def _takable(self, node_id: int, gpu_type: str | None, vc_id: int | None) -> int:
        """How many GPUs of the type a node can give to turns: all but those of jobs that cannot be suspended.

        With a virtual cluster, only those that its own jobs hold.
        """
        if not self._known(node_id):
            return 0
        runs = list(self.nodes.runs_on(node_id))
        if vc_id is not None:
            own = (run for run in runs if self.may_go(run) and run.vc_id == vc_id)
            return self._begun[node_id, vc_id, gpu_type] + sum(self.nodes.held(run, node_id, gpu_type) for run in own)
        return self.nodes.gpus_of(node_id, gpu_type) - sum(
            self.nodes.held(run, node_id, gpu_type) for run in runs if not self.may_go(run)
        )

    def _ranked(self, job: Job, demand: Demand) -> Iterator[tuple[bool, float, tuple[int, ...], Home]]:
        """Each place at which jobs of this size are, by whether it is a last choice, its height, and its nodes."""
        size = demand.gpus * demand.nodes
        ids = self._affine(size)
        for home in self._homes(job, demand, ids):
            free_nodes = [node for node in map(self.nodes.free.node, home) if node is not None]
            grown = [self.nodes.height(node) + home[node.id] / self.nodes.gpus(node.id) for node in free_nodes]
            if len(grown) == len(home) and max(grown) <= self.max_height + SOON_S:
                last_choice = any(node_id in job.avoid_nodes for node_id in home)
                yield last_choice, max(grown), tuple(node.place for node in free_nodes), home

    def _homes(self, job: Job, demand: Demand, ids: Sequence[int]) -> Iterator[Home]:
        size, whole = demand.gpus * demand.nodes, set(ids)
        if demand.nodes == 1:
            for node_id in ids:
                if self._takable(node_id, demand.gpu_type, None) >= size:
                    yield {node_id: size}
        if demand.within is Locality.NODE or (demand.nodes == 1 and not demand.split):
            return
        # A job of several nodes takes turns with one of its own size, on all the nodes of that one.
        seen = set[tuple[int, ...]]()
        for home in self._wide_homes(ids, size):
            racks = {self.context.view.node_by_id[node_id].rack for node_id in home}
            alike = len(home) > 1 and (demand.split or set(home.values()) == {demand.gpus})
            if alike and whole >= home.keys() and not (demand.within is Locality.RACK and len(racks) > 1):
                if tuple(home) not in seen:
                    yield home
                seen.add(tuple(home))

    def _wide_homes(self, ids: Sequence[int], size: int) -> Iterator[Home]:
        runs = {run.job.id: run for node_id in ids for run in self.nodes.runs_on(node_id)}
        for run in runs.values():
            if run.job.gpus_total == size and self.may_go(run):
                yield home_left_by(run)
        for one in self.nodes.suspended.of_size(size):
            yield one.home

    def _affine(self, size: int) -> Sequence[int]:
        if self._by_affinity is None:
            self._by_affinity = {}
            for node in self.nodes.free.by_fit(None, 0):
                self._by_affinity.setdefault(self.nodes.affinity(node), []).append(node.id)
        return self._by_affinity.get(size, ())
