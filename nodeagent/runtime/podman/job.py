"""The container of runtime `podman`, as a shim watches it."""

from __future__ import annotations

from nodeagent.runtime.container.job import ContainerJob
from nodeagent.runtime.container.plan import Plan
from nodeagent.runtime.podman.engine import PodmanEngine
from nodeagent.runtime.shim.layout import AllocationFolder, Task


def make(folder: AllocationFolder, task: Task) -> ContainerJob:
    """The job of a task of this runtime."""
    return ContainerJob(Plan.from_dict(task.job["plan"]), folder, PodmanEngine(task.job["engine"]["environment"]))
