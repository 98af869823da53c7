"""Who holds what was claimed: a boot of the node, and in it a state folder of the node's agent.

By its state folder alone an agent knows what it has started. If that is taken away while jobs run, or the agent is
brought to another folder, the next agent of the same boot has no record of them: it would start them again, or say that
they never began. So a claim names the folder too. Until its fence has passed it belongs to nobody else, as if its node
were cut off; nobody renews its lease, so that its processes end by themselves before. An agent of before names no
folder, and counts as having the right one.
"""

from __future__ import annotations

from django.db.models import F, Q

LEFT_BEHIND = ~Q(state_id="") & ~Q(node__state_id="") & ~Q(state_id=F("node__state_id"))
"""Of allocations that are not released: those of which the present agent of the node knows nothing."""


def is_left_behind(claimed_by: str, state_id: str) -> bool:
    """Whether what was claimed out of the one state folder is unknown to an agent with the other."""
    return bool(claimed_by and state_id) and claimed_by != state_id
