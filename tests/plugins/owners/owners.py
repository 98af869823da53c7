"""Virtual clusters own nodes by name, a toy of cells: a job starts on its virtual cluster's nodes or on free ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from scheduler.authoring import (
    ANY_GPUS,
    Admission,
    Config,
    Denial,
    Grant,
    HoldReason,
    Job,
    Ledger,
    Plan,
    View,
    Violation,
)

Owners = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Owned(Admission):
    """Lets a job start on the nodes that its virtual cluster owns, and on nodes without an owner."""

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "owners": {
                "type": "array",
                "default": [],
                "description": "The nodes of each virtual cluster.",
                "items": {
                    "type": "object",
                    "properties": {
                        "vc": {"type": "string", "description": "The name of the virtual cluster."},
                        "nodes": {"type": "array", "items": {"type": "string"}, "description": "Names of its nodes."},
                    },
                    "required": ["vc", "nodes"],
                },
            },
        },
        "additionalProperties": False,
    }

    owners: Iterable[Mapping[str, Any]] = field(default=())

    def ledger(self, view: View) -> Ledger:
        """See `Admission`."""
        return OwnedLedger(view, self)

    def owner_of(self, node: str) -> str | None:
        """The name of the virtual cluster that owns the node."""
        return next((one["vc"] for one in self.owners if node in one["nodes"]), None)

    def violations(self, view: View, plan: Plan) -> Iterable[Violation]:
        """The places on nodes of other virtual clusters."""
        for place in plan.places:
            run = view.running_by_job.get(place.job_id)
            job = run.job if run is not None else view.waiting_by_id.get(place.job_id)
            vc = view.vc_by_id.get(job.vc_id) if job is not None else None
            for share in place.allocations:
                node = view.node_by_id.get(share.node_id)
                owner = self.owner_of(node.name) if node is not None else None
                if node is not None and owner is not None and (vc is None or owner != vc.name):
                    yield Violation("not_the_owner", place.job_id, f"{node.name} is owned by {owner}")


class OwnedLedger(Ledger):
    """The nodes of each virtual cluster."""

    def __init__(self, view: View, admission: Owned) -> None:
        super().__init__(view)
        everything = {node.id: admission.owner_of(node.name) for node in view.nodes}
        self._nodes = {
            vc.id: frozenset(node_id for node_id, owner in everything.items() if owner in (None, vc.name))
            for vc in view.vcs
        }
        self._free = frozenset(node_id for node_id, owner in everything.items() if owner is None)

    def nodes(self, job: Job) -> frozenset[int]:
        """Its own nodes and those without an owner."""
        return self._nodes.get(job.vc_id, self._free)

    def key(self, job: Job) -> Hashable:
        """Jobs of one virtual cluster may use the same nodes."""
        return job.vc_id

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        """Any GPUs on its nodes, unless even all of these are too few."""
        mine = self.nodes(job)
        gpus = sum(gpu.type == config.gpu_type for node in self.view.nodes if node.id in mine for gpu in node.gpus)
        if config.gpu_type is None or config.gpus <= gpus:
            return ANY_GPUS
        return Denial(
            HoldReason.QUOTA_TOO_SMALL,
            f"the nodes of its virtual cluster have {gpus} {config.gpu_type}; this job needs {config.gpus}",
            {"gpu_type": config.gpu_type, "quota": gpus, "needed": config.gpus},
            (f"ask for at most {gpus} {config.gpu_type}",),
        )
