"""Readers of published job traces: one module per format.

A module with a `FORMAT` and a function `read` is a reader. Adding a format edits no other file.
"""

from __future__ import annotations

import fnmatch
import importlib
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, cast

from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import first_lines
from scheduler.sim.trace import Trace, TraceError

__all__ = ["Format", "Peer", "ReadOptions", "detect", "formats", "read_trace"]


@dataclass(frozen=True, slots=True)
class Peer:
    """The assumptions of the authors' own simulator for such traces; None and empty: it makes none."""

    source: str
    cluster: str | None = None  # as `parse_cluster` reads it
    round_s: float | None = None  # the interval of allocation changes; None: at any event
    first_round_s: float = 0.0  # no decision before this
    restart_s: float = 0.0  # without progress after each start and each change
    placement: str = "consolidate"
    whole_ends: bool = False  # ends are recorded as whole seconds
    policies: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # parameters by policy name
    # fields of `ReadOptions` that give jobs the lengths used there
    works: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Format:
    """A file format of traces."""

    name: str
    sentence: str
    files: tuple[str, ...]  # patterns of the usual file names, without `.gz`
    sniff: Callable[[Sequence[str]], bool]  # whether the first lines that are not blank look like this format
    ordered: bool = False  # jobs are guaranteed to be in submission order
    peer: Peer | None = None


class Reader(Protocol):
    """The interface of a format's module."""

    FORMAT: Format

    def read(self, path: Path, options: ReadOptions) -> Trace:
        """The jobs in the file."""


@cache
def _readers() -> Mapping[str, Reader]:
    # Found on first use: readers import this package, which is complete by then.
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    readers = (cast(Reader, module) for module in modules if hasattr(module, "FORMAT"))
    return MappingProxyType({reader.FORMAT.name: reader for reader in readers})


def formats() -> Mapping[str, Format]:
    """All formats by name, sorted."""
    return {name: reader.FORMAT for name, reader in sorted(_readers().items())}


def detect(path: Path) -> Format:
    """The format of a file, by its first lines, and by its name if these fit several.

    Raises:
        TraceError: no format fits, or several do.
    """
    fitting = _fitting(path)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(each.name for each in fitting)
        raise TraceError(f"{path.name}, line 1: could be any of {names}; name the format")
    raise TraceError(f"{path.name}, line 1: no known format begins like this; known: {', '.join(formats())}")


def _fitting(path: Path) -> Sequence[Format]:
    """The formats that the first lines fit; among several, the ones that the file's name fits too, if any."""
    lines = first_lines(path)
    fitting = [each for each in formats().values() if each.sniff(lines)]
    if len(fitting) > 1:
        name = path.name.removesuffix(".gz")
        fitting = [each for each in fitting if any(fnmatch.fnmatch(name, pattern) for pattern in each.files)] or fitting
    return fitting


def read_trace(
    path: Path | str,
    format: str | None = None,  # noqa: A002 - the word that the user says
    *,
    skip_bad: bool = False,
    start_s: float = 0.0,
    end_s: float = math.inf,
    limit: int | None = None,
    options: ReadOptions | None = None,
) -> Trace:
    """The jobs of a file, plain or gzipped, in submission order.

    A trace with dates starts at its first submission, one with plain seconds at their 0. `start_s` and `end_s` count
    from there and select the jobs between; the trace then starts at `start_s`. `limit` is the maximum number of jobs.
    All other options of the format are in `options`.

    Raises:
        TraceError: it names file, line and reason. With `skip_bad` unusable lines are skipped and listed in
            `Trace.skipped` instead.
    """
    path = Path(path)
    if format is not None and format not in _readers():
        raise TraceError(f"unknown format {format!r}; the formats are {', '.join(formats())}")
    name = format or detect(path).name
    given = replace(options or ReadOptions(), skip_bad=skip_bad, start_s=start_s, end_s=end_s, limit=limit)
    try:
        return _readers()[name].read(path, given)
    except TraceError as error:
        fitting = [each.name for each in _fitting(path)]
        if not fitting or name in fitting:
            raise
        raise TraceError(f"{error}; the file looks like format {' or '.join(fitting)}, not {name}") from None
