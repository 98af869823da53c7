"""The figures that the bench reports: which series each is made of, its goal, and which way is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from bench.samples import median, p95, p99
from scheduler.engine.policy import POLICIES as REGISTRY

# What a system's measurements come in: a name and the values, in the order in which they were measured.
Series = dict[str, list[float]]

FIRST_LINE, SUBMIT, THROUGHPUT, LOG_LINE = "first-line", "submit", "throughput", "log-line"
ARRAY = "array"
GROWTH, REST = "growth", "rest"
JOB_LIST, CYCLE, CYCLE_GROWTH, SIMULATE = "job-list", "cycle", "cycle-growth", "simulate"
CYCLE_SCREENING = "cycle-screening"
EACH_POLICY = "policies"
POSTGRES = "cycle-postgres"
AGENTS, INGEST, CONTAINERS, IDLE = "agents", "ingest", "docker", "idle"
LOG_PAGE, PAGE_SUBMIT, CLI = "log-page", "page-submit", "cli"
FAILURES = "failures"
USAGE, SWEEPS = "usage", "sweeps"
LANES, PLANNERS, GAVEL, AUCTION = "lanes", "planners", "gavel", "auction"
FORECAST = "forecast"
CELLS, CELLS_POSTGRES = "cells", "cells-postgres"
ITEMS: Mapping[str, str] = {
    FIRST_LINE: "from submitting a job to its first line at the client",
    SUBMIT: "how long the call that submits a job takes",
    THROUGHPUT: "many one-GPU jobs that do nothing, from the first submit to the last end",
    ARRAY: "an array beside single jobs submitted at once, one of 10,000 members submitted, and its page in Chromium",
    LOG_LINE: "from a job's print to the client that follows its log",
    REST: "the platform and its agents while nothing runs or waits: shares of a core",
    JOB_LIST: "a page of 100 jobs out of 100,000",
    GROWTH: "many jobs submitted at once beside 100,000 ended ones, and before there were any",
    IDLE: "an agent that has nothing to do, and the process that keeps links over SSH",
    INGEST: "logs of eight agents that write all they can, and a line beside them",
    LOG_PAGE: "from a job's print to the page in Chromium that shows it, alone and beside those eight agents",
    PAGE_SUBMIT: "from pressing the button that submits a folder to its first line on the page, in Chromium",
    CLI: "`muster ls` beside importing httpx, rich and typer",
    CONTAINERS: "from submitting a job in a container to its first line, beside `docker run`",
    AGENTS: "the calls of two thousand agents to one web process",
    CYCLE: "one scheduling decision over 1,000 nodes with 8 GPUs each and 10,000 waiting jobs",
    CYCLE_GROWTH: "the same decision, all but 64 GPUs taken, for 1,000 to 8,000 waiting jobs",
    CYCLE_SCREENING: "the same decision, all but 64 GPUs taken, with 2,000 of the 10,000 jobs to be screened",
    EACH_POLICY: "one decision of each policy over as much, all but 64 GPUs taken by large and small jobs",
    CELLS: "one decision with 50 virtual clusters and opportunistic jobs, all but 64 GPUs taken, by admission",
    CELLS_POSTGRES: "one production cycle over a pool of cells: snapshot, decision and applier; and why a job waits",
    FORECAST: "a dry run with the forecast of the start, 10,000 jobs waiting, and the rows behind 100 submissions",
    POSTGRES: "one production cycle over as much, all but 64 GPUs taken: snapshot, decision and applier",
    SIMULATE: "Philly's 82,247 jobs in the simulator, on 2,490 and on 640 GPUs",
    USAGE: "reports of usage over a year of 100,000 attempts, from claims alone and from the sums by days",
    SWEEPS: "submitting a sweep of 1,000 members, and what its page reads",
    LANES: "first lines of one pool while the policy of another solves for 10 s, in a lane and under the lock",
    GAVEL: "gavel for many jobs on four GPU types: solve, whole decision, and the loss of parts",
    AUCTION: "themis: an auction of 64 bidders for 256 GPUs, and a decision with 10,000 waiting jobs on 8,000 GPUs",
    PLANNERS: "two planners on one pool in simulated time: conflicts, useful work and wait",
    FAILURES: "the class of a failure from 64 KiB of a log, and from a MiB that is made to hinder it",
}


# The policies that are measured one by one; `conservative` is a mode of backfill.
POLICIES = tuple(sorted(("conservative", *REGISTRY.names)))

# Whose processor time is told apart, as `bench.live.stack.process_groups` names them.
CLIENT = "the client"
PROCESSES = (
    "web",
    "worker schedule",
    "worker default",
    "nursery",
    "links",
    "Postgres",
    "Valkey",
    "agents, shims and jobs",
)

# The admissions under which a decision with many virtual clusters is measured.
ADMISSIONS = ("quota", "borrow", "hived", "tree")

GAVEL_JOBS = (512, 2048, 10_000)
# For two planners on one pool: the share of the pool that the jobs need, and how long a decision takes, s.
PLANNER_LOADS, PLANNER_DECISIONS_S = (0.5, 0.7, 0.9), (1, 10, 60)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the report, made of one series."""

    key: str
    title: str
    unit: str
    series: str
    statistic: Callable[[Sequence[float]], float]
    goal: float | None = None
    higher_is_better: bool = False

    @property
    def item(self) -> str:
        """The item that measures it."""
        return self.key.partition(".")[0]

    def of(self, series: Mapping[str, Sequence[float]]) -> float | None:
        """The number for one system; None if the system was not measured."""
        values = series.get(self.series)
        return self.statistic(values) if values else None

    def meets(self, value: float, bound: float) -> bool:
        """True if a value is on the good side of a bound."""
        return value >= bound if self.higher_is_better else value <= bound


