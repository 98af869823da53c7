"""Messages that carry several allocations in one call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Tuple

from nodeagent.protocol.ending import EndRequest, LogFinishRequest
from nodeagent.protocol.launch import ClaimRequest, LaunchSpec
from nodeagent.protocol.wire import MAX_DETAIL_CHARACTERS, Message, sentence


@dataclass(frozen=True)
class BatchItem(Message):
    """One thing to say of one allocation: exactly one of its claim, its end and the end of its log."""

    id: int
    claim: Optional[ClaimRequest] = None
    end: Optional[EndRequest] = None
    finish: Optional[LogFinishRequest] = None


@dataclass(frozen=True)
class BatchRequest(Message):
    """Items to apply, at most `MAX_BATCH_ITEMS`. An item that cannot be read, or is refused, changes no other."""

    items: Tuple[BatchItem, ...]


@dataclass(frozen=True)
class ItemOutcome(Message):
    """The answer to one item: the status of the item's own call and what its body says.

    425: the item waits for a lock and may not be applied yet; the agent sends it again.
    """

    status: int
    detail: str = field(default="", metadata=sentence(MAX_DETAIL_CHARACTERS))
    launch: Optional[LaunchSpec] = None
    size: Optional[int] = None


@dataclass(frozen=True)
class BatchResponse(Message):
    """An outcome for each item, in the order of the request."""

    outcomes: Tuple[ItemOutcome, ...]
