"""The output of a command: tables for people, JSON for programs, never both.

Standard output carries the answer; notes, progress and errors go to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from muster_client.errors import MusterError
from muster_client.local.terminal import LogWriter, clean
from muster_client.show.render import problem_lines
from muster_client.show.tables import plain_lines

if TYPE_CHECKING:
    from muster_client.answers.forecast import SlurmAnswer, SubmittedScript

# A pipe has no width: a table there takes what it needs rather than losing columns.
PIPE_WIDTH = 1000


class Output:
    """One command's output, in the form that was asked for."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.console = _console(sys.stdout)
        self.errors = _console(sys.stderr)

    def answer(self, document: Any, *human: RenderableType) -> None:
        """Print the answer of a command that has one."""
        if self.as_json:
            self._print_json(document, indent=2)
            return
        for part in human:
            lines = plain_lines(part, PIPE_WIDTH) if isinstance(part, Table) and not self.on_terminal else None
            if lines is None:
                self.console.print(part)
            else:
                self.text("".join(f"{line}\n" for line in lines))

    def text(self, text: str) -> None:
        """Print text as it is, for programs and people alike."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def relay(self, answer: SlurmAnswer | SubmittedScript) -> None:
        """Print the output of a command that ran on the server: names and comments in it are those of other users."""
        for stream, text in ((sys.stdout, answer["stdout"]), (sys.stderr, answer["stderr"])):
            stream.write("".join(f"{clean(line)}\n" for line in text.splitlines()) if stream.isatty() else text)
            stream.flush()

    def line(self, document: Any) -> None:
        """Print one JSON line of a stream."""
        self._print_json(document, indent=None)

    def note(self, text: str) -> None:
        """Tell something beside the answer; programs do not hear it."""
        if not self.as_json:
            self.errors.print(Text(clean(text)))

    def warn(self, text: str) -> None:
        """Show a warning beside the answer."""
        self.errors.print(Text(f"warning: {clean(text)}", style="yellow"))

    def error(self, error: MusterError) -> None:
        """Show what went wrong: the problem document, or its title, detail and fields."""
        problem = error.problem()
        if self.as_json:
            print(json.dumps(problem), file=sys.stderr)  # noqa: T201 - JSON is not for a console to lay out
            return
        for line in problem_lines(problem):
            self.errors.print(line)

    def log_writer(self, *, labelled: bool = False) -> LogWriter:
        """Return the writer of a job's output; `labelled` puts the rank in front of each line."""
        terminal = self.on_terminal
        colour = terminal and not self.console.no_color
        return LogWriter(sys.stdout.buffer, terminal=terminal, colour=colour, labelled=labelled)

    @property
    def on_terminal(self) -> bool:
        """Return whether a person reads the answer."""
        return sys.stdout.isatty()

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Progress]:
        """Show a bar of bytes while the block runs, if there is someone to look at it."""
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        shown = self.errors.is_terminal and not self.as_json
        with Progress(*columns, console=self.errors, transient=True, disable=not shown) as progress:
            progress.add_task(title, total=total)
            yield progress

    @contextmanager
    def busy(self, title: str) -> Iterator[None]:
        """Show that something is going on while the block runs, if there is someone to look at it."""
        if self.as_json or not self.errors.is_terminal:
            yield
            return
        with self.errors.status(Text(title)):
            yield

    def _print_json(self, document: Any, *, indent: int | None) -> None:
        sys.stdout.write(json.dumps(document, indent=indent) + "\n")
        sys.stdout.flush()


def _console(file: TextIO) -> Console:
    terminal = file.isatty()
    colourless = not terminal or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Console(
        file=file,
        width=None if terminal else PIPE_WIDTH,
        force_terminal=None if terminal else False,
        no_color=colourless,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=not terminal,
    )
