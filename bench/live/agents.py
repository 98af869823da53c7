"""The platform beside agents: a thousand of them, eight that write all they can, and two that have nothing to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench import fleet, writers
from bench.figures import AGENTS, IDLE, INGEST, Series
from bench.live.jobs import spec_of, talk
from bench.live.stack import ACTOR, LINKS, Stack, StackError, await_ready, grant, process_groups
from bench.memory import usage_of
from bench.plan import Plan
from bench.processor import read_seconds
from muster.events.models import Event
from muster.fleet.models import Node
from muster.fleet.services import create_node, create_pool
from muster.local import processes
from muster.logrules.selectors import LOOK_EVERY_S
from muster.logrules.services import draft_log_rules, put_log_rules_into_force
from muster_client.client import Client
from scheduler.lifecycle import NodeHealth

ROOT = Path(__file__).resolve().parents[2]
_FLEET_GPUS = 4
_WRITERS = 8
_MOST_SHOWN = 3
_RULES = "\n".join(
    f"bench-{number}:\n  match: 'rank [0-9]+ .*(fault|abort) {number}'\n"
    f"  line: 'rank 7 saw fault {number}'\n  actions: [notify_operators]"
    for number in range(30)
)


def measure(stack: Stack, plan: Plan) -> Series:
    """The series of those of the items that are in the plan; the agents that have nothing to do first."""
    series: Series = {}
    if IDLE in plan.items:
        series |= _idle(plan)
    if INGEST in plan.items:
        series |= _ingest(stack, plan, "ingest", first=1)
        with _rules_in_force():
            series |= _ingest(stack, plan, "ruled", first=1 + _WRITERS)
    if AGENTS in plan.items:
        series |= _fleet(stack, plan)
    return series


def _idle(plan: Plan) -> Series:
    """Of each agent with its zygote: its memory in MiB, and how much of a processor it used, in percent."""
    agents = [
        pid for pid in processes.descendants(os.getpid()) if {"nodeagent", "run"} <= set(processes.command_line(pid))
    ]
    # Children of an agent have its command line; the agent itself is the one whose parent is none of them.
    below = {pid for agent in agents for pid in processes.descendants(agent)}
    families = [[agent, *processes.descendants(agent)] for agent in agents if agent not in below]
    before = [sum(map(read_seconds, family)) for family in families]
    start = time.monotonic()
    time.sleep(plan.idle_s)
    took = time.monotonic() - start
    return {
        "idle_cpu_percent": [
            100 * (sum(map(read_seconds, family)) - was) / took for family, was in zip(families, before, strict=True)
        ],
        "idle_memory_mib": [sum(usage_of(pid).rss_mib for pid in family) for family in families],
        "idle_links_mib": [sum(usage_of(pid).rss_mib for pid in process_groups()[LINKS])],
    }


def _ingest(stack: Stack, plan: Plan, name: str, *, first: int) -> Series:
    """Megabytes a second that are taken from the writers, and how late lines of a job beside them come."""
    # Else what was written before goes to the disk meanwhile, and the database waits for that.
    os.sync()
    pool = create_pool(name=name, actor=ACTOR)
    numbers = range(first, first + _WRITERS)
    tokens = [create_node(pool=pool, name=f"writer{number}", actor=ACTOR)[1] for number in numbers]
    orders = json.dumps(asdict(writers.Orders(stack.url, tokens, plan.ingest_s, first)))
    with Client(stack.url, stack.token) as client, _program("bench.writers", orders) as running:
        await_ready(pool, _WRITERS)
        grant(pool, name, gpus=_WRITERS)
        for _ in range(_WRITERS):
            client.submit(spec_of("true", vc=name))
        assert running.stdout is not None
        begun = json.loads(running.stdout.readline() or "{}")
        if begun.get("state") != writers.WRITING:
            raise StackError(f"the writers did not begin: {begun}")
        lines_ms = [delay * 1000 for delay in talk(client, lines=int(plan.ingest_s * plan.lines_a_second))]
        last = json.loads(running.stdout.readline() or "{}")
    if "mb_s" not in last:
        raise StackError(f"the writers failed: {last}")
    return {f"{name}_mb_s": [last["mb_s"]], f"{name}_line_ms": lines_ms}


@contextmanager
def _rules_in_force() -> Iterator[None]:
    """As many rules for logs as a large site has, which nothing here meets; the web process knows them."""
    _put_into_force(_RULES)
    try:
        yield
    finally:
        _put_into_force("")


def _put_into_force(rules: str) -> None:
    book = draft_log_rules(text=rules, note=f"{rules.count('match:')} rules of the bench", actor=ACTOR)
    put_log_rules_into_force(book=book, actor=ACTOR)
    # The web process looks that often; a second more is for one that looks just now.
    time.sleep(LOOK_EVERY_S + 1)


def _fleet(stack: Stack, plan: Plan) -> Series:
    """Milliseconds of the calls of many agents, the part of their nodes that never lost its lease, in percent, and what
    the web process and Postgres needed for them: parts of a processor, in percent, and memory in MiB.
    """
    pool = create_pool(name="fleet", actor=ACTOR)
    tokens = [create_node(pool=pool, name=f"fleet{n:04}", actor=ACTOR)[1] for n in range(plan.agents)]
    orders = json.dumps(asdict(fleet.Orders(stack.url, tokens, plan.agents_s, _FLEET_GPUS)))
    with _program("bench.fleet", orders) as running:
        assert running.stdout is not None
        if json.loads(running.stdout.readline() or "{}").get("state") != fleet.MEASURING:
            raise StackError(f"{plan.agents} agents could not register")
        groups = process_groups()
        start, before = time.monotonic(), {name: sum(map(read_seconds, groups[name])) for name in ("web", "Postgres")}
        heard = json.loads(running.stdout.readline() or "{}")
        took = time.monotonic() - start
        percent = {name: 100 * (sum(map(read_seconds, groups[name])) - was) / took for name, was in before.items()}
        web_mib = sum(usage_of(pid).rss_mib for pid in groups["web"])
    if "failures" not in heard:
        raise StackError("the agents did not work")
    if heard["failures"]:
        raise StackError(f"{len(heard['failures'])} calls failed: {heard['failures'][:_MOST_SHOWN]}")
    nodes = set(Node.objects.filter(pool=pool).values_list("pk", flat=True))
    silent = Event.objects.filter(kind__in=[f"node.{NodeHealth.SUSPECT}", f"node.{NodeHealth.DOWN}"])
    # What is written when the fleet has ended is not the platform's fault: agents are suspect after 15 s.
    lost = nodes & set(silent.values_list("node_id", flat=True))
    return {
        "agents_report_ms": heard["report_ms"],
        "agents_beat_ms": heard["beat_ms"],
        "agents_late_ms": heard["late_ms"],
        "agents_kept": [100.0 * (len(nodes) - len(lost)) / len(nodes)],
        "agents_web_cpu_percent": [percent["web"]],
        "agents_postgres_cpu_percent": [percent["Postgres"]],
        "agents_web_mib": [web_mib],
    }


@contextmanager
def _program(module: str, orders: str) -> Iterator[subprocess.Popen[str]]:
    """A process of the bench's own that has been told what to do; it is gone when the block ends."""
    running = subprocess.Popen(
        [sys.executable, "-m", module], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert running.stdin is not None
    running.stdin.write(orders)
    running.stdin.close()
    running.stdin = None
    try:
        yield running
    finally:
        running.kill()
        running.wait()
        if running.stdout is not None:
            running.stdout.close()
