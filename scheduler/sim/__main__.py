"""Compares policies on a trace: `python -m scheduler.sim --trace FILE --policy fifo --cluster V100:8x4`.

docs/simulator.md explains the options and the figures.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from scheduler.sim.arguments import Arguments, UsageError, catalogue, prepare
from scheduler.sim.command import STDOUT, Outputs, progress_bar, remarks, run_study
from scheduler.sim.engine import SimulationError
from scheduler.sim.report import Row, grids

if TYPE_CHECKING:
    from rich.console import Console

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        return _run(parser().parse_args(arguments))
    except UsageError as error:
        _say(f"error: {error}")
        return EXIT_USAGE
    except SimulationError as error:
        _say(f"error: please report this: the simulation is inconsistent: {error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        _say("interrupted; nothing was written")
        return EXIT_INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """The options, which `muster simulate` shares."""
    made = _Parser(prog="python -m scheduler.sim", description="Compare policies on a trace.", allow_abbrev=False)
    add = made.add_argument_group("jobs and cluster").add_argument
    add("--trace", type=Path, metavar="FILE", help="The jobs, plain or gzipped.")
    add("--format", metavar="NAME", help="The format of the trace, if its first lines are ambiguous.")
    add("--generate", metavar="NAME[:K=V,…]", help="Jobs drawn from the seed, instead of a trace.")
    add("--policy", action="append", default=[], metavar="NAME[:K=V,…]", help="A policy to compare; may be repeated.")
    add("--cluster", metavar="TYPE:NODESxGPUS,…|FILE", help="The GPUs, as V100:2x4,P100:4x4 or a YAML file.")
    add("--placement", metavar="NAME[:K=V,…]", help="Which GPUs a job gets; consolidate by default.")
    add("--admission", default="quota", metavar="NAME[:K=V,…]", help="How quotas limit virtual clusters.")
    add(
        "--start",
        type=float,
        default=0.0,
        metavar="S",
        help="Only jobs from this long after the first on.",
    )
    add("--end", type=float, default=math.inf, metavar="S", help="Only jobs before this.")
    add("--limit", type=int, metavar="N", help="Only the first N jobs.")
    add("--skip-bad", action="store_true", help="Skip and count unusable lines and jobs.")
    add("--throughputs", type=Path, metavar="FILE|FOLDER", help="Measured speeds, for traces that count steps.")
    add("--read", metavar="K=V,…", help="Other options of the format.")
    add = made.add_argument_group("assumptions").add_argument
    add(
        "--peer",
        action=argparse.BooleanOptionalAction,
        help="The assumptions of the trace authors' simulator, where no option differs; set by --format.",
    )
    add("--round", type=float, metavar="S", help="Decide only at multiples of this; 0: at every event.")
    add("--first-round", type=float, metavar="S", help="No decision before this.")
    add("--restart", type=float, metavar="S", help="Time without progress after each start.")
    add("--first-start", type=float, metavar="S", help="The same for the first start of a job.")
    add("--grace", type=float, default=0.0, metavar="S", help="The grace period of preempted jobs.")
    add(
        "--interference",
        type=float,
        default=0.0,
        metavar="X",
        help="Speed lost to neighbours on a node, 0 to 1.",
    )
    add("--spread-penalty", type=float, default=0.0, metavar="X", help="Speed lost on several nodes, 0 to 1.")
    add("--rack-penalty", type=float, default=0.0, metavar="X", help="Additional speed lost in several racks, 0 to 1.")
    add("--share", action="store_true", help="Let jobs share GPUs, if the policy supports it.")
    add("--one-node", action="store_true", help="Jobs that fit on one node run on one node.")
    add("--opportunistic", action="store_true", help="Jobs beyond their quota wait as opportunistic ones.")
    add(
        "--rate-noise",
        type=float,
        default=0.0,
        metavar="X",
        help="How wrong the rates are that policies are told: the standard deviation of their logarithm.",
    )
    add(
        "--oracle",
        default="perfect",
        metavar="NAME",
        help="What policies know about run times: perfect, estimates or none.",
    )
    add(
        "--failures",
        default="none",
        metavar="NAME",
        help="The source of failures: none, trace, philly, philly_paper, philly_times.",
    )
    add("--retries", type=int, default=1, metavar="N", help="How often a failed job is retried.")
    add(
        "--retry-hopeless",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Whether jobs are retried whose every attempt fails.",
    )
    add("--retry-after", type=float, default=0.0, metavar="S", help="Time from a failure to the queue.")
    add("--screening", metavar="K=V,…", help="Screen gangs on a pool of gpus=N; docs/simulator.md has the other keys.")
    add("--seed", type=int, default=0, metavar="N", help="The same seed gives the same figures.")
    add = made.add_argument_group("output").add_argument
    add(
        "--json",
        nargs="?",
        const=STDOUT,
        metavar="OUT",
        help="All figures as JSON; without OUT instead of the table.",
    )
    add("--csv", metavar="OUT", help="CSV with a line for each run.")
    add("--jobs-csv", metavar="OUT", help="CSV with a line for each job.")
    add("--plots", type=Path, metavar="FOLDER", help="Plots as PNG files; needs matplotlib.")
    add("--no-timing", action="store_true", help="Leave out wall time and memory, which differ from run to run.")
    add("--list", action="store_true", help="List policies, placements, admissions, generators and formats.")
    return made


def _run(given: argparse.Namespace) -> int:
    if given.list:
        _print(_listing())
        return 0
    outputs = Outputs(
        json=given.json, csv=given.csv, jobs_csv=given.jobs_csv, plots=given.plots, timing=not given.no_timing
    )
    outputs.check()
    study = prepare(_request(given))
    for note in study.notes:
        _say(f"note: {note}")
    with progress_bar(_terminal(sys.stderr), study) as report_progress:
        rows = run_study(study, outputs, report_progress)
    if not outputs.answers:
        _table(rows, timing=outputs.timing)
    for remark in remarks(rows):
        _say(f"note: {remark}")
    return 0


def _request(given: argparse.Namespace) -> Arguments:
    return Arguments(
        trace=given.trace,
        generate=given.generate,
        format=given.format,
        policies=given.policy,
        cluster=given.cluster,
        placement=given.placement,
        admission=given.admission,
        peer=given.peer,
        round_s=given.round,
        first_round_s=given.first_round,
        restart_s=given.restart,
        first_start_s=given.first_start,
        grace_s=given.grace,
        interference=given.interference,
        spread_penalty=given.spread_penalty,
        rack_penalty=given.rack_penalty,
        share=given.share,
        one_node=given.one_node,
        opportunistic=given.opportunistic,
        rate_noise=given.rate_noise,
        oracle=given.oracle,
        failures=given.failures,
        retries=given.retries,
        retry_hopeless=given.retry_hopeless,
        retry_after_s=given.retry_after,
        screening=given.screening,
        throughputs=given.throughputs,
        read=given.read,
        start_s=given.start,
        end_s=given.end,
        limit=given.limit,
        skip_bad=given.skip_bad,
        seed=given.seed,
    )


def _table(rows: list[Row], *, timing: bool) -> None:
    console = _terminal(sys.stdout)
    for number, grid in enumerate(grids(rows, timing=timing)):
        if console is not None:
            console.print(grid.rich())
        else:
            _print(("\n" if number else "") + grid.plain())


def _terminal(stream: object) -> Console | None:
    """A rich console on this stream; None if the stream is no terminal or rich is not installed."""
    if not getattr(stream, "isatty", bool)() or importlib.util.find_spec("rich") is None:
        return None
    from rich.console import Console  # noqa: PLC0415 - the simulator works without it

    return Console(stderr=stream is sys.stderr)


def _listing() -> str:
    lines = []
    for kind, names in catalogue().items():
        width = max(map(len, names), default=0)
        lines += [f"{kind}:", *(f"  {name.ljust(width)}  {sentence}" for name, sentence in names.items()), ""]
    return "\n".join(lines).rstrip()


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - a command line


def _print(text: str) -> None:
    print(text)  # noqa: T201 - a command line


if __name__ == "__main__":
    sys.exit(main())
