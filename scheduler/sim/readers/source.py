"""A trace's file line by line, errors in its values, and its jobs.

The file is never kept in memory: each line becomes a job as it is read.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, TypeVar

from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.trace import BadLine, Trace, TraceError, TraceJob

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = _EPOCH.replace(tzinfo=None)
_SNIFFED_LINES = 4  # lines
_MAX_LINE_CHARS = 4 * 1024 * 1024  # characters

Row = TypeVar("Row")


class Unusable(ValueError):
    """A job that cannot be used; the message is the reason."""


class Excluded(Exception):
    """A valid job that the simulator does not use; the message is a short reason."""


class Source:
    """One file while it is read: its lines, the lines left out so far, and its jobs.

    If jobs are `dated`, the trace starts at the first submission; else it starts at the file's 0, from which the
    authors count their rounds.
    """

    def __init__(self, path: Path, options: ReadOptions, *, ordered: bool = False, dated: bool = False) -> None:
        self.path, self.options, self._ordered, self._dated = path, options, ordered, dated
        self._jobs: list[TraceJob] = []  # numbered at the end, with times from the start of the trace
        self._skipped: list[BadLine] = []
        self._left_out: Counter[str] = Counter()
        self._latest_s = -math.inf

    def error(self, line: int, reason: object) -> TraceError:
        """The error with file, line and reason."""
        return TraceError(f"{self.path.name}, line {line}: {reason}")

    def bad(self, line: int, reason: object) -> None:
        """Refuse the line, or note it if bad lines are skipped."""
        if not self.options.skip_bad:
            raise self.error(line, reason)
        self._skipped.append(BadLine(line, str(reason)))

    def lines(self) -> Iterator[tuple[int, str]]:
        """The number and text of each line that is not blank."""
        with opened(self.path) as file:
            number = 0
            while text := file.readline(_MAX_LINE_CHARS):
                number += 1
                if len(text) == _MAX_LINE_CHARS and not text.endswith("\n"):
                    raise self.error(number, f"longer than {_MAX_LINE_CHARS} characters")
                if not text.isspace():
                    yield number, text.rstrip("\r\n")

    def add_each(self, rows: Iterator[tuple[int, Row]], draft: Callable[[Row], TraceJob]) -> None:
        """Add a job from each row."""
        for line, row in rows:
            self.add(line, row, draft)

    def add(self, line: int, row: Row, draft: Callable[[Row], TraceJob]) -> None:
        """Add the job of one row, whose submission counts in the trace's own time."""
        try:
            job = draft(row)
            if self._ordered and job.submitted_s < self._latest_s:
                raise Unusable(
                    f"submitted at {job.submitted_s:g} s, before the job above it; the format sorts by submission"
                )
        except Unusable as error:
            self.bad(line, error)
        except Excluded as reason:
            self._left_out[str(reason)] += 1
        else:
            self._latest_s = job.submitted_s
            # The job is still private here, and numbered at the end: copying millions takes as long as reading them.
            object.__setattr__(job, "line", line)
            if job.gpu_type is None and not job.gpu_types:
                object.__setattr__(job, "gpu_type", self.options.gpu_type)
            self._jobs.append(job)

    def table(
        self, columns: Sequence[str], *, optional: Sequence[str] = (), delimiter: str = ","
    ) -> Iterator[tuple[int, list[str]]]:
        """The named columns of each row below a header, in any order; a missing optional column is ''.

        A value may be quoted, but must end on its line.
        """
        lines = self.lines()
        number, text = next(lines, (1, ""))
        try:
            header = [name.strip().lower() for name in self._fields(text.lstrip("\ufeff"), delimiter)]
        except Unusable as error:
            raise self.error(number, error) from None
        missing = [name for name in columns if name.lower() not in header]
        if missing:
            raise self.error(number, f"no column {missing[0]!r}")
        if len(set(header)) != len(header):
            raise self.error(number, "two columns have the same name")
        places = [header.index(name.lower()) if name.lower() in header else -1 for name in (*columns, *optional)]
        for line, content in lines:
            try:
                row = self._fields(content, delimiter)
            except Unusable as error:
                self.bad(line, error)
                continue
            if len(row) != len(header):
                self.bad(line, f"{len(row)} columns where the header has {len(header)}")
                continue
            yield line, [row[place] if place >= 0 else "" for place in places]

    def trace(self, quotas: dict[str, dict[str, int]] | None = None) -> Trace:
        """The jobs in order, filtered by the options."""
        jobs = self._jobs
        if not jobs:
            left = ", ".join(f"{count} {reason}" for reason, count in self._left_out.items())
            bad = f"{len(self._skipped)} bad lines" if self._skipped else ""
            raise self.error(1, "no usable job" + "".join(f"; {each}" for each in (left, bad) if each))
        jobs.sort(key=lambda job: job.submitted_s)
        start_s, end_s, limit = self.options.start_s, self.options.end_s, self.options.limit
        zero = start_s + (jobs[0].submitted_s if self._dated else 0.0)
        if start_s > 0 or end_s < math.inf:
            jobs = [job for job in jobs if 0 <= job.submitted_s - zero < end_s - start_s]
        if limit is not None:
            del jobs[limit:]
        for number, job in enumerate(jobs, start=1):
            object.__setattr__(job, "id", number)
            object.__setattr__(job, "submitted_s", job.submitted_s - zero)
        name = self.path.name.removesuffix(".gz")
        began_at = zero if self._dated else None
        return Trace(name, tuple(jobs), tuple(self._skipped), quotas or {}, dict(self._left_out), began_at=began_at)

    @staticmethod
    def _fields(text: str, delimiter: str) -> list[str]:
        if '"' not in text:
            return text.split(delimiter)
        try:
            return next(csv.reader([text], delimiter=delimiter, strict=True), [])
        except csv.Error as error:
            raise Unusable(f"broken quotes: {error}") from None


