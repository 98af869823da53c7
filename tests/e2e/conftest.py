from __future__ import annotations

from tests.e2e.browser import ada, adas_session, browser, demo, page
from tests.faults.cluster import cluster

__all__ = ["ada", "adas_session", "browser", "cluster", "demo", "page"]
