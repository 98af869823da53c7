"""Schedulable nodes on which a job may start: the runtime fits, the tenant is admitted, maintenance is far enough away.

Plan validation and placement ask the same functions. Before its maintenance, a node takes only these jobs:

- a job whose time limit and grace end before the maintenance starts. Both count from now, not from the real start, so
  a slow start can overlap the maintenance by its own length;
- a job without a limit that is preemptible and checkpoints, if the maintenance moves jobs off the node.

A job starts only on nodes that its request allows: those of `nodes_in`, if it names any, without `exclude_nodes`, that
have its `node_labels`.

A single-user node runs all jobs as one account, where each job can read and signal the others. It takes jobs of one
tenant only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from scheduler.model import Job, Node
from scheduler.model.lifecycle import RuntimeNeed
from scheduler.model.request import Request

OPEN: frozenset[int] = frozenset()


class Labelled(Protocol):
    """A node as its name and its labels tell."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


def forbidden_by(request: Request, node: Labelled) -> str | None:
    """The one of `NODE_FIELDS` by which the request does not allow the node; None if it does."""
    if node.name in request.exclude_nodes:
        return "exclude_nodes"
    if request.nodes_in and node.name not in request.nodes_in:
        return "nodes_in"
    return "node_labels" if any(node.labels.get(name) != value for name, value in request.node_labels) else None


def words_for_labels(request: Request) -> str:
    """`net=ib, zone=a`: the labels that its nodes have."""
    return ", ".join(f"{name}={value}" for name, value in request.node_labels)


def can_start(node: Node, form: RuntimeNeed) -> bool:
    """True if the node meets the runtime need; True while its agent has not reported its runtimes."""
    return form is RuntimeNeed.ANY or not node.runtimes or form in node.runtimes


def admits_tenant(node: Node, tenant_id: int) -> bool:
    """True if jobs of the tenant may run on the node."""
    return not node.single_user or node.tenant_id == tenant_id


def maintenance_over(node: Node, moment: float) -> bool:
    """True if the maintenance of the node is over at that moment."""
    return node.maintenance_ends_at is not None and node.maintenance_ends_at <= moment


def overlaps_maintenance(node: Node, job: Job, now: float) -> bool:
    """True if the job, if it starts now, may still run when the maintenance of the node starts."""
    if node.maintenance_starts_at is None or maintenance_over(node, now):
        return False
    if job.time_limit_s is not None:
        return now + job.max_run_s > node.maintenance_starts_at
    movable = node.drains and job.preemptible and job.checkpoints
    return now >= node.maintenance_starts_at or not movable


def ineligible_reason(node: Node, job: Job, now: float) -> str:
    """The reason that the job may not start on the node, as a short sentence; empty if it may."""
    if field := forbidden_by(job.request, node):
        return f"{node.name} {_FORBIDDEN[field](job.request)}"
    if not can_start(node, job.request.runtime):
        return f"{node.name} {RUNTIME_MISMATCH[job.request.runtime]}"
    if not admits_tenant(node, job.tenant_id):
        which = "no tenant's" if node.tenant_id is None else "another tenant's"
        return f"{node.name} runs all jobs as one account and takes {which} jobs"
    if overlaps_maintenance(node, job, now):
        starts = utc_text(node.maintenance_starts_at or now)
        return f"{node.name} has maintenance from {starts}: {node.maintenance_reason}"
    return ""


def utc_text(at: float) -> str:
    """A moment for people to read, such as `2026-05-01 12:30 UTC`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


_FORBIDDEN: Mapping[str, Callable[[Request], str]] = {
    "exclude_nodes": lambda _: "is excluded by this job",
    "nodes_in": lambda _: "is not among the nodes_in of this job",
    "node_labels": lambda request: f"does not have {words_for_labels(request)}, the node_labels of this job",
}
RUNTIME_MISMATCH: Mapping[RuntimeNeed, str] = {
    RuntimeNeed.ANY: "starts no jobs",
    RuntimeNeed.PLAIN: "runs jobs in containers, and this job names no image",
    RuntimeNeed.IMAGE: "runs no containers, and this job names an image",
    RuntimeNeed.CONTAINER: "has no image for jobs that name none, and this job asks for shm",
    RuntimeNeed.IMAGE_VOLUMES: "mounts no volumes, and this job asks for mounts",
    RuntimeNeed.CONTAINER_VOLUMES: "mounts no volumes for jobs without an image, and this job asks for mounts",
}


class NodeEligibility:
    """The nodes on which a job may not start. Jobs with equal requirements share one cached set."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._all = tuple(nodes)
        # Most pools restrict no node, and most jobs name none; then no node is looked at.
        self._nodes = tuple(
            node for node in self._all if node.runtimes or node.maintenance_starts_at is not None or node.single_user
        )
        self._timed = any(node.maintenance_starts_at is not None for node in self._nodes)
        self._by_tenant = any(node.single_user for node in self._nodes)
        self._known: dict[tuple[object, ...], frozenset[int]] = {}

    def to(self, job: Job, now: float) -> frozenset[int]:
        """The ids of the nodes on which the job may not start now."""
        if not self._nodes and not job.request.narrowing:
            return OPEN
        kind = self.kind(job)
        key = (now, *kind) if self._timed else kind
        found = self._known.get(key)
        if found is None:
            closed = {
                node.id
                for node in self._nodes
                if not can_start(node, job.request.runtime)
                or not admits_tenant(node, job.tenant_id)
                or overlaps_maintenance(node, job, now)
            }
            if job.request.narrowing:
                closed |= {node.id for node in self._all if forbidden_by(job.request, node)}
            found = self._known[key] = frozenset(closed) or OPEN
        return found

    def kind(self, job: Job) -> tuple[object, ...]:
        """The requirements of the job that decide its set of nodes."""
        tenant_id, narrowing = job.tenant_id if self._by_tenant else None, job.request.narrowing
        if not self._timed:
            return (job.request.runtime, tenant_id, narrowing)
        movable = job.time_limit_s is None and job.preemptible and job.checkpoints
        return (job.request.runtime, tenant_id, narrowing, job.max_run_s, movable)
