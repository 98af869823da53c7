"""Batches: what an agent says of several allocations in one call, applied in one transaction where no lock is held.

Items whose job is locked by another transaction, and ends that may lock nodes, are done one by one, each in its own
transaction, so that they delay no other item. Each item is checked as by its own call: a refusal comes before its first
write, and where anything else goes wrong the transaction is undone and each of its items is done alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from django.db import close_old_connections, transaction

from muster.agents import services
from muster.agents.launch import LaunchFacts, launch_spec
from muster.common.asgi import in_thread
from muster.common.errors import Invalid, MusterError, NotFound
from muster.events.services import recorded_together
from muster.execution.reports import look_at_closed
from muster.fleet.leases import hold_epoch
from muster.fleet.models import Node
from muster.jobs.attempt.gangs import Gang, Held, locked_free
from muster.jobs.models import Allocation
from muster.logs.store import Gap, finish
from nodeagent.protocol.messages import (
    AGAIN,
    MAX_BATCH_ITEMS,
    BatchItem,
    ClaimRequest,
    EndReason,
    EndRequest,
    ItemOutcome,
    LaunchSpec,
    LogFinishRequest,
    ProtocolError,
)
from scheduler.model.lifecycle import AttemptState, Stage

log = logging.getLogger(__name__)

MAX_TOGETHER = 16
PATIENCE_S = 0.1
"""How long the answer to a batch waits for items that are done one by one."""

_SUCCEEDING = frozenset({AttemptState.STARTING, AttemptState.RUNNING})
_OK = ItemOutcome(200)

Outcomes = dict[int, ItemOutcome]
_Items = Mapping[int, BatchItem]
_under_way: dict[tuple[int, int, str], asyncio.Task[ItemOutcome]] = {}


async def apply(node: Node, items: _Items) -> Outcomes:
    """The outcome of each item, by its place in the batch."""
    outcomes: Outcomes = {}
    places = list(items)
    for first in range(0, len(places), MAX_TOGETHER):
        some = {place: items[place] for place in places[first : first + MAX_TOGETHER]}
        outcomes |= await in_thread(apply_together, node, some)
    left = [place for place in places if place not in outcomes]
    singly = await asyncio.gather(*(_singly(node, items[place]) for place in left))
    return outcomes | dict(zip(left, singly, strict=True))


def read_items(data: object) -> list[BatchItem | ItemOutcome]:
    """The items of a batch's body; of one that cannot be read its outcome."""
    items = data.get("items") if isinstance(data, dict) else None
    if not isinstance(items, list) or len(items) > MAX_BATCH_ITEMS:
        raise Invalid.field("items", f"send a list of {MAX_BATCH_ITEMS} items at most")
    return [_read(item) for item in items]


def apply_together(node: Node, items: _Items) -> Outcomes:
    """The outcomes of the items that one transaction applies without any waiting; the others are left out."""
    try:
        return _apply_together(node, items)
    except Exception as error:  # noqa: BLE001 - the item that it comes from meets it again alone
        log.warning("batch_failed node=%s items=%d error=%r", node.name, len(items), error)
        close_old_connections()
        return {}


def apply_alone(node: Node, item: BatchItem) -> ItemOutcome:
    """The outcome of one item, applied as by its own call: it may wait for locks."""
    return _outcome_of(partial(_call, node, item))


def _apply_together(node: Node, items: _Items) -> Outcomes:
    ends = {place: (item.id, item.end) for place, item in items.items() if item.end is not None}
    logs = {place: (item.id, item.finish) for place, item in items.items() if item.finish is not None}
    claims = {place: (item.id, item.claim) for place, item in items.items() if item.claim is not None}
    outcomes: Outcomes = {}
    with transaction.atomic(), recorded_together():
        # What it has got is of one item each: a gang that has moved is another one to the next.
        free = locked_free(node_id=node.pk, allocation_ids=[pk for pk, _ in [*ends.values(), *claims.values()]])
        for place, (pk, end) in ends.items():
            if pk in free and end.reason is EndReason.COMPLETED and _is_succeeding(free[pk][0]):
                outcomes[place] = _end(node, pk, end, free.pop(pk))
        closed = services.allocations_of(node.credential_digest, [pk for pk, _ in logs.values()])
        # In the order of their attempts: the order of an attempt's chunks is a row that its ranks lock.
        for place, (pk, finish) in sorted(logs.items(), key=lambda one: (one[1][1].fence, one[1][0])):
            if pk in closed:
                outcomes[place] = _close(closed[pk], finish)
        claimed = _claim(node, claims, free, outcomes)
    for place, (pk, finish) in logs.items():
        if pk in closed and outcomes[place].status == _OK.status:
            look_at_closed(closed[pk], services.log_end_of(closed[pk], finish))
    known = LaunchFacts.of(claimed.values()) if claimed else None
    for place, allocation in claimed.items():
        outcomes[place] = _outcome_of(partial(launch_spec, node, allocation, known))
    return outcomes


