"""The options of the simulator, which `python -m scheduler.sim` and `muster simulate` share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from scheduler.sim.arguments import Arguments, UsageError
from scheduler.sim.command import STDOUT, Outputs

T = TypeVar("T", Arguments, Outputs)


@dataclass(frozen=True, slots=True)
class Given:
    """A parsed command line."""

    arguments: Arguments
    outputs: Outputs
    lists: bool


def parse(words: Sequence[str] | None, *, prog: str) -> Given:
    """The parsed words, by default those of this process.

    Raises:
        UsageError: names the first wrong option.
    """
    given = vars(parser(prog).parse_args(words))
    return Given(_only(Arguments, given), _only(Outputs, given), "list" in given)


def _only(kind: type[T], given: dict[str, Any]) -> T:
    names = given.keys() & {field.name for field in fields(kind)}
    return kind(**{name: given[name] for name in names})


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))


def parser(prog: str) -> argparse.ArgumentParser:
    """All options; the defaults are those of `Arguments` and `Outputs`."""
    made = _Parser(
        prog=prog, description="Compare policies on a trace.", allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    add = made.add_argument_group("jobs and cluster").add_argument
    add("--trace", type=Path, metavar="FILE", help="The jobs, plain or gzipped.")
    add("--format", metavar="NAME", help="The format of the trace, if its first lines are ambiguous.")
    add("--generate", metavar="NAME[:K=V,…]", help="Jobs drawn from the seed, instead of a trace.")
    add(
        "--policy",
        action="append",
        dest="policies",
        metavar="NAME[:K=V,…]",
        help="A policy to compare; may be repeated.",
    )
    add(
        "--from",
        dest="snapshot",
        type=Path,
        metavar="FILE",
        help="Instead of a trace and a cluster, a pool as it was at a cycle: a file of manage.py replay CYCLE FILE.",
    )
    add("--cluster", metavar="TYPE:NODESxGPUS,…|FILE", help="The GPUs, as V100:2x4,P100:4x4 or a YAML file.")
    add("--placement", metavar="NAME[:K=V,…]", help="The choice of GPUs for a job; consolidate by default.")
    add("--admission", metavar="NAME[:K=V,…]", help="The limits of virtual clusters; quota by default.")
    add(
        "--start",
        dest="start_s",
        type=float,
        metavar="S",
        help="Only jobs submitted from this time on, counted from the first.",
    )
    add("--end", dest="end_s", type=float, metavar="S", help="Only jobs submitted before this time.")
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
    add(
        "--unknown",
        dest="unknown_s",
        type=float,
        metavar="S",
        help="The run time of jobs of --from without a prediction; 3600 by default.",
    )
    add("--round", dest="round_s", type=float, metavar="S", help="Decide only at multiples of this; 0: at every event.")
    add("--first-round", dest="first_round_s", type=float, metavar="S", help="No decision before this.")
    add("--restart", dest="restart_s", type=float, metavar="S", help="Time without progress after each start.")
    add("--first-start", dest="first_start_s", type=float, metavar="S", help="The same for the first start of a job.")
    add("--grace", dest="grace_s", type=float, metavar="S", help="The grace period of preempted jobs.")
    add("--interference", type=float, metavar="X", help="Speed lost to neighbours on a node, 0 to 1.")
    add("--spread-penalty", type=float, metavar="X", help="Speed lost on several nodes, 0 to 1.")
    add("--rack-penalty", type=float, metavar="X", help="Additional speed lost in several racks, 0 to 1.")
    add("--share", action="store_true", help="Let jobs share GPUs, if the policy supports it.")
    add("--one-node", action="store_true", help="Jobs that fit on one node run on one node.")
    add("--opportunistic", action="store_true", help="Jobs beyond their quota wait as opportunistic ones.")
    add(
        "--rate-noise",
        type=float,
        metavar="X",
        help="The error of the rates that policies see: the standard deviation of their logarithm.",
    )
    add("--oracle", metavar="NAME", help="Run times that policies know: perfect, learned or none.")
    add("--failures", metavar="NAME", help="The source of failures: none, trace, philly, philly_paper, philly_times.")
    add("--retries", type=int, metavar="N", help="The retries of a failed job.")
    add(
        "--retry-hopeless",
        action=argparse.BooleanOptionalAction,
        help="Retry jobs that fail in every attempt.",
    )
    add("--retry-after", dest="retry_after_s", type=float, metavar="S", help="Time from a failure to the queue.")
    add(
        "--screening",
        metavar="K=V,…",
        help="Screen gangs on a pool of gpus=N; docs/operator/simulator.md has the other keys.",
    )
    add("--seed", type=int, metavar="N", help="The same seed gives the same figures.")
    add = made.add_argument_group("output").add_argument
    add("--json", nargs="?", const=STDOUT, metavar="OUT", help="All figures as JSON; without OUT instead of the table.")
    add("--csv", metavar="OUT", help="CSV with a line for each run.")
    add("--jobs-csv", metavar="OUT", help="CSV with a line for each job.")
    add("--plots", type=Path, metavar="FOLDER", help="Plots as PNG files; needs matplotlib.")
    add(
        "--no-timing",
        dest="timing",
        action="store_false",
        help="Leave out wall time and memory, which differ from run to run.",
    )
    add("--list", action="store_true", help="List policies, placements, admissions, generators and formats.")
    return made