def _times(stem: str, series: str, title: str, goals: tuple[float | None, float | None]) -> tuple[Figure, Figure]:
    dot = "-" if "." in stem else "."
    return (
        Figure(f"{stem}{dot}p50", f"{title}, p50", "ms", series, median, goals[0]),
        Figure(f"{stem}{dot}p95", f"{title}, p95", "ms", series, p95, goals[1]),
    )


FIGURES: tuple[Figure, ...] = (
    *_times(FIRST_LINE, "first_line_ms", "submit to first line", (90, 130)),
    *_times(SUBMIT, "submit_ms", "submit call", (10, None)),
    Figure("throughput.single", "jobs submitted one by one", "jobs/s", "throughput_single", median, 40, True),
    Figure("throughput.batch", "jobs submitted at once", "jobs/s", "throughput_batch", median, 40, True),
    Figure("throughput.cpu", "processor time a job, everything", "ms", "throughput_cpu_ms", median, 40),
    *(
        Figure(f"throughput.cpu-{name}", f"of which {name}", "ms", f"throughput_{name}_ms", median)
        for name in (*PROCESSES, CLIENT)
    ),
    Figure("throughput.commits", "commits a job", "", "throughput_commits", median),
    *_times("throughput.submit", "throughput_submit_ms", "submit call in that burst", (20, None)),
    Figure("array.members", "members of an array", "members/s", "array_members", median, None, True),
    Figure("array.jobs", "single jobs submitted at once, in turns with it", "jobs/s", "array_jobs", median, None, True),
    Figure("array.ratio", "members to single jobs", "times", "array_ratio", median, 1.5, True),
    *(
        Figure(f"array.{what}-cpu{suffix}", title, "ms", f"array_{what}_{series}_ms", median)
        for what, whose in (("member", "a member"), ("job", "a single job"))
        for suffix, title, series in (
            ("", f"processor time {whose}, everything", "cpu"),
            *((f"-{name}", f"of which {name}", name) for name in PROCESSES),
        )
    ),
    Figure("array.submit", "10,000 members submitted", "ms", "array_submit_ms", median, 3000),
    *_times("array.page", "array_page_ms", "their page opened until its cells are painted", (300, None)),
    *_times(LOG_LINE, "log_line_ms", "log line to client", (None, 200)),
    Figure("rest.cpu", "share of a core at rest, everything", "%", "rest_percent", median, 3),
    *(Figure(f"rest.cpu-{name}", f"of which {name}", "%", f"rest_{name}_percent", median) for name in PROCESSES),
    Figure("growth.empty", "jobs submitted at once, a new database", "jobs/s", "growth_empty", median, None, True),
    Figure("growth.full", "the same beside 100,000 ended jobs", "jobs/s", "growth_full", median, None, True),
    Figure("growth.ratio", "the second as a part of the first", "", "growth_ratio", median, 0.9, True),
    *_times(JOB_LIST, "job_list_ms", "100 jobs of 100,000", (None, 50)),
    *_times("job-list.tenant", "job_list_tenant_ms", "100 jobs of one tenant", (None, 50)),
    Figure("job-list.queries", "queries for 100 jobs", "queries", "job_list_queries", max),
    Figure("job-list.queries-small", "queries for 10 jobs", "queries", "job_list_queries_small", max),
    Figure("idle.memory", "an idle agent's memory (RSS)", "MiB", "idle_memory_mib", max, 60),
    Figure("idle.cpu", "an idle agent's share of a core", "%", "idle_cpu_percent", max, 1),
    Figure("idle.links", "memory of the process links (RSS)", "MiB", "idle_links_mib", max),
    Figure("ingest.rate", "logs taken from 8 agents", "MB/s", "ingest_mb_s", median, 50, True),
    *_times("ingest.line", "ingest_line_ms", "log line to client meanwhile", (None, 200)),
    Figure("ingest.ruled-rate", "logs taken beside 30 rules for them", "MB/s", "ruled_mb_s", median, 50, True),
    *_times("ingest.ruled-line", "ruled_line_ms", "log line to client beside both", (None, 200)),
    *_times("log-page.line", "log_page_ms", "log line to view in Chromium", (None, 200)),
    *_times("log-page.busy", "log_page_busy_ms", "the same while 8 agents write", (None, 200)),
    Figure("log-page.rate", "logs taken from them meanwhile", "MB/s", "log_page_mb_s", median, 50, True),
    *_times(PAGE_SUBMIT, "page_submit_ms", "folder submitted by the page to first line", (500, None)),
    Figure("cli.ratio", "`muster ls` to the imports, CPU", "times", "cli_ratio", median, 1.4),
    *(
        Figure(f"cli.{what}{suffix}", f"{title}, {way}", "ms", f"cli_{what}_{series}", median)
        for what, title in (("ls", "`muster ls`"), ("imports", "importing httpx, rich and typer"))
        for suffix, way, series in (("-cpu", "CPU", "cpu_ms"), ("", "clock", "ms"))
    ),
    Figure("docker.over-p50", "first line over `docker run`, p50", "ms", "docker_over_ms", median, 1500),
    *_times(CONTAINERS, "docker_job_ms", "submit to first line, container", (None, None)),
    Figure("docker.engine-p50", "`docker run` to first line, p50", "ms", "docker_engine_ms", median),
    *_times("lanes.alone", "lanes_alone_ms", "first line, the other pool at rest", (None, None)),
    *_times("lanes.beside", "lanes_beside_ms", "first line while its lane solves for 10 s", (500, 1000)),
    *_times("lanes.locked", "lanes_locked_ms", "the same without a lane", (None, None)),
    *(
        Figure(f"gavel.{jobs}-{what}", f"gavel, {jobs:,} jobs: {title}", "ms", f"gavel_{jobs}_{what}_ms", median, goal)
        for jobs, goals in zip(GAVEL_JOBS, (None, 500, 3000), strict=True)
        for what, title, goal in (("solve", "solve, CPU", goals), ("cycle", "whole decision, CPU", None))
    ),
    Figure("gavel.growth", "growth of the solve, 512 to 10,000 jobs, per job", "times", "gavel_growth", max),
    Figure("gavel.loss", "loss of the lowest level, 2,048 jobs in parts of 512", "%", "gavel_loss", max),
    Figure("auction.one", "auction, 64 bidders, 256 GPUs of one type, CPU", "ms", "auction_one_ms", median, 1000),
    Figure("auction.four", "the same of four types with spread, CPU", "ms", "auction_four_ms", median, 5000),
    Figure("auction.cycle", "themis, 10,000 jobs, 8,000 GPUs, CPU", "ms", "auction_cycle_ms", median, 5000),
    *(
        Figure(f"planners.{way}-{load}-{decision_s}-{key}", f"{title}: {name}", unit, f"{stem}_{key}", statistic)
        for way, title in (("incremental", "place by place"), ("whole", "all or nothing"))
        for load in PLANNER_LOADS
        for decision_s in PLANNER_DECISIONS_S
        for stem in (f"planners_{way}_{load}_{decision_s}",)
        for key, what, unit, statistic in (
            ("conflicts", "refused", "%", median),
            ("useful", "useful work", "%", median),
            ("wait", "mean wait", "s", mean),
        )
        for name in (f"{what}, load {load}, {decision_s} s",)
    ),
    *_times("agents.report", "agents_report_ms", "report of an agent among many", (None, None)),
    Figure("agents.report-p99", "report of an agent among many, p99", "ms", "agents_report_ms", p99, 500),
    Figure("agents.beat-p99", "beat of an agent among many, p99", "ms", "agents_beat_ms", p99),
    Figure("agents.late-p99", "long-poll's answer late, p99", "ms", "agents_late_ms", p99, 1000),
    Figure("agents.kept", "nodes that never lost their lease", "%", "agents_kept", min, 100, True),
    Figure("agents.web-cpu", "the web process's share of a core meanwhile", "%", "agents_web_cpu_percent", max),
    Figure("agents.postgres-cpu", "Postgres's share of a core meanwhile", "%", "agents_postgres_cpu_percent", max),
    Figure("agents.web-memory", "the web process's memory meanwhile (RSS)", "MiB", "agents_web_mib", max),
    *_times("cycle.full", "cycle_full_ms", "decide, every GPU taken", (500, None)),
    *_times("cycle.half", "cycle_half_ms", "decide, half of them free", (500, None)),
    *_times("cycle.empty", "cycle_empty_ms", "decide, all of them free", (500, None)),
    # On a machine with other work the clock says little; the processor's time hardly changes with it.
    Figure("cycle.full-cpu", "decide, every GPU taken, CPU", "ms", "cycle_full_cpu_ms", median),
    Figure("cycle.half-cpu", "decide, half of them free, CPU", "ms", "cycle_half_cpu_ms", median),
    Figure("cycle.empty-cpu", "decide, all of them free, CPU", "ms", "cycle_empty_cpu_ms", median),
    *(
        Figure(f"cycle-growth.{jobs}k", f"decide, {jobs},000 jobs, CPU", "ms", f"cycle_growth_{jobs}k_ms", median)
        for jobs in (1, 2, 4, 8)
    ),
    # n log n from 1,000 to 8,000 jobs is a factor of 8 · 13 / 10.
    Figure("cycle-growth.ratio", "8,000 jobs to 1,000", "times", "cycle_growth_ratio", median, 10.4),
    Figure("cycle-screening.p50", "decide, 2,000 jobs to be screened, CPU", "ms", "cycle_screening_ms", median, 500),
    Figure("cycle-screening.none", "the same without screening, CPU", "ms", "cycle_screening_none_ms", median),
    *(
        Figure(f"policies.{name}", f"decide, {name}, CPU", "ms", f"policies_{name}_ms", median, 500)
        for name in POLICIES
    ),
    *(
        Figure(f"cells.{name}", f"decide, 50 virtual clusters, {name}, CPU", "ms", f"cells_{name}_ms", median, 1000)
        for name in ADMISSIONS
    ),
    *_times(CELLS_POSTGRES, "cells_postgres_ms", "production cycle under cells", (1500, None)),
    *(
        Figure(f"cells-postgres.{part}", f"of which the {title}", "ms", f"cells_{part}_ms", median)
        for part, title in (("snapshot", "snapshot"), ("decide", "decision"), ("apply", "applier"))
    ),
    Figure("cells-postgres.why-p95", "why a job waits there, p95", "ms", "cells_why_ms", p95, 200),
    *_times(FORECAST, "forecast_ms", "dry run with the forecast of the start", (None, 250)),
    Figure("forecast.rows", "rows behind 100 submissions", "ms", "forecast_rows_ms", median, 2000),
    *_times(POSTGRES, "cycle_postgres_ms", "production cycle", (400, None)),
    Figure("cycle-postgres.snapshot", "of which the snapshot", "ms", "cycle_snapshot_ms", median),
    Figure("cycle-postgres.decide", "of which the decision", "ms", "cycle_decide_ms", median),
    Figure("cycle-postgres.apply", "of which the applier", "ms", "cycle_apply_ms", median),
    Figure("cycle-postgres.first", "the first, with 10,000 reasons", "ms", "cycle_first_ms", median, 1500),
    Figure(
        "cycle-postgres.endings",
        "failed jobs judged and moved on",
        "a minute",
        "endings_per_minute",
        median,
        1000,
        True,
    ),
    *(
        Figure(f"simulate.{policy}-{gpus}", f"{policy}, {gpus} GPUs", "s", f"simulate_{policy}_{gpus}_s", median, 60)
        for gpus in (2490, 640)
        for policy in ("fifo", "srtf", "tiresias")
    ),
    Figure("simulate.read", "reading Philly's trace (CPU)", "s", "simulate_read_s", median, 2),
    Figure("simulate.alone", "80 published jobs alone (CPU)", "s", "simulate_alone_s", median, 3),
    Figure("simulate.memory", "memory of the largest simulation", "MiB", "simulate_peak_mib", max, 1024),
    Figure("sweeps.submit", "a sweep of 1,000 members submitted", "ms", "sweeps_submit_ms", median, 2000),
    Figure("sweeps.page", "its document and all its members", "ms", "sweeps_page_ms", median, 500),
    Figure("sweeps.look", "one look at the reports of all its members", "ms", "sweeps_look_ms", median),
    *(
        Figure(f"usage.{report}-{period}", f"usage, {what}, a {period}", "ms", f"usage_{report}_{period}_ms", median)
        for report, what in (("vc", "virtual clusters"), ("days", "days"), ("waste", "waste"), ("own", "one's own"))
        for period in ("week", "month", "quarter", "year")
    ),
    Figure("usage.claims-quarter", "the same of days, from claims", "ms", "usage_claims_days_quarter_ms", median),
    Figure("usage.counted", "attempts added to the sums", "a second", "usage_counted", median, None, True),
    Figure("usage.sums", "the sums in Postgres", "MiB", "usage_sums_mib", max),
    Figure("usage.rho-hour", "rho of a job that waits for an hour", "ms", "usage_rho_hour_ms", median),
    Figure("usage.rho-month", "the same, for a month", "ms", "usage_rho_month_ms", median),
    Figure("usage.rho-year", "rho by week and tenant, a year", "ms", "usage_rho_year_ms", median),
    Figure("failures.tail-p95", "a failure from 64 KiB, p95, CPU", "ms", "failures_tail_ms", p95, 5),
    Figure("failures.hostile", "a failure from a hostile MiB, worst, CPU", "ms", "failures_hostile_ms", max, 50),
)


def figures_of(items: Sequence[str]) -> list[Figure]:
    """The figures of these items, in the order of the report."""
    return [figure for figure in FIGURES if figure.item in items]