def _is_succeeding(gang: Gang) -> bool:
    """Whether an end in success of one of its ranks locks no more: that of another attempt may lock nodes."""
    return gang.attempt.state in _SUCCEEDING and gang.attempt.stage == Stage.FULL


def _within(act: Callable[[], object]) -> ItemOutcome:
    """The outcome of one item of a transaction, which goes on after a refusal: nothing of the item was written."""
    outcome = _outcome_of(act)
    if outcome is not _OK:
        transaction.set_rollback(False)
    return outcome


def _end(node: Node, allocation_id: int, request: EndRequest, held: Held) -> ItemOutcome:
    return _within(lambda: services.end(node, allocation_id, request, held=held))


def _close(allocation: Allocation, request: LogFinishRequest) -> ItemOutcome:
    return _within(lambda: finish(allocation, services.log_end_of(allocation, request), savepoint=False))


def _claim(
    node: Node, claims: Mapping[int, tuple[int, ClaimRequest]], free: dict[int, Held], outcomes: Outcomes
) -> dict[int, Allocation]:
    """The allocations that the node has claimed now; one lock of its lease holds the epoch for all of them."""
    claimed: dict[int, Allocation] = {}
    if not any(pk in free for pk, _ in claims.values()):
        return claimed
    try:
        hold_epoch(node=node, epoch=node.lease.epoch)
    except MusterError as refusal:
        outcomes |= dict.fromkeys(claims, _refused(refusal))
        return claimed
    for place, (pk, request) in claims.items():
        held = free.pop(pk, None)
        if held is None:
            continue
        outcomes[place] = _within(partial(services.take, node, pk, request, held=held))
        if outcomes[place] is _OK:
            claimed[place] = held[1]
    return claimed


def _read(data: object) -> BatchItem | ItemOutcome:
    try:
        item = BatchItem.from_dict(data)
    except ProtocolError as error:
        return ItemOutcome(Invalid.status, str(error))
    if [item.claim, item.end, item.finish].count(None) != 2:
        return ItemOutcome(Invalid.status, "write one of claim, end and finish")
    return item


def _kind(item: BatchItem) -> str:
    return "claim" if item.claim is not None else "end" if item.end is not None else "finish"


async def _singly(node: Node, item: BatchItem) -> ItemOutcome:
    """The outcome of an item that may have to wait; AGAIN if it still waits, or did when it was sent before."""
    key = (node.pk, item.id, _kind(item))
    if key in _under_way:
        return ItemOutcome(AGAIN, "it waits for a lock")
    task = _under_way[key] = asyncio.create_task(_alone(node, item))
    task.add_done_callback(lambda _: _under_way.pop(key))
    await asyncio.wait([task], timeout=PATIENCE_S)
    return task.result() if task.done() else ItemOutcome(AGAIN, "it waits for a lock")


async def _alone(node: Node, item: BatchItem) -> ItemOutcome:
    try:
        return await in_thread(apply_alone, node, item)
    except MusterError as refusal:
        return _refused(refusal)
    except Exception as error:
        log.exception("item_failed node=%s allocation=%d", node.name, item.id, exc_info=error)
        return ItemOutcome(500)


def _call(node: Node, item: BatchItem) -> LaunchSpec | None:
    if item.claim is not None:
        return services.claim(node, item.id, item.claim)
    if item.end is not None:
        services.end(node, item.id, item.end)
    elif item.finish is not None:
        allocation = services.allocations_of(node.credential_digest, [item.id]).get(item.id)
        if allocation is None:
            raise NotFound(f"node {node.name} has no such allocation")
        services.port.end_log(allocation, services.log_end_of(allocation, item.finish))
    return None


def _outcome_of(act: Callable[[], object]) -> ItemOutcome:
    try:
        found = act()
    except Gap as gap:
        return ItemOutcome(416, str(gap), size=gap.size)
    except MusterError as refusal:
        return _refused(refusal)
    return ItemOutcome(200, launch=found) if isinstance(found, LaunchSpec) else _OK


def _refused(refusal: MusterError) -> ItemOutcome:
    return ItemOutcome(refusal.status, refusal.detail)
