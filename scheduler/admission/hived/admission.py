"""The admission by cells; docs/policies/hived.md lists its guarantees and limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from scheduler.admission import Admission, LockScope
from scheduler.admission.hived.config import Assignment, CellConfig, CellConfigError, parse
from scheduler.admission.hived.ledger import CellLedger
from scheduler.admission.hived.measured import measured
from scheduler.admission.tally import job_of
from scheduler.model import View
from scheduler.model.invariants import Violation
from scheduler.model.plan import Plan
from scheduler.registry import ConfigError, param

Shares = tuple[tuple[str, tuple[tuple[str, int], ...], tuple[str, ...]], ...]
"""The possessions of each virtual cluster: its name, numbers of cells by type, pinned cells."""

CELL_TAKEN = "cell_taken"


# What depends only on hardware and shares is the same for thousands of decisions.
@lru_cache(maxsize=32)
def _configured(cluster: str) -> CellConfig:
    return parse({"physicalCluster": json.loads(cluster), "virtualClusters": {}})


@lru_cache(maxsize=32)
def _assigned(physical: CellConfig, shares: Shares) -> CellConfig:
    return physical.fitted({vc: Assignment(dict(cells), pinned) for vc, cells, pinned in shares})


@dataclass(frozen=True, slots=True)
class Hived(Admission):
    """Guaranteed jobs get the cells of their virtual cluster, opportunistic jobs idle GPUs until a cell needs them.

    Source: Zhao et al., HiveD (OSDI 2020), and the authors' program.
    """

    lock_scope: ClassVar[LockScope] = LockScope.CHAINS
    chooses_gpus: ClassVar[bool] = True
    reclaims: ClassVar[bool] = True
    has_cells: ClassVar[bool] = True

    cluster: Mapping[str, Any] | None = param(
        None, "The physical cells, as `physicalCluster` of HiveD's configuration. Empty: measured.", hash=False
    )

    def __post_init__(self) -> None:
        if self.cluster is not None:
            try:
                parse({"physicalCluster": self.cluster, "virtualClusters": {}})
            except CellConfigError as error:
                raise ConfigError(f"cluster.{error}") from error

    def ledger(self, view: View) -> CellLedger:
        return CellLedger(view, self.config(view))

    def config(self, view: View) -> CellConfig:
        """The physical cells of the view's nodes, assigned to its virtual clusters as far as they fit."""
        return _assigned(self._physical(view), _shares(view))

    def checked_config(self, view: View, vc_name: str) -> CellConfig:
        """As `config`, with all cells of one virtual cluster.

        Raises:
            CellConfigError: these do not fit beside the cells that the others have now.
        """
        shares = {vc: Assignment(dict(cells), pinned) for vc, cells, pinned in _shares(view)}
        own = shares.pop(vc_name)
        physical = self._physical(view)
        return physical.assign({**physical.fitted(shares).clusters, vc_name: own})

    def _physical(self, view: View) -> CellConfig:
        if self.cluster is not None:
            return _configured(json.dumps(self.cluster))
        return measured(view.nodes, frozenset(pin for vc in view.vcs for pin in vc.pinned))

    def violations(self, view: View, plan: Plan) -> Iterator[Violation]:
        """The places that take cells which are not free for their job, or are promised to another virtual cluster."""
        ledger = self.ledger(view)
        settled = {place.job_id for place in plan.places}.union(plan.drops)
        for kept in view.reservations:
            job = view.waiting_by_id.get(kept.job_id)
            if job is not None and kept.job_id not in settled and kept.until > view.now:
                ledger.take(job, kept.allocations)
        for preempt in plan.preempts:
            run = view.running_by_job.get(preempt.job_id)
            if run is not None:
                ledger.give(run.job, run.allocations)
        for place in plan.places:
            job = job_of(view, place.job_id)
            if job is None or not ledger.is_guaranteed(job) or not any(share.gpu_ids for share in place.allocations):
                continue
            if not ledger.bind(job, place.allocations):
                message = "its place is in no free cell of its virtual cluster, or in one that another is promised"
                yield Violation(CELL_TAKEN, job.id, message)


def _shares(view: View) -> Shares:
    return tuple(
        (vc.name, tuple(sorted(vc.cells.items())), tuple(sorted(vc.pinned)))
        for vc in sorted(view.vcs, key=lambda vc: vc.name)
    )
