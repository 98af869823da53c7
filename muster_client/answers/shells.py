"""Shells in running jobs."""

from __future__ import annotations

from typing import Annotated, TypedDict


class OpenedShell(TypedDict):
    """A shell that the node's agent will open."""

    id: Annotated[int, "The shell's number."]
    job: Annotated[int, "The job's number."]
    attempt: Annotated[int, "The number of the job's attempt."]
    rank: Annotated[int, "The rank that it opens in."]
    node: Annotated[str, "The name of the node that runs the rank."]
    token: Annotated[str, "The token for this shell only; it is not shown again."]
