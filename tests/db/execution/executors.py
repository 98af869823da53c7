"""The ways in which the platform learns what becomes of ranks; each is an implementation of the port."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from muster.agents import batches, services
from muster.agents.desired import desired_sets
from muster.agents.restored import take_report
from muster.agents.samples import store_samples
from muster.common.errors import Conflict, MusterError, NotFound
from muster.execution import reports
from muster.execution.port import Port
from muster.fleet.models import Node
from muster.jobs.attempt.attempts import End
from muster.jobs.attempt.claimants import Claimant
from muster.jobs.attempt.gangs import Rank
from muster.jobs.models import Allocation
from muster.logs.store import Chunk, LogEnd
from muster.monitoring.store import Point
from nodeagent.protocol.messages import (
    AllocationReport,
    BatchItem,
    ClaimRequest,
    EndReason,
    EndRequest,
    KeptReport,
    LogFinishRequest,
    MetricPoint,
    Observed,
    ProgressNote,
    ReportedMetrics,
    SyncRequest,
)
from scheduler.model.lifecycle import AllocationState
from scheduler.model.reasons import Reason
from tests.db.stories import BOOT


class Agents:
    """The agents: each call is told in the words of their protocol."""

    def claim(self, rank: Rank, *, claimant: Claimant) -> Allocation:
        node = self._node(rank.node_id)
        request = ClaimRequest(rank.fence, claimant.boot_id, node.lease.epoch, claimant.state_id)
        self._send(node, BatchItem(rank.allocation_id, claim=request))
        return Allocation.objects.get(pk=rank.allocation_id)

    def running(self, rank: Rank) -> None:
        self._tell(rank, AllocationReport(rank.allocation_id, rank.fence, Observed.RUNNING))

    def progress(self, rank: Rank, *, text: str) -> None:
        self._tell(rank, notes=(ProgressNote(rank.allocation_id, rank.fence, text),))

    def report(self, told: Sequence[tuple[Rank, Sequence[Point]]]) -> None:
        for rank, points in told:
            metrics = ReportedMetrics(rank.allocation_id, rank.fence, points=_points_of(points))
            store_samples({self._node(rank.node_id): SyncRequest(1, 1, BOOT, "", 0, reported=(metrics,))})

    def kept(self, rank: Rank, *, end: End, left_s: float) -> None:
        kept = KeptReport(left_s, EndReason(end.reason.value), exit_code=end.exit_code, detail=end.detail)
        self._tell(rank, AllocationReport(rank.allocation_id, rank.fence, Observed.RUNNING, kept=kept))

    def end(self, rank: Rank, *, claimant: Claimant, end: End, points: Sequence[Point] = ()) -> None:
        request = EndRequest(
            rank.fence,
            claimant.boot_id,
            claimant.state_id,
            EndReason(end.reason.value),
            exit_code=end.exit_code,
            detail=end.detail,
            started=end.started,
            started_at=100.0,
            ended_at=100.0 + end.ran_s,
            tail=end.tail,
            points=_points_of(points),
        )
        self._send(self._node(rank.node_id), BatchItem(rank.allocation_id, end=request))

    def lose(self, *, attempt_id: int, node_id: int, reason: Reason, detail: str, blame: bool = True) -> bool:
        """An agent that has started nothing: it reports for the first time since the platform was restored."""
        held = Allocation.objects.filter(attempt=attempt_id, node=node_id).exclude(state=AllocationState.RELEASED)
        found = held.exists()
        take_report(self._node(node_id), SyncRequest(1, 1, BOOT, "", 0))
        return found

    def log(self, allocation: Allocation, chunk: Chunk) -> int:
        node = self._node(allocation.node_id)
        return services.port.log(services.allocations_of(node.credential_digest, [allocation.pk])[allocation.pk], chunk)

    def end_log(self, allocation: Allocation, end: LogEnd) -> None:
        rest = (end.rest.offset, b64encode(end.rest.body).decode()) if end.rest is not None else (0, "")
        holes = tuple((start, stop - 1) for start, stop in end.holes)
        request = LogFinishRequest(allocation.attempt_id, end.size, end.sha256, holes, *rest)
        self._send(self._node(allocation.node_id), BatchItem(allocation.pk, finish=request))

    def _node(self, node_id: int) -> Node:
        return Node.objects.select_related("pool", "lease").get(pk=node_id)

    def _send(self, node: Node, item: BatchItem) -> None:
        outcome = batches.apply_together(node, {0: item}).get(0) or batches.apply_alone(node, item)
        if outcome.status != 200:
            raise {404: NotFound, 409: Conflict}.get(outcome.status, MusterError)(outcome.detail)

    def _tell(self, rank: Rank, *allocations: AllocationReport, notes: tuple[ProgressNote, ...] = ()) -> None:
        node = self._node(rank.node_id)
        request = SyncRequest(1, 1, BOOT, "", 0, allocations=allocations, notes=notes)
        desired = desired_sets([node])[node]
        if services.brings_news(request, desired):
            services.take_news(node, request, desired)


def _points_of(points: Sequence[Point]) -> tuple[MetricPoint, ...]:
    return tuple(MetricPoint(name, value, step) for name, step, value in points)


EXECUTORS: dict[str, Port] = {"the platform": reports, "agents": Agents()}
