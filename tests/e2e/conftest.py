from __future__ import annotations

from tests.e2e.browser import ada, browser, demo, page
from tests.faults.cluster import cluster

__all__ = ["ada", "browser", "cluster", "demo", "page"]
