"""The page docs/policies/figures.md, made of what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from string import Template

from bench.published.pollux import LOADS, POLICIES, Comparison
from scheduler.sim.metrics import Summary

TEMPLATE = Path(__file__).with_name("template.md")


@dataclass(frozen=True, slots=True)
class Section:
    """What the policies came to on one trace and one cluster."""

    trace: str
    cluster: str
    summaries: Sequence[Summary]


def page(comparisons: Sequence[Comparison], philly: Iterable[Section], restart_s: float) -> str:
    """The whole page; each start after a preemption cost the jobs of Philly's trace `restart_s` seconds."""
    return Template(TEMPLATE.read_text()).substitute(
        pollux_means=_pollux_means(comparisons),
        pollux_worst=_pollux_worst(comparisons),
        philly="\n".join(_policies(section) for section in philly),
        restart_s=f"{restart_s:g}",
    )


def _pollux_means(comparisons: Sequence[Comparison]) -> str:
    lines = [
        "| policy | load | theirs, s | ours, s | deviation | same | slowest run, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for policy in POLICIES:
        for load in LOADS:
            runs = [one for one in comparisons if (one.policy, one.load) == (policy, load)]
            if runs:
                theirs, ours = fmean(one.theirs_mean_s for one in runs), fmean(one.ours_mean_s for one in runs)
                same = sum(one.same for one in runs) / sum(len(one.theirs_s) for one in runs)
                slowest = max(one.wall_s for one in runs)
                lines.append(
                    f"| {policy} | {load} | {theirs:,.1f} | {ours:,.1f} | {ours / theirs - 1:+.2%} | {same:.1%} "
                    f"| {slowest:.2f} |"
                )
    return "\n".join([*lines, ""])


def _pollux_worst(comparisons: Sequence[Comparison]) -> str:
    worst = max(comparisons, key=lambda one: abs(one.deviation))
    return (
        f"Of all {len(comparisons)} runs, the mean that is furthest off is that of {worst.policy} on workload "
        f"{worst.workload} at load {worst.load}: {worst.deviation:+.2%}. On workload 6 at load 1.0 their simulator\n"
        "took 59 s under Tiresias and 254 s under Optimus.\n"
    )


def _policies(section: Section) -> str:
    lines = [
        f"### {section.trace}, {section.summaries[0].jobs:,} jobs, {section.cluster}",
        "",
        "| policy | JCT mean | p50 | p99 | fair-share delay | fragmentation delay | use | preemptions | run, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.policy} | {_hours(one.jct_mean_s)} | {_hours(one.jct_p50_s)} | {_hours(one.jct_p99_s)} "
        f"| {_minutes(one.queueing.fair_share_delay_mean_s)} | {_minutes(one.queueing.fragmentation_delay_mean_s)} "
        f"| {one.utilization or 0:.1%} | {one.preemptions:,} | {one.wall_s:.0f} |"
        for one in section.summaries
    ]
    return "\n".join([*lines, ""])


def _hours(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 3600:.2f}"


def _minutes(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 60:,.1f}"
