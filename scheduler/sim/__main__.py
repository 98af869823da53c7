"""Compares policies on a trace: `python -m scheduler.sim --trace FILE --policy fifo --cluster V100:8x4`.

docs/simulator.md says what the options and the figures mean.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from scheduler.sim.command import STDOUT, Outputs, carry_out, progress_bar, remarks
from scheduler.sim.engine import SimulationError
from scheduler.sim.report import Row, grids
from scheduler.sim.request import Request, RequestError, catalogue, prepare

if TYPE_CHECKING:
    from rich.console import Console

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        raise RequestError(message.removeprefix("argument "))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        return _run(parser().parse_args(arguments))
    except RequestError as error:
        _say(f"error: {error}")
        return EXIT_USAGE
    except SimulationError as error:
        _say(f"error: the simulator caught itself in a mistake: {error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        _say("interrupted; nothing was written")
        return EXIT_INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """The options, which `muster simulate` has too."""
    made = _Parser(prog="python -m scheduler.sim", description="Compare policies on a trace.", allow_abbrev=False)
    add = made.add_argument_group("what is simulated").add_argument
    add("--trace", type=Path, metavar="FILE", help="The jobs, plain or gzipped.")
    add("--format", metavar="NAME", help="The format of the trace, when its first lines do not tell it.")
    add("--generate", metavar="NAME[:K=V,…]", help="Jobs drawn from the seed, instead of a trace.")
    add("--policy", action="append", default=[], metavar="NAME[:K=V,…]", help="A policy to compare; may be repeated.")
    add("--cluster", metavar="TYPE:NODESxGPUS,…|FILE", help="The GPUs, as V100:2x4,P100:4x4 or a YAML file.")
    add("--placement", metavar="NAME[:K=V,…]", help="Which GPUs exactly; consolidate if nothing is said.")
    add("--admission", default="quota", metavar="NAME[:K=V,…]", help="What a virtual cluster may have.")
    add("--start", type=float, default=0.0, metavar="S", help="Only jobs from so long after the first submission.")
    add("--end", type=float, default=math.inf, metavar="S", help="Only jobs before that.")
    add("--limit", type=int, metavar="N", help="Only so many jobs, the first ones.")
    add("--skip-bad", action="store_true", help="Leave out and count lines and jobs that cannot be used.")
    add("--throughputs", type=Path, metavar="FILE|FOLDER", help="Measured speeds, for traces that count steps.")
    add("--read", metavar="K=V,…", help="Other options of the format.")
    add = made.add_argument_group("what is assumed").add_argument
    add(
        "--peer",
        action=argparse.BooleanOptionalAction,
        help="What the trace's authors assumed in theirs, where nothing else is said; with --format by itself.",
    )
    add("--round", type=float, metavar="S", help="Decide at multiples of this only; 0: whenever something happens.")
    add("--first-round", type=float, metavar="S", help="And not before this.")
    add("--restart", type=float, metavar="S", help="Without progress after each start.")
    add("--first-start", type=float, metavar="S", help="The same for the first start of a job.")
    add("--grace", type=float, default=0.0, metavar="S", help="How long a preempted job holds its GPUs.")
    add("--interference", type=float, default=0.0, metavar="X", help="Lost speed of neighbours, 0 to 1.")
    add("--spread-penalty", type=float, default=0.0, metavar="X", help="Lost speed on several nodes, 0 to 1.")
    add("--rack-penalty", type=float, default=0.0, metavar="X", help="Lost speed, on top, in several racks, 0 to 1.")
    add("--share", action="store_true", help="Let a policy that packs put jobs beside others on their GPUs.")
    add(
        "--oracle",
        default="perfect",
        metavar="NAME",
        help="What policies are told of run times: perfect, estimates or none.",
    )
    add(
        "--failures",
        default="none",
        metavar="NAME",
        help="Who fails: none, trace, philly, philly_paper, philly_times.",
    )
    add("--retries", type=int, default=1, metavar="N", help="How often a job that fails is tried again.")
    add(
        "--retry-hopeless",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Whether also where every attempt must fail.",
    )
    add("--retry-after", type=float, default=0.0, metavar="S", help="From a failure to the queue again.")
    add("--screening", metavar="K=V,…", help="Try gangs first on gpus=N of their own; docs/simulator.md has the rest.")
    add("--seed", type=int, default=0, metavar="N", help="The same seed gives the same figures.")
    add = made.add_argument_group("where the figures go").add_argument
    add("--json", nargs="?", const=STDOUT, metavar="OUT", help="All figures as JSON; without OUT instead of the table.")
    add("--csv", metavar="OUT", help="A line for each run.")
    add("--jobs-csv", metavar="OUT", help="A line for each job of each run.")
    add("--plots", type=Path, metavar="FOLDER", help="Three PNG files; needs matplotlib.")
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
    with progress_bar(_terminal(sys.stderr), study) as tell:
        rows = carry_out(study, outputs, tell)
    if not outputs.answers:
        _table(rows, timing=outputs.timing)
    for remark in remarks(rows):
        _say(f"note: {remark}")
    return 0


def _request(given: argparse.Namespace) -> Request:
    return Request(
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
    """A console of rich on this stream; None when nobody looks at it, or when rich is not installed."""
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
