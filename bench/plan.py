"""The amount to measure: the same for every system of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.figures import (
    AGENTS,
    CELLS,
    CELLS_POSTGRES,
    CLI,
    CONTAINERS,
    CYCLE,
    CYCLE_GROWTH,
    CYCLE_SCREENING,
    EACH_POLICY,
    FAILURES,
    FORECAST,
    GROWTH,
    IDLE,
    INGEST,
    ITEMS,
    JOB_LIST,
    LANES,
    LOG_PAGE,
    PAGE_SUBMIT,
    PLANNERS,
    POSTGRES,
    REST,
    SIMULATE,
    SWEEPS,
    USAGE,
)

NODES, GPUS_PER_NODE = 2, 8
# Writes $1 lines with the time at which each was written, 20 a second.
LINE_COMMAND = 'LC_ALL=C; for _ in $(seq "$1"); do echo "at $EPOCHREALTIME"; sleep 0.05; done'

# What needs nothing but this process.
_ALONE = frozenset({CELLS, CYCLE, CYCLE_GROWTH, CYCLE_SCREENING, EACH_POLICY, FAILURES, PLANNERS, SIMULATE})
# What no peer has a counterpart of.
_OURS = frozenset(
    {
        *(AGENTS, CELLS_POSTGRES, CLI, CONTAINERS, GROWTH, IDLE, INGEST, JOB_LIST, LANES, LOG_PAGE, PAGE_SUBMIT),
        *(FORECAST, POSTGRES, REST, SWEEPS, USAGE),
    }
)
# What needs the platform's database, and none of its processes.
STORED = frozenset({CELLS_POSTGRES, FORECAST, POSTGRES, SWEEPS, USAGE})


@dataclass(frozen=True, slots=True)
class Plan:
    """The items to measure and the number of samples of each."""

    items: tuple[str, ...] = tuple(ITEMS)
    warm_ups: int = 3
    first_lines: int = 40
    submits: int = 100
    submit_pause_s: float = 0.1
    jobs: int = 300
    bursts: int = 3
    talks: int = 2
    lines: int = 150
    lines_a_second: int = 20
    listed_jobs: int = 100_000
    lists: int = 60
    cycles: int = 15
    agents: int = 2_000
    agents_s: float = 60.0
    ingest_s: float = 15.0
    containers: int = 15
    page_submits: int = 20
    commands: int = 15
    solves: int = 3
    planner_hours: float = 4.0
    idle_s: float = 30.0
    rest_s: float = 60.0
    usage_attempts: int = 100_000
    reports: int = 5

    @property
    def needs_platform(self) -> bool:
        """True if any item needs the platform to run."""
        return bool(set(self.items) - _ALONE - STORED)

    @property
    def needs_peer(self) -> bool:
        """True if any item can be measured on a peer too."""
        return bool(set(self.items) - _ALONE - _OURS)


def quick(items: tuple[str, ...]) -> Plan:
    """A plan that takes a minute or two: for trying a change, not for figures to publish."""
    return Plan(
        items=items,
        warm_ups=1,
        first_lines=8,
        submits=20,
        jobs=100,
        bursts=1,
        talks=1,
        lines=60,
        lists=15,
        cycles=3,
        agents=200,
        agents_s=20.0,
        ingest_s=5.0,
        containers=5,
        page_submits=5,
        commands=5,
        solves=1,
        planner_hours=1.0,
        idle_s=10.0,
        rest_s=20.0,
        usage_attempts=20_000,
        reports=2,
    )


def shortened(plan: Plan) -> Plan:
    """The plan for a system that takes seconds where others take parts of one."""
    return replace(
        plan, warm_ups=1, first_lines=min(plan.first_lines, 12), submits=min(plan.submits, 50), bursts=1, talks=1
    )


def read_line_time(line: str) -> float:
    """The time that a line of the talking job names."""
    return float(line.removeprefix("at "))
