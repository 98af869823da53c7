"""The worth of screening, and of retries that know when to stop, on Philly's trace; and the page that reports it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template

from bench.published.philly import RETRY_AFTER_S, Study
from scheduler.sim.failures import Failures
from scheduler.sim.metrics import Summary
from scheduler.sim.screening import Screening
from scheduler.sim.times import caught_share

TEMPLATE = Path(__file__).with_name("screening.md")
POOL_GPUS, RETRIES = 8, 2
WHOLE, REST = "640 GPUs", "632 GPUs"
# Jobs of more GPUs than this are screened. Sia's authors cut Philly's trace to one GPU for most jobs.
FROM = (2, 1)


def studies() -> Mapping[str, Study]:
    """The runs by their titles: all on 640 GPUs, of which eight are the screening pool where there is one."""
    found = {
        "every failure is retried": _study(WHOLE),
        "smart retries": _study(WHOLE, retry_hopeless=False),
    }
    for least in FROM:
        pool = Screening(gpus=POOL_GPUS, min_gpus=least)
        found[f"screening of jobs of more than {least}"] = _study(REST, screening=pool)
        found[f"screening of jobs of more than {least}, smart retries"] = _study(
            REST, screening=pool, retry_hopeless=False
        )
    return found


def page(summaries: Mapping[str, Summary]) -> str:
    """The whole page."""
    first = next(iter(summaries.values()))
    return Template(TEMPLATE.read_text()).substitute(
        jobs=f"{first.jobs:,}",
        pool=POOL_GPUS,
        retries=RETRIES,
        retry_after_s=f"{RETRY_AFTER_S:g}",
        bound=f"{caught_share(300):.1%}",
        waste=_waste(summaries),
        screened=_screened(summaries),
    )


def _study(cluster: str, **options: object) -> Study:
    assumed = {"failures": Failures.PHILLY_TIMES, "retries": RETRIES, "retry_after_s": RETRY_AFTER_S}
    return Study(trace="philly_sia", cluster=cluster, policy="fifo", options=assumed | options)


def _waste(summaries: Mapping[str, Summary]) -> str:
    first = next(iter(summaries.values()))
    lines = [
        "| | GPU-hours that failed | beside the first | JCT mean, h | p50, h | failed jobs | retries |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, one in summaries.items():
        wasted = one.failed_gpu_hours + one.screening_gpu_hours
        lines.append(
            f"| {title} | {wasted:,.0f} | {wasted / first.failed_gpu_hours - 1:+.1%} "
            f"| {(one.jct_mean_s or 0) / 3600:.2f} | {(one.jct_p50_s or 0) / 3600:.3f} | {one.failed:,} "
            f"| {one.retries:,} |"
        )
    return "\n".join([*lines, ""])


def _screened(summaries: Mapping[str, Summary]) -> str:
    lines = [
        "| | screened | caught | went on untried | GPU-hours saved | could be saved | spent | delay p50, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for title, one in summaries.items():
        if one.screened:
            lines.append(
                f"| {title} | {one.screened:,} | {one.caught:,} ({one.caught / one.screened:.1%}) "
                f"| {one.unscreened:,} | {one.saved_gpu_hours:,.0f} | {one.saveable_gpu_hours:,.0f} "
                f"| {one.screening_gpu_hours:,.0f} | {one.screening_delay_p50_s or 0:.0f} |"
            )
    return "\n".join([*lines, ""])
