"""The page docs/design/measurements/published.md, made of what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from string import Template

from bench.published import philly as studies
from bench.published.pollux import LOADS, POLICIES, Comparison
from scheduler.sim.metrics import Summary

TEMPLATE = Path(__file__).with_name("template.md")


@dataclass(frozen=True, slots=True)
class Section:
    """The policies' results on one trace and one cluster."""

    trace: str
    cluster: str
    summaries: Sequence[Summary]
    left_out: int = 0  # jobs of the trace


@dataclass(frozen=True, slots=True)
class Lessons:
    """The result of each lesson on one cluster, by its title; the first is without any."""

    cluster: str
    summaries: Mapping[str, Summary]


def page(comparisons: Sequence[Comparison], philly: Iterable[Section], lessons: Iterable[Lessons]) -> str:
    """The whole page."""
    return Template(TEMPLATE.read_text()).substitute(
        pollux_means=_pollux_means(comparisons),
        pollux_worst=_pollux_worst(comparisons),
        philly="\n".join(_policies(section) for section in philly),
        lessons="\n".join(_lessons(one) for one in lessons),
        restart_s=f"{studies.RESTART_S:g}",
        retry_after_s=f"{studies.RETRY_AFTER_S:g}",
        spread=f"{studies.SPREAD_PENALTY:.1%}",
        rack=f"{studies.RACK_PENALTY:.0%}",
        interference=f"{studies.INTERFERENCE:.1%}",
        per_rack=studies.SERVERS_PER_RACK,
        lesson_jobs=f"{studies.LESSON_JOBS:,}",
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
    if all(one.same == len(one.theirs_s) for one in comparisons):
        found = f"In all {len(comparisons)} runs every job has the JCT that they published."
    else:
        found = (
            f"Of all {len(comparisons)} runs, the mean that is furthest off is that of {worst.policy} on workload "
            f"{worst.workload} at load {worst.load}: {worst.deviation:+.2%}."
        )
    return f"{found} On workload 6 at load 1.0 their simulator\ntook 59 s under Tiresias and 254 s under Optimus.\n"


def _policies(section: Section) -> str:
    jobs = section.summaries[0].jobs
    lines = [f"### {section.trace}, {jobs:,} jobs, {section.cluster}", ""]
    if section.left_out:
        lines += [
            f"{section.left_out:,} of {jobs + section.left_out:,} jobs are left out: their model was never measured on "
            "as many GPUs as they ask for.",
            "",
        ]
    lines += [
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


def _lessons(lessons: Lessons) -> str:
    first = next(iter(lessons.summaries.values()))
    lines = [
        f"### {first.jobs:,} jobs, {lessons.cluster}",
        "",
        "| lesson | JCT mean | p50 | p99 | fair-share delay | fragmentation delay | GPU-hours used | failed | lost "
        "| use | preemptions | moves | run, s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {title} | {_hours(one.jct_mean_s)} ({_beside(one.jct_mean_s, first.jct_mean_s)}) | {_hours(one.jct_p50_s)} "
        f"| {_hours(one.jct_p99_s)} | {_minutes(one.queueing.fair_share_delay_mean_s)} "
        f"| {_minutes(one.queueing.fragmentation_delay_mean_s)} | {one.gpu_hours:,.0f} | {one.failed_gpu_hours:,.0f} "
        f"| {one.lost_gpu_hours:,.0f} | {one.utilization or 0:.1%} | {one.preemptions:,} | {one.moves:,} "
        f"| {one.wall_s:.0f} |"
        for title, one in lessons.summaries.items()
    ]
    return "\n".join([*lines, ""])


def _beside(value: float | None, reference: float | None) -> str:
    return f"{value / reference - 1:+.1%}" if value is not None and reference else "-"


def _hours(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 3600:.2f}"


def _minutes(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 60:,.1f}"
