"""Traces of jobs from files, in the forms in which they were published: one module a format.

A module takes part by having a `FORMAT` and a function `read`. Adding a format edits no other file.
"""

from __future__ import annotations

import fnmatch
import importlib
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """How the authors' own simulator ran such traces; None and empty: it has no opinion.

    `ties` says which of two jobs of equal rank comes first: "submission" (by time, then by the order of the file) or
    "random".
    """

    source: str
    cluster: str | None = None  # as `parse_cluster` reads it
    round_s: float | None = None  # the interval at which an allocation may change; None: at any event
    first_round_s: float = 0.0  # nothing is decided before this
    restart_s: float = 0.0  # without progress after each start and each change
    placement: str = "consolidate"
    ties: str = "submission"
    whole_ends: bool = False  # the ends of jobs are written down as whole seconds
    policies: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # parameters by name of the policy
    works: Mapping[str, object] = field(default_factory=dict)  # fields of `ReadOptions` that make jobs last as there


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write down jobs."""

    name: str
    sentence: str
    files: tuple[str, ...]  # patterns of the names that such files usually have, without `.gz`
    sniff: Callable[[Sequence[str]], bool]  # whether the first lines that are not blank look like this format
    ordered: bool = False  # it promises that jobs stand in the order of their submission
    peer: Peer | None = None


class Reader(Protocol):
    """What the module of each format has."""

    FORMAT: Format

    def read(self, path: Path, options: ReadOptions) -> Trace:
        """The jobs in the file."""
        ...


@cache
def _readers() -> Mapping[str, Reader]:
    # Found on first use: a reader imports this package, which is then complete.
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    readers = (cast(Reader, module) for module in modules if hasattr(module, "FORMAT"))
    return MappingProxyType({reader.FORMAT.name: reader for reader in readers})


def formats() -> Mapping[str, Format]:
    """All formats by name, sorted."""
    return {name: reader.FORMAT for name, reader in sorted(_readers().items())}


def detect(path: Path) -> Format:
    """The format of a file, by its first lines, and by its name where these fit several.

    Raises `TraceError` when no format fits, or when several do.
    """
    fitting = _fitting(path)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(each.name for each in fitting)
        raise TraceError(f"{path.name}, line 1: could be any of {names}; name the format")
    raise TraceError(f"{path.name}, line 1: no known format begins like this; known: {', '.join(formats())}")


def _fitting(path: Path) -> Sequence[Format]:
    """The formats that the first lines fit; of several, those that the file's name fits too, if there are any."""
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
    """The jobs of a file, plain or gzipped, in the order of submission.

    A trace with dates starts at its first submission, one with plain seconds at their 0. With `start_s` and `end_s`,
    counted from there, only the jobs between; the trace then starts at `start_s`. With `limit`, at most so many. Any
    other option of the format is a field of `options`.

    Raises `TraceError`, with the file, the line and the reason, for what cannot be used; with `skip_bad` such lines are
    skipped and listed in `Trace.skipped`.
    """
    path = Path(path)
    if format is not None and format not in _readers():
        raise TraceError(f"there is no format {format!r}; there is {', '.join(formats())}")
    name = format or detect(path).name
    given = (options or ReadOptions()).but(skip_bad=skip_bad, start_s=start_s, end_s=end_s, limit=limit)
    try:
        return _readers()[name].read(path, given)
    except TraceError as error:
        fitting = [each.name for each in _fitting(path)]
        if not fitting or name in fitting:
            raise
        raise TraceError(f"{error}; the file looks like format {' or '.join(fitting)}, not {name}") from None
