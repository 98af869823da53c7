"""The group that a job is a member of, such as a sweep; in lists one row stands for all its members."""

from __future__ import annotations

from typing import TypedDict


class GroupProgress(TypedDict):
    """Members of a group by state, and the time of the last change."""

    waiting: int
    running: int
    paused: int
    succeeded: int
    failed: int
    stopped: int
    cancelled: int
    started_at: str | None
    changed_at: str
    ended_at: str | None


class GroupOfJob(TypedDict):
    """The group that a job is a member of; `progress` is told where the job stands for its group."""

    id: int
    kind: str
    name: str
    state: str
    member: int
    members: int
    progress: GroupProgress | None
