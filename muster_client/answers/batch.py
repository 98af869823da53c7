"""The answer to a batch of submissions."""

from __future__ import annotations

from typing import TypedDict

from muster_client.answers.shapes import Job, Problem


class BatchError(TypedDict):
    """A refused spec: its index in the batch, from 0, and the reason."""

    index: int
    problem: Problem


class BatchAnswer(TypedDict):
    """The stored jobs, in the order of their specs, and the refused specs."""

    jobs: list[Job]
    errors: list[BatchError]
