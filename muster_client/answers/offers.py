"""Frameworks and what they are offered."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.jobs import JobInList
from muster_client.answers.terms import JobForm, Moment


class Framework(TypedDict):
    """The caller's scheduler in a role."""

    id: Annotated[int, "The id of the framework."]
    role: Annotated[str, "The name of the role."]
    vc: Annotated[str, "The virtual cluster of the role."]
    pool: Annotated[str, "The pool of the virtual cluster."]
    revocable: Annotated[bool, "Whether its jobs are opportunistic and may be preempted."]
    needs: Annotated[JobForm, "The form in which its jobs start."]
    registered_at: Annotated[Moment, "When the framework registered."]


class FrameworkList(TypedDict):
    """The caller's frameworks."""

    results: Annotated[list[Framework], "The frameworks."]
    next: Annotated[str | None, "Always null: the list has one page."]


class OfferedGpu(TypedDict):
    """A GPU of an offer."""

    uuid: Annotated[str, "The UUID that the driver gives the GPU."]
    index: Annotated[int, "The number of the GPU on its node, from 0."]
    type: Annotated[str, "The GPU type."]
    memory_mib: Annotated[int, "The memory of the GPU in MiB."]


class Offer(TypedDict):
    """Free resources of a node, kept for the framework until `expires_at`."""

    id: Annotated[int, "The id of the offer."]
    framework: Annotated[int, "The id of the framework that gets the offer."]
    role: Annotated[str, "The name of the framework's role."]
    node: Annotated[str, "The name of the node."]
    runtimes: Annotated[list[str], "The node's runtimes, process, docker or podman; empty: not known yet."]
    starts: Annotated[list[JobForm], "The forms of the jobs that the node starts; empty: not known yet."]
    gpus: Annotated[list[OfferedGpu], "The offered GPUs."]
    cpus: Annotated[int, "The number of offered CPU cores."]
    memory_mib: Annotated[int, "The offered memory in MiB."]
    revocable: Annotated[bool, "Whether jobs launched on the offer are opportunistic and may be preempted."]
    made_at: Annotated[Moment, "When the offer was made."]
    expires_at: Annotated[Moment, "When the offer ends unless it is accepted."]


class OfferList(TypedDict):
    """The standing offers of the caller's frameworks, oldest first."""

    results: Annotated[list[Offer], "The offers."]
    next: Annotated[str | None, "Always null: the list has one page."]


class Accepted(TypedDict):
    """The launched jobs."""

    jobs: Annotated[list[JobInList], "The launched jobs."]
