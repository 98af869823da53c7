"""The forms of jobs that a node can start, by its agent's report of its runtimes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scheduler.model.lifecycle import RuntimeNeed

PROCESS = "process"
NO_CONTAINERS, AGENT_IN = "containers", "agent-in"
"""The labels by which an agent says why its node offers no containers, and whether it runs in a container itself."""
# By what field of its spec, or by its lack, a job is of a form that a node may not start.
ASKED_BY: Mapping[RuntimeNeed, str] = {
    RuntimeNeed.PLAIN: "image",
    RuntimeNeed.IMAGE: "image",
    RuntimeNeed.CONTAINER: "shm",
    RuntimeNeed.IMAGE_VOLUMES: "mounts",
    RuntimeNeed.CONTAINER_VOLUMES: "mounts",
}


def in_container(form: RuntimeNeed, labels: Mapping[str, str]) -> bool:
    """Whether a job runs in a container on a node with these labels: any job does where there are no processes."""
    return form not in (RuntimeNeed.ANY, RuntimeNeed.PLAIN) or labels.get("isolation") == "enforced"


def forms_of(
    runtimes: Collection[str], default_image: str, mount_roots: Collection[str] = ()
) -> tuple[RuntimeNeed, ...]:
    """The forms of the jobs that the node can start; empty if its agent has not reported its runtimes."""
    found = set[RuntimeNeed]()
    for runtime in runtimes:
        if runtime == PROCESS:
            found.add(RuntimeNeed.PLAIN)
            continue
        found.add(RuntimeNeed.IMAGE)
        if mount_roots:
            found.add(RuntimeNeed.IMAGE_VOLUMES)
        if default_image:
            found |= {RuntimeNeed.PLAIN, RuntimeNeed.CONTAINER}
        if default_image and mount_roots:
            found.add(RuntimeNeed.CONTAINER_VOLUMES)
    return tuple(form for form in RuntimeNeed if form in found)
