"""Hold back evictions when more than half of a pool falls silent within a minute: the cause is hardly the nodes.

1. Beats are spread over time, and so are looks: what one cut has silenced passes its time in several looks, a few nodes
   in each. So those that are on the way there count with those that have arrived, and with those that went down within
   the minute before.
2. The hold begins when one of them would go, and operators are told. Time alone does not end it: as long as it lasts,
   what went down shortly before it began goes on counting, and only what is heard counts as heard, also when the
   platform has been out meanwhile.
3. It ends when no more than half are silent: nodes are heard again, or operators have declared all the others gone
   (`fleet.gone`). Such a node is let go at once, and their word is of no other: it goes on counting meanwhile.
4. A node that is out of use, cordoned or draining and without a job, may be switched off: it says nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction

from muster.common.models import DatabaseNow
from muster.events.services import mail_operators, record
from muster.fleet.models import Node, Pool, Tick
from muster.fleet.selectors import holding
from scheduler.model.lifecycle import NodeAdmin, NodeHealth

# With fewer nodes than this, "more than half" says nothing about the platform.
MIN_POOL_NODES = 4
TOGETHER = timedelta(seconds=60)
_MAIL_AGAIN_AFTER = timedelta(minutes=5)
_HEARD_OF = frozenset({NodeHealth.READY, NodeHealth.SUSPECT})


def held_back(
    pool: Pool, nodes: Sequence[Node], lost: Collection[Node], *, unheard_s: Mapping[int, float], now: datetime
) -> set[int]:
    """The ids of those of `lost`, past their time, that must not go down now; begins and ends the hold of the pool.

    `nodes` are all that ever registered; `unheard_s` is how long each was silent while the platform was answering.
    """
    since = held_since(pool)
    if not lost and since is None:
        return set()
    idle = _out_of_use(pool)
    silent_after_s = min(pool.suspect_after_s, (pool.beat_s + pool.unreachable_after_s) / 2)
    live = [node for node in nodes if node.health in _HEARD_OF and node.pk not in idle]
    silent = [node for node in live if _silent_s(node, unheard_s, now, since) > silent_after_s]
    fallen = _fallen(nodes, idle, now, since)
    in_danger = {node.pk for node in lost} - idle
    many = 2 * (len(silent) + len(fallen)) > len(live) + len(fallen) >= MIN_POOL_NODES
    if many and silent and since is None and in_danger:
        _begin(pool, silent, now)
    elif since is not None and not (many and silent):
        _end(pool)
    return in_danger if many and silent else set()


def held_since(pool: Pool) -> datetime | None:
    """Since when no node of the pool is given up as lost, or None."""
    since: datetime | None = Pool.objects.values_list("silent_since", flat=True).get(pk=pool.pk)
    return since


def _silent_s(node: Node, unheard_s: Mapping[int, float], now: datetime, since: datetime | None) -> float:
    return unheard_s[node.pk] if since is None else (now - node.lease.seen_at).total_seconds()


def _fallen(nodes: Sequence[Node], idle: Collection[int], now: datetime, since: datetime | None) -> list[Node]:
    """Nodes that went down with those that are silent now; of nodes declared gone, only while the hold lasts."""
    first = (since or now) - TOGETHER
    down = [node for node in nodes if node.health == NodeHealth.DOWN and node.down_at and node.down_at >= first]
    return [node for node in down if (since is not None if node.gone_at else node.pk not in idle)]


def _out_of_use(pool: Pool) -> set[int]:
    nodes = Node.objects.filter(pool=pool)
    idle = nodes.exclude(admin=NodeAdmin.ACTIVE).exclude(pk__in=holding(nodes).values("pk"))
    return set(idle.values_list("pk", flat=True))


def _begin(pool: Pool, silent: Sequence[Node], now: datetime) -> None:
    names = ", ".join(node.name for node in silent)[:300]
    with transaction.atomic():
        if not Pool.objects.filter(pk=pool.pk, silent_since=None).update(silent_since=now):
            return
        record("pool.mass_silence", actor="platform", data={"pool": pool.name, "nodes": names})
        mailed = Tick.objects.filter(name=f"mass:{pool.pk}"[:20], at__gt=now - _MAIL_AGAIN_AFTER)
        if mailed.exists():
            return
        Tick.objects.update_or_create(name=f"mass:{pool.pk}"[:20], defaults={"at": DatabaseNow()})
        mail_operators(
            subject=f"More than half of pool {pool.name} is silent",
            body=f"No lease is ended until enough of them are heard again, or are declared gone. Silent: {names}",
        )


def _end(pool: Pool) -> None:
    with transaction.atomic():
        if Pool.objects.filter(pk=pool.pk, silent_since__isnull=False).update(silent_since=None):
            record("pool.mass_silence_over", actor="platform", data={"pool": pool.name})
