"""The holder of a claim: a boot of the node, and the state folder of the node's agent.

An agent knows only from its state folder what it has started. If the folder is deleted while jobs run, or the agent
gets another one, the next agent of the same boot has no record of them: it would start them again, or report that they
never began. So a claim names the folder too. Until its fence has passed, no other holder gets it, as if the node were
cut off; its lease is not renewed, so its processes end by themselves before that.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F, Q

LEFT_BEHIND = ~Q(state_id="") & ~Q(state_id=F("node__state_id"))
"""Of allocations that are not released: those of which the present agent of the node knows nothing."""


def is_left_behind(claimed_by: str, state_id: str) -> bool:
    """Whether what was claimed out of the one state folder, if any, is unknown to an agent with the other."""
    return claimed_by not in {"", state_id}


@dataclass(frozen=True, slots=True)
class Claimant:
    """A boot of a node, and the state folder of its agent."""

    boot_id: str
    state_id: str
