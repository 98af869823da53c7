"""The group that a job is a member of, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster_client.local.terminal import clean
from muster_client.show.marks import params_text

if TYPE_CHECKING:
    from muster_client.answers.jobs import GroupOfJob, GroupProgress
    from muster_client.answers.terms import Values


def group_texts(group: GroupOfJob | None, params: Values) -> list[str]:
    """`3 lr-search, member 4 of 27: lr 0.01, batch 64`; empty outside of any group."""
    if group is None:
        return []
    told = f": {params_text(params)}" if params else ""
    which = f"member {group['member']}" if group["index"] is None else f"index {group['index']}"
    return [f"{group['id']} {clean(group['name'])}, {which} of {group['members']}{told}"]


def group_state(state: str, running: int) -> str:
    """The state of a group in words: one that goes on waits until a member has its GPUs."""
    if state != "active":
        return state
    return "running" if running else "waiting"


def progress_text(group: GroupOfJob, progress: GroupProgress) -> str:
    """`3 of 27 ended, 8 running, 16 waiting, 1 failed`."""
    going = progress["waiting"] + progress["running"] + progress["paused"]
    counts = [(progress[name], name) for name in ("running", "paused", "waiting", "failed")]
    told = [f"{count} {word}" for count, word in counts if count]
    return ", ".join([f"{group['members'] - going} of {group['members']} ended", *told])
