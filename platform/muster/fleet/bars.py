"""The reasons why no job may start on a node, even an active one: all in one sentence, the field `barred`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.fleet.toolkit import why_barred

DISK_FULL = "its disk is full"


def bars_of(inventory: Mapping[str, Any], *, disk_full: bool) -> str:
    """The sentence, of what the node's agent has told of it; empty if nothing speaks against it."""
    toolkit = why_barred(str(inventory.get("toolkit_version", "")), inventory.get("runtimes") or ())
    return "; ".join(filter(None, (DISK_FULL if disk_full else "", toolkit)))