def table_reader(
    columns: Sequence[str], draft: Callable[[Sequence[str], ReadOptions], TraceJob], *, dated: bool = False
) -> Callable[[Path, ReadOptions], Trace]:
    """A reader of files with these columns and a job in each row."""

    def read(path: Path, options: ReadOptions) -> Trace:
        source = Source(path, options, dated=dated)
        source.add_each(source.table(columns), lambda row: draft(row, options))
        return source.trace()

    return read


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """The text of the file, decompressed if gzipped; a `TraceError` if it cannot be read."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
        # Invalid bytes spoil only the value that contains them.
        if zipped:
            with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
                yield file
        else:
            with path.open(encoding="utf-8", errors="replace") as file:
                yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path.name}: broken gzip file: {error}") from None
    except OSError as error:
        raise TraceError(f"{path.name}: {error.strerror}") from None


def first_lines(path: Path) -> list[str]:
    """The first lines that are not blank."""
    with opened(path) as file:
        head = (line.rstrip("\r\n") for line in iter(lambda: file.readline(_MAX_LINE_CHARS), ""))
        return list(islice((line for line in head if line.strip()), _SNIFFED_LINES))


def has_columns(*names: str, delimiter: str = ",", exactly: bool = False) -> Callable[[Sequence[str]], bool]:
    """A sniffer for files whose header has these columns, or exactly these."""

    def sniff(lines: Sequence[str]) -> bool:
        header = [name.strip().lower() for name in lines[0].lstrip("\ufeff").split(delimiter)] if lines else []
        wanted = [name.lower() for name in names]
        return header == wanted if exactly else set(wanted) <= set(header)

    return sniff


def number(text: str, what: str) -> float:
    """The finite number in `text`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise Unusable(f"{what} is not a number: {text!r}")
    return value


def amount(text: str, what: str) -> float:
    """The finite, non-negative number in `text`."""
    value = number(text, what)
    if value < 0:
        raise Unusable(f"{what} is negative: {text}")
    return value


def whole(text: str, what: str) -> int:
    """The whole number in `text`, which may be written as 8.0."""
    value = number(text, what)
    if value != int(value):
        raise Unusable(f"{what} is not a whole number: {text}")
    return int(value)


def gpu_count(text: str, what: str = "the number of GPUs") -> int:
    """A number of GPUs, at least one."""
    count = whole(text, what)
    if count <= 0:
        raise Unusable(f"{what} is {count}, not at least 1")
    return count


def some_gpus(text: str, what: str = "the number of GPUs") -> int:
    """A number of GPUs for traces that include jobs without GPUs; these are left out."""
    if whole(text, what) == 0:
        raise Excluded("asks for no GPU")
    return gpu_count(text, what)


def moment(text: str, what: str) -> float:
    """Seconds since 1970 of a date and time; without a time zone it is read as UTC.

    So an hour that a clock change adds to or takes from the trace's local time goes unnoticed.
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise Unusable(f"{what} is not a date and time: {text!r}") from None
    return (when - (_EPOCH if when.tzinfo else _LOCAL_EPOCH)).total_seconds()


def is_nothing(text: str) -> bool:
    """True if the value is one of the words for no value."""
    return text.strip().lower() in {"", "none", "null", "nan", "nat", "unknown", "n/a"}


def per_gpu(total: float, gpus: int) -> int:
    """The part of a total for each GPU, rounded up."""
    return math.ceil(total / gpus - 1e-9)
