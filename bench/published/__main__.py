"""`python -m bench.published`: simulates what others published, classifies labelled logs, writes pages of docs."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

from rich.console import Console

from bench.published import (
    allox,
    cells,
    confusions,
    gavel,
    philly,
    pollux,
    predictions,
    presets,
    rates,
    screening,
    skew,
    sweeps,
    themis,
    wrong_rates,
)
from bench.published.data import NoData, data_folder
from bench.published.page import Lessons, Section, page

DOCS = Path(__file__).resolve().parents[2] / "docs"
MEASUREMENTS = DOCS / "design" / "measurements"
PAGES = {
    "figures": MEASUREMENTS / "published.md",
    "screening": MEASUREMENTS / "screening.md",
    "failures": MEASUREMENTS / "jobs.md",
    "rates": MEASUREMENTS / "estimates.md",
    "predictions": MEASUREMENTS / "predictions.md",
    "emulated": MEASUREMENTS / "policies.md",
    "gavel": MEASUREMENTS / "policies.md",
    "tiresias": MEASUREMENTS / "policies.md",
    "themis": MEASUREMENTS / "policies.md",
    "sweeps": MEASUREMENTS / "jobs.md",
    "cells": MEASUREMENTS / "cells.md",
    "presets": DOCS / "adr" / "0032-presets-are-chosen-by-simulation.md",
}


def main(argv: Sequence[str]) -> int:
    """Simulates everything, two runs at a time or as many as there are processors, and writes the page."""
    parser = ArgumentParser(prog="python -m bench.published", description=__doc__)
    parser.add_argument("--out", type=Path, help="a folder to write to instead of docs")
    parser.add_argument("--page", action="append", choices=PAGES, help="the page to write; all")
    parser.add_argument("--trace", action="append", choices=philly.TRACES, help="a cut of Philly's trace; both")
    parser.add_argument("--cluster", action="append", choices=philly.CLUSTERS, help="the simulated cluster; both")
    options = parser.parse_args(argv)
    traces, clusters = options.trace or list(philly.TRACES), options.cluster or list(philly.CLUSTERS)
    console = Console()
    try:
        folder = data_folder()
    except NoData as error:
        console.print(f"[red]✗[/] {error}", highlight=False)
        return 2
    pages: dict[str, Callable[[], str]] = {
        "figures": partial(_figures, folder, traces, clusters, console),
        "screening": partial(_screening, folder),
        # Of these only a part is made here.
        "failures": lambda: confusions.page(folder, PAGES["failures"].read_text()),
        "rates": lambda: wrong_rates.page(folder, rates.page(folder, PAGES["rates"].read_text())),
        "predictions": lambda: predictions.page(folder, PAGES["predictions"].read_text()),
        "gavel": lambda: gavel.page(folder, PAGES["gavel"].read_text()),
        "tiresias": lambda: skew.page(folder, PAGES["tiresias"].read_text()),
        "sweeps": lambda: sweeps.page(PAGES["sweeps"].read_text()),
        "themis": lambda: themis.page(folder, PAGES["themis"].read_text()),
        "cells": lambda: cells.page(folder, PAGES["cells"].read_text()),
        "presets": lambda: presets.page(folder, PAGES["presets"].read_text()),
        "emulated": lambda: allox.page(folder, PAGES["emulated"].read_text()),
    }
    for name in options.page or PAGES:
        path = PAGES[name] if options.out is None else options.out / f"{name}.md"
        path.write_text(pages[name]())
        console.print(f"Written: {path}", highlight=False)
    return 0


def _screening(folder: Path) -> str:
    """The page about screening."""
    studies = screening.studies()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        runs = {title: pool.submit(philly.run, folder, study) for title, study in studies.items()}
        return screening.page({title: run.result() for title, run in runs.items()})


def _figures(folder: Path, traces: Sequence[str], clusters: Sequence[str], console: Console) -> str:
    """The page about policies."""
    studies = [
        philly.Study(trace, cluster, policy) for trace, cluster, policy in product(traces, clusters, philly.POLICIES)
    ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        runs = [
            pool.submit(pollux.compare, folder, *what)
            for what in product(pollux.POLICIES, pollux.LOADS, pollux.WORKLOADS)
        ]
        longer = [pool.submit(philly.run, folder, study) for study in studies]
        taught = {
            (cluster, jobs, title): pool.submit(philly.run, folder, philly.lesson(cluster, title, jobs))
            for cluster, (jobs, titles) in product(clusters[-1:], philly.lessons().items())
            for title in titles
        }
        with console.status("Pollux's workloads …"):
            comparisons = [run.result() for run in runs]
        summaries = {}
        for study, run in zip(studies, longer, strict=True):
            with console.status(f"{study.trace}, {study.cluster}, {study.policy} …"):
                summaries[study.trace, study.cluster, study.policy] = run.result()
        found = {}
        for (cluster, jobs, title), run in taught.items():
            with console.status(f"Philly's lessons, {cluster}, {title} …"):
                found[cluster, jobs, title] = run.result()
    sections = [
        Section(
            trace,
            cluster,
            [summaries[trace, cluster, policy] for policy in philly.POLICIES],
            left_out=len(philly.read(folder, trace).skipped),
        )
        for trace, cluster in product(traces, clusters)
    ]
    lessons = [
        Lessons(cluster, {title: found[cluster, jobs, title] for title in titles})
        for cluster, (jobs, titles) in product(clusters[-1:], philly.lessons().items())
    ]
    return page(comparisons, sections, lessons)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
