"""Eight agents whose jobs write all they can, with and without rules for logs, and a client that reads meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench import writers
from bench.figures import Series
from bench.live import programs
from bench.live.jobs import spec_of, talk
from bench.live.programs import Program
from bench.live.stack import ACTOR, Stack, await_ready, grant
from bench.plan import Plan
from muster.failures.models import LogRuleBook
from muster.failures.selectors import LOG_RULES_KEPT_S
from muster.failures.services import draft, put_into_force
from muster.fleet.services import create_node, create_pool
from muster_client.client import Client

_WRITERS = 8
_RULES = "\n".join(
    f"bench-{number}:\n  match: 'rank [0-9]+ .*(fault|abort) {number}'\n"
    f"  line: 'rank 7 saw fault {number}'\n  actions: [notify_operators]"
    for number in range(30)
)


def measure(stack: Stack, plan: Plan) -> Series:
    """Megabytes a second that are taken from the writers, and how late lines of a job beside them come, twice."""
    series = _beside_a_client(stack, plan, "ingest")
    with _rules_in_force():
        return series | _beside_a_client(stack, plan, "ruled")


@contextmanager
def writing(stack: Stack, client: Client, *, pool_name: str) -> Iterator[Callable[[], float]]:
    """Writers in a pool of their own, all of which write until the result is called, which tells their rate in MB/s."""
    # Else what was written before goes to the disk meanwhile, and the database waits for that.
    os.sync()
    pool = create_pool(name=pool_name, actor=ACTOR)
    numbers = range(1, _WRITERS + 1)
    tokens = [create_node(pool=pool, name=f"{pool_name}{number}", actor=ACTOR)[1] for number in numbers]
    orders = writers.Orders(stack.url, tokens, pool_name)
    with programs.running("bench.writers", orders) as program:
        await_ready(pool, _WRITERS)
        grant(pool, pool_name, gpus=_WRITERS)
        for _ in numbers:
            client.submit(spec_of("true", vc=pool_name))
        program.next("writing")
        yield lambda: _end(program)


def _end(program: Program) -> float:
    program.tell(writers.Enough())
    rate: float = program.next("mb_s")["mb_s"]
    return rate


def _beside_a_client(stack: Stack, plan: Plan, name: str) -> Series:
    with Client(stack.url, stack.token) as client, writing(stack, client, pool_name=name) as end:
        lines_ms = [delay * 1000 for delay in talk(client, lines=int(plan.ingest_s * plan.lines_a_second))]
        return {f"{name}_mb_s": [end()], f"{name}_line_ms": lines_ms}


@contextmanager
def _rules_in_force() -> Iterator[None]:
    """As many rules for logs as a large site has, which nothing here meets; the web process knows them."""
    _put_into_force(_RULES)
    try:
        yield
    finally:
        _put_into_force("")


def _put_into_force(rules: str) -> None:
    book = draft(LogRuleBook, text=rules, note=f"{rules.count('match:')} rules of the bench", actor=ACTOR)
    put_into_force(book, actor=ACTOR)
    # The web process looks that often; a second more is for one that looks just now.
    time.sleep(LOG_RULES_KEPT_S + 1)
