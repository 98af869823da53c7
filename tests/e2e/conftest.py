from __future__ import annotations

from tests.faults.cluster import cluster

__all__ = ["cluster"]
