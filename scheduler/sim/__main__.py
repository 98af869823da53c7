"""Compares policies on a trace: `python -m scheduler.sim --trace FILE --policy fifo --cluster V100:8x4`.

docs/operator/simulator.md explains the options and the figures.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.sim.arguments import UsageError, catalogue, prepare
from scheduler.sim.command import progress_bar, remarks, run_study
from scheduler.sim.engine import SimulationError
from scheduler.sim.parser import Given, parse
from scheduler.sim.report import Row, grids

if TYPE_CHECKING:
    from rich.console import Console

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        return _run(parse(arguments, prog="python -m scheduler.sim"))
    except UsageError as error:
        _say(f"error: {error}")
        return EXIT_USAGE
    except SimulationError as error:
        _say(f"error: please report this: the simulation is inconsistent: {error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        _say("interrupted; nothing was written")
        return EXIT_INTERRUPTED


def _run(given: Given) -> int:
    if given.lists:
        _print(_listing())
        return 0
    outputs = given.outputs
    outputs.check()
    study = prepare(given.arguments)
    for note in study.notes:
        _say(f"note: {note}")
    with progress_bar(_terminal(sys.stderr), study) as report_progress:
        rows = run_study(study, outputs, report_progress)
    if not outputs.answers:
        _table(rows, timing=outputs.timing)
    for remark in remarks(rows):
        _say(f"note: {remark}")
    return 0


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
