"""Reports after which a GPU is of no use any more. The platform's table says more; a test holds both together."""

from __future__ import annotations

from nodeagent.protocol.messages import HealthEvent

FATAL_XIDS = frozenset({46, 48, 62, 64, 74, 79, 95, 109, 119, 120, 140, 143, 144, 145, 149})
FATAL_KINDS = frozenset({"gpu_lost", "row_remap_failed", "check_failed"})


def is_fatal(event: HealthEvent) -> bool:
    """True if no job may start on a GPU with this recent event."""
    return event.kind in FATAL_KINDS or event.xid in FATAL_XIDS
