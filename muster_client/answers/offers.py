"""The JSON objects of GPUs that the platform offers to schedulers of one's own, as typed dictionaries."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from muster_client.answers.shapes import JobSpec


class Framework(TypedDict):
    """A scheduler of the user's in a role."""

    id: int
    role: str
    vc: str
    pool: str
    revocable: bool
    needs: str
    registered_at: str


class OfferedGpu(TypedDict):
    """A GPU of an offer."""

    uuid: str
    index: int
    type: str
    memory_mib: int


class Offer(TypedDict):
    """Free GPUs of a node, kept for the framework until `expires_at`."""

    id: int
    framework: int
    role: str
    node: str
    runtimes: list[str]
    starts: list[str]
    gpus: list[OfferedGpu]
    cpus: int
    memory_mib: int
    revocable: bool
    made_at: str
    expires_at: str


class Launch(TypedDict):
    """A job to launch on an offer, on the GPUs with these UUIDs, or on the first that fit."""

    spec: JobSpec
    gpus: NotRequired[list[str]]
