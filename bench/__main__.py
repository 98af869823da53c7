"""`python -m bench`: measures the platform on this machine, beside Slurm where it is installed."""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from rich.console import Console

from bench import auction, cells, cycle, failures, gavel, limits, planners, policies, report, simulations
from bench.figures import (
    AGENTS,
    ARRAY,
    AUCTION,
    CELLS,
    CELLS_POSTGRES,
    CLI,
    CONTAINERS,
    CYCLE,
    CYCLE_GROWTH,
    CYCLE_SCREENING,
    EACH_POLICY,
    FAILURES,
    FIGURES,
    FORECAST,
    GAVEL,
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
    Series,
    figures_of,
)
from bench.home import own_home
from bench.memory import PeakMemory, Usage
from bench.plan import GPUS_PER_NODE, NODES, STORED, Plan, quick, shortened
from bench.processor import read_processor
from bench.published.data import NoData, data_folder
from bench.report import MUSTER, System
from bench.slurm.cluster import missing, running_slurm
from bench.slurm.config import PROFILES, Profile
from bench.slurm.measure import measure as measure_slurm

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "bench"


def main(argv: Sequence[str]) -> int:
    """Measures, prints and stores; the exit status is 1 if `--check` finds a figure past its limit."""
    signal.signal(signal.SIGTERM, _leave)
    options = _options(argv)
    plan = quick(options.only) if options.quick else Plan(items=options.only)
    bounds = limits.read_limits(limits.PATH.read_text(), FIGURES)
    console = Console()
    started_at = datetime.now(UTC)
    peers = [] if options.no_peer else _measure_peers(plan, console)
    muster = _measure_muster(plan, console)
    figures = figures_of(plan.items)
    console.print()
    console.print(report.figures_table(figures, muster, peers))
    systems = [system for system in (muster, *peers) if system.series]
    console.print(report.memory_table([system for system in systems if system.memory]))
    for system in (muster, *peers):
        console.print(f"{system.name}: {system.note}", highlight=False, soft_wrap=True)
    shares = ", ".join(f"{system.others_share:.0%} beside {system.name}" for system in systems)
    console.print(f"Others used this much of the processors: {shares}.", highlight=False, soft_wrap=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{started_at:%Y-%m-%dT%H%M%SZ}.json"
    document = report.as_json(figures, systems, plan, started_at=started_at, root=ROOT)
    path.write_text(json.dumps(document, indent=1) + "\n")
    console.print(f"All samples are in {path.relative_to(ROOT)}.", highlight=False)
    if not options.check:
        return 0
    values = muster.values(figures)
    found = limits.excesses(figures, values, bounds)
    for excess in found:
        console.print(f"[red]✗[/] {excess}", highlight=False)
    for key in limits.unmeasured(figures, values, bounds):
        console.print(f"[yellow]?[/] {key}: it has a limit and was not measured", highlight=False)
    if not found:
        console.print("[green]✓[/] every figure that was measured is within its limit", highlight=False)
    return 1 if found else 0


def _measure_peers(plan: Plan, console: Console) -> list[System]:
    if not plan.needs_peer:
        return []
    reason = missing()
    if reason:
        return [System("Slurm", note=reason)]
    return [_measure_slurm(profile, plan, console) for profile in PROFILES]


def _measure_slurm(profile: Profile, plan: Plan, console: Console) -> System:
    console.print(f"Measuring {profile.name} …", highlight=False)
    before = read_processor()
    slurm = running_slurm(profile, nodes=NODES, gpus_per_node=GPUS_PER_NODE)
    with slurm as cluster, PeakMemory(cluster.groups) as memory:
        series = measure_slurm(cluster, shortened(plan) if profile.slow else plan)
    others_share = read_processor().since(before).others_share
    return System(profile.name, series, memory.peaks, others_share, profile.why)


def _measure_muster(plan: Plan, console: Console) -> System:
    console.print(f"Measuring {MUSTER} …", highlight=False)
    before = read_processor()
    series: Series = {}
    peaks: Mapping[str, Usage] = {}
    if CYCLE in plan.items:
        series |= cycle.measure(samples=plan.cycles)
    if CYCLE_GROWTH in plan.items:
        series |= cycle.measure_growth(samples=plan.cycles)
    if CYCLE_SCREENING in plan.items:
        series |= cycle.measure_screening(samples=plan.cycles)
    if CELLS in plan.items:
        series |= cells.measure(samples=plan.cycles)
    if EACH_POLICY in plan.items:
        series |= policies.measure(samples=plan.cycles)
    if FAILURES in plan.items:
        series |= failures.measure(samples=plan.cycles * 10)
    if GAVEL in plan.items:
        series |= gavel.measure(samples=plan.cycles)
    if AUCTION in plan.items:
        series |= auction.measure(samples=plan.cycles)
    if PLANNERS in plan.items:
        series |= planners.measure(hours=plan.planner_hours)
    if SIMULATE in plan.items:
        try:
            series |= simulations.measure(data_folder())
        except NoData as error:
            console.print(f"The simulator is not measured: {error}", highlight=False)
    if plan.needs_platform or STORED & set(plan.items):
        with own_home() as home:
            ours, peaks = _measure_live(home, plan, console)
            series |= ours
    others_share = read_processor().since(before).others_share
    return System(MUSTER, series, peaks, others_share, "as `manage.py up` starts it, with two agents")


def _measure_live(  # noqa: PLR0912, PLR0915 - one branch for each item
    home: Path, plan: Plan, console: Console
) -> tuple[Series, Mapping[str, Usage]]:
    """Measure the items that need the whole platform, and then those that need its database."""
    # These need Django's settings, which need the home.
    from django.core.management import call_command  # noqa: PLC0415

    from bench.live import agents, arrays, commands, containers, ingest, jobs, lanes, listing, pages  # noqa: PLC0415
    from bench.live import cells as live_cells  # noqa: PLC0415
    from bench.live import cycle as live_cycle  # noqa: PLC0415
    from bench.live import starts as live_starts  # noqa: PLC0415
    from bench.live import sweeps as live_sweeps  # noqa: PLC0415
    from bench.live import usage as live_usage  # noqa: PLC0415
    from bench.live.stack import process_groups, running_platform  # noqa: PLC0415
    from muster.events.rights import as_owner  # noqa: PLC0415

    series: Series = {}
    peaks: Mapping[str, Usage] = {}
    if LANES in plan.items:
        lanes.install_policy(home)
    if plan.needs_platform:
        with running_platform(home, console) as stack, PeakMemory(process_groups) as memory:
            series |= jobs.measure(stack, plan)
            peaks = memory.peaks  # what no peer has costs memory that is not compared
            if REST in plan.items:
                series |= jobs.measure_rest(plan)
            if ARRAY in plan.items:
                series |= arrays.measure_rates(stack, plan)
                series |= arrays.measure_submit(stack, plan)
                try:
                    series |= arrays.measure_page(stack, plan)
                except pages.NoChromium as error:
                    console.print(f"The page of an array is not measured: {error}", highlight=False)
            if IDLE in plan.items:
                series |= agents.measure_idle(plan)
            if INGEST in plan.items:
                series |= ingest.measure(stack, plan)
            if LOG_PAGE in plan.items:
                try:
                    series |= pages.measure(stack, plan)
                except pages.NoChromium as error:
                    console.print(f"The page of logs is not measured: {error}", highlight=False)
            if PAGE_SUBMIT in plan.items:
                try:
                    series |= pages.measure_submit(stack, plan)
                except pages.NoChromium as error:
                    console.print(f"Submitting by the page is not measured: {error}", highlight=False)
            if CLI in plan.items:
                series |= commands.measure(stack, plan)
            if AGENTS in plan.items:
                series |= agents.measure_fleet(stack, plan)
            if LANES in plan.items:
                series |= lanes.measure(stack, plan)
            if CONTAINERS in plan.items:
                try:
                    series |= containers.measure(stack, plan)
                except containers.NoEngine as error:
                    console.print(f"Containers are not measured: {error}", highlight=False)
            if GROWTH in plan.items:
                with as_owner():
                    series |= jobs.measure_growth(stack, plan)
            if JOB_LIST in plan.items:
                with as_owner():  # only the owner of tables may analyze them
                    series |= listing.measure(stack, plan)
    if STORED & set(plan.items):  # when the platform's own workers are gone, which would run cycles of this pool too
        call_command("migrate", interactive=False, verbosity=0)
    with as_owner():
        if POSTGRES in plan.items:
            series |= live_cycle.measure(samples=plan.cycles)
        if FORECAST in plan.items:
            series |= live_starts.measure(samples=plan.cycles)
        if CELLS_POSTGRES in plan.items:
            series |= live_cells.measure(samples=plan.cycles)
        if SWEEPS in plan.items:
            series |= live_sweeps.measure(samples=plan.reports)
        if USAGE in plan.items:
            series |= live_usage.measure(attempts=plan.usage_attempts, samples=plan.reports)
    return series, peaks


def _options(argv: Sequence[str]) -> Namespace:
    described = "\n".join(f"  {name:12} {text}" for name, text in ITEMS.items())
    parser = ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=f"items:\n{described}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=_items, default=tuple(ITEMS), metavar="ITEM,…", help="measure only these")
    parser.add_argument("--quick", action="store_true", help="few samples: to try a change, not to publish")
    parser.add_argument("--no-peer", action="store_true", help="leave Slurm out")
    parser.add_argument("--check", action="store_true", help=f"fail if a limit in {limits.PATH.name} is passed")
    return parser.parse_args(argv)


def _items(text: str) -> tuple[str, ...]:
    wanted = text.split(",")
    unknown = sorted(set(wanted) - set(ITEMS))
    if unknown:
        raise ArgumentTypeError(f"there is no item {unknown[0]!r}; there are {', '.join(ITEMS)}")
    return tuple(item for item in ITEMS if item in wanted)


def _leave(number: int, _frame: FrameType | None) -> None:
    """Ends as the signal should, but past every `finally`: what was started is stopped in one."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
