"""The platform beside agents: a thousand of them, and two that have nothing to do."""

from __future__ import annotations

import os
import time

from bench import fleet
from bench.figures import Series
from bench.live import programs
from bench.live.stack import ACTOR, LINKS, Stack, StackError, process_groups
from bench.memory import usage_of
from bench.plan import Plan
from bench.processor import read_seconds
from muster.events.models import Event
from muster.fleet.models import Node
from muster.fleet.services import create_node, create_pool
from muster.local import processes
from scheduler.model.lifecycle import NodeHealth

_FLEET_GPUS = 4
_MAX_SHOWN = 3


def measure_idle(plan: Plan) -> Series:
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


def measure_fleet(stack: Stack, plan: Plan) -> Series:
    """Milliseconds of the calls of many agents, the part of their nodes that never lost its lease, in percent, and what
    the web process and Postgres needed for them: parts of a processor, in percent, and memory in MiB.
    """
    pool = create_pool(name="fleet", actor=ACTOR)
    tokens = [create_node(pool=pool, name=f"fleet{n:04}", actor=ACTOR)[1] for n in range(plan.agents)]
    with programs.running("bench.fleet", fleet.Orders(stack.url, tokens, plan.agents_s, _FLEET_GPUS)) as program:
        program.next("measuring")
        groups = process_groups()
        start, before = time.monotonic(), {name: sum(map(read_seconds, groups[name])) for name in ("web", "Postgres")}
        heard = program.next("failures")
        took = time.monotonic() - start
        percent = {name: 100 * (sum(map(read_seconds, groups[name])) - was) / took for name, was in before.items()}
        web_mib = sum(usage_of(pid).rss_mib for pid in groups["web"])
    if heard["failures"]:
        raise StackError(f"{len(heard['failures'])} calls failed: {heard['failures'][:_MAX_SHOWN]}")
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
