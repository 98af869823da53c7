"""Batches: what an agent says of several allocations in one call, applied in one transaction where no lock is held.

Items whose job is locked by another transaction, and ends that may lock nodes, are done one by one, each in its own
transaction, so that they delay no other item. Each item is checked for itself: a refusal comes before its first
write, and where anything else goes wrong the transaction is undone and each of its items is done alone: as a batch of
one that waits for its locks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
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
from muster.jobs.attempt.gangs import Gang, Held, locked_by_rank, locked_free
from muster.jobs.dependents import awaited
from muster.jobs.models import Allocation
from muster.logs.store import Gap, finds_room, finish
from nodeagent.protocol.messages import (
    AGAIN,
    MAX_BATCH_ITEMS,
    BatchItem,
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
"""The time for which the answer to a batch waits for items that are done one by one."""

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
        return _apply(node, items, _free)
    except Exception as error:  # noqa: BLE001 - the item that it comes from meets it again alone
        log.warning("batch_failed node=%s items=%d error=%r", node.name, len(items), error)
        close_old_connections()
        return {}


def apply_alone(node: Node, item: BatchItem) -> ItemOutcome:
    """The outcome of one item, applied as a batch of one that waits for its locks."""
    try:
        with nullcontext() if item.finish is None else finds_room():
            outcomes = _apply(node, {0: item}, _waited_for)
    except MusterError as refusal:
        return _refused(refusal)
    return outcomes.get(0) or ItemOutcome(NotFound.status, f"node {node.name} has no such allocation")


def _apply(node: Node, items: _Items, lock: Callable[[Node, _Items], dict[int, Held]]) -> Outcomes:
    """The outcomes of claims and ends whose gangs `lock` brings, and of the ends of logs of this node's allocations."""
    logs = {place: (item.id, item.finish) for place, item in items.items() if item.finish is not None}
    outcomes: Outcomes = {}
    with transaction.atomic(), recorded_together():
        # What it has got is of one item each: a gang that has moved is another one to the next.
        locked = lock(node, items)
        for place, item in items.items():
            if item.end is not None and item.id in locked:
                end = partial(services.end, node, item.id, item.end, held=locked.pop(item.id))
                outcomes[place] = _within(end)
        closed = services.allocations_of(node.credential_digest, [pk for pk, _ in logs.values()])
        # In the order of their attempts: the order of an attempt's chunks is a row that its ranks lock.
        for place, (pk, finish) in sorted(logs.items(), key=lambda one: (one[1][1].fence, one[1][0])):
            if pk in closed:
                outcomes[place] = _within(partial(_close, closed[pk], finish))
        claimed = _claim(node, items, locked, outcomes)
    for place, (pk, finish) in logs.items():
        if pk in closed and outcomes[place].status == _OK.status:
            look_at_closed(closed[pk], services.log_end_of(closed[pk], finish))
    known = LaunchFacts.of(claimed.values()) if claimed else None
    for place, allocation in claimed.items():
        outcomes[place] = _outcome_of(partial(launch_spec, node, allocation, known))
    return outcomes


def _free(node: Node, items: _Items) -> dict[int, Held]:
    """The ranks of claims and ends that no other transaction has locked, but for those that may lock more.

    Jobs that wait for several of these jobs would be locked in the order of the items, and not in that of their ids.
    """
    locked = locked_free(node_id=node.pk, allocation_ids=[one.id for one in items.values() if one.finish is None])
    ends = {item.id: item.end for item in items.values() if item.end is not None}
    waited_for = awaited([gang.job.pk for gang, _ in locked.values()]) if len(locked) > 1 else ()
    return {
        pk: held
        for pk, held in locked.items()
        if held[0].job.pk not in waited_for and (pk not in ends or _locks_no_more(held[0], ends[pk]))
    }


def _locks_no_more(gang: Gang, end: EndRequest) -> bool:
    """Whether it is an end in success of one rank of an attempt that succeeds: any other may lock nodes."""
    is_succeeding = gang.attempt.state in _SUCCEEDING and gang.attempt.stage == Stage.FULL
    return end.reason is EndReason.COMPLETED and is_succeeding


def _waited_for(node: Node, items: _Items) -> dict[int, Held]:
    """The rank of the only item, under lock; the end of a log needs none."""
    (item,) = items.values()
    request = item.claim or item.end
    if request is None:
        return {}
    return {item.id: locked_by_rank(node_id=node.pk, allocation_id=item.id, fence=request.fence)}


def _within(act: Callable[[], object]) -> ItemOutcome:
    """The outcome of one item of a transaction, which goes on after a refusal: nothing of the item was written."""
    outcome = _outcome_of(act)
    if outcome is not _OK:
        transaction.set_rollback(False)
    return outcome


def _close(allocation: Allocation, request: LogFinishRequest) -> None:
    finish(allocation, services.log_end_of(allocation, request), savepoint=False)


def _claim(node: Node, items: _Items, locked: dict[int, Held], outcomes: Outcomes) -> dict[int, Allocation]:
    """The allocations that the node has claimed now; one lock of its lease holds the epoch for all of them.

    Another boot that registers now waits, and then finds what this one has; or it came before, and this is late.
    """
    claims = {place: (item.id, item.claim) for place, item in items.items() if item.claim is not None}
    claimed: dict[int, Allocation] = {}
    if not any(pk in locked for pk, _ in claims.values()):
        return claimed
    try:
        hold_epoch(node=node, epoch=node.lease.epoch)
    except MusterError as refusal:
        outcomes |= dict.fromkeys(claims, _refused(refusal))
        return claimed
    for place, (pk, request) in claims.items():
        if pk not in locked:
            continue
        held = locked.pop(pk)
        outcomes[place] = _within(partial(services.claim, node, pk, request, held=held))
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
