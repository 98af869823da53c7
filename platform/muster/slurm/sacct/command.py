"""`sacct` as a command: its options and its table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from muster.common.clock import utc_now
from muster.slurm.call import VERSION, Answer, Call, Refused
from muster.slurm.formats import MAX_WIDTH
from muster.slurm.options import Parsed, flag, parse, valued
from muster.slurm.sacct.choice import Window, chosen
from muster.slurm.sacct.fields import (
    BRIEF,
    DEFAULT,
    LONG,
    NAMES,
    TIMES,
    Printing,
    fields_of,
    is_left,
    value_of,
    width_of,
)
from muster.slurm.sacct.records import Record, records_of
from muster.slurm.states import State

MAX_JOBS = 50_000
OPTIONS = (
    *(flag("allusers", "a"), valued("accounts", "A"), flag("brief", "b"), flag("batch-script", "B")),
    *(flag("completion", "c"), valued("delimiter"), flag("duplicates", "D"), flag("helpformat", "e")),
    *(valued("endtime", "E"), flag("env-vars"), flag("federation"), valued("file", "f"), valued("gid", "g")),
    *(valued("group"), flag("help", "h"), valued("nnodes", "i"), valued("ncpus", "I"), valued("jobs", "j")),
    *(flag("json"), valued("timelimit-min", "k"), valued("timelimit-max", "K"), flag("local"), flag("long", "l")),
    *(flag("allclusters", "L"), valued("clusters", "M"), flag("noheader", "n"), flag("noconvert")),
    *(valued("nodelist", "N"), valued("name"), valued("format", "o"), flag("parsable", "p"), flag("parsable2", "P")),
    *(valued("qos", "q"), valued("partition", "r"), valued("state", "s"), valued("starttime", "S")),
    *(flag("truncate", "T"), valued("units"), valued("uid"), valued("user", "u"), flag("usage"), flag("verbose", "v")),
    flag("version", "V"),
    *(valued("wckeys", "W"), flag("whole-hetjob"), valued("associations", "x"), flag("allocations", "X"), flag("yaml")),
)
_UNSUPPORTED = ("batch-script", "completion", "env-vars", "file", "json", "yaml")
_USAGE = "Usage: sacct [options]\n"
_WIDTH = re.compile(r"(-?)(\d*)", re.ASCII)
_NAMES_A_LINE = 4


@dataclass(frozen=True, slots=True)
class _Column:
    """A field as the format has it."""

    field: str
    width: int
    left: bool

    def fitted(self, value: str) -> str:
        """The value in the width, its end cut off with a `+`."""
        if len(value) > self.width:
            value = f"{value[: max(self.width - 1, 0)]}+"[: self.width]
        return self.padded(value)

    def padded(self, text: str) -> str:
        """The beginning of the text in the width."""
        cut = text[: self.width]
        return cut.ljust(self.width) if self.left else cut.rjust(self.width)

    def value(self, record: Record, printing: Printing) -> str:
        """The value of the record; in a narrow column a time is as much of itself as fits, also without padding."""
        value = value_of(self.field, record, printing)
        return value[: self.width] if self.field in TIMES and self.width < width_of(self.field) else value


def sacct(call: Call) -> Answer:
    """The answer of `sacct`."""
    given = parse("sacct", call.arguments, OPTIONS)
    if given.has("version"):
        return Answer(f"{VERSION}\n")
    if given.has("help") or given.has("usage"):
        return Answer(_USAGE)
    if given.has("helpformat"):
        return Answer(_listed(NAMES))
    if given.words:
        words = "".join(f"sacct: error:  {word}\n" for word in given.words)
        raise Refused(f"sacct: error: Unknown arguments:\n{words}")
    for name in _UNSUPPORTED:
        if given.has(name):
            raise Refused(f"sacct: error: --{name} is not supported")
    columns, printing = _columns(given, call), Printing(call, utc_now(), _units(given))
    choice = chosen(given, call, printing.now)
    too_many = choice.jobs.order_by()[: MAX_JOBS + 1].count() > MAX_JOBS
    if too_many:
        raise Refused(f"sacct: error: more than {MAX_JOBS:,} jobs match: name a shorter time, or fewer jobs")
    records = [record for record in records_of(choice.jobs, steps=not given.has("allocations")) if choice.shows(record)]
    records = _folded(records if given.has("duplicates") else _newest(records))
    if given.has("truncate"):
        records = [_cut(record, choice.window) for record in records]
    rows = ([column.value(record, printing) for column in columns] for record in records)
    return Answer(_table(given, columns, rows))


def _columns(given: Parsed, call: Call) -> list[_Column]:
    views = {"brief": BRIEF, "long": LONG}
    text = ",".join(given.all("format")) or next((view for name, view in views.items() if given.has(name)), None)
    columns = []
    for item in (text or call.environment.get("SACCT_FORMAT") or DEFAULT).split(","):
        name, has_width, width = item.lstrip().partition("%")
        found = fields_of(name) if name else ()
        if found is None:
            raise Refused(f'sacct: error: Invalid field requested: "{name}"')
        parts = _WIDTH.match(width)
        wide = min(int((parts[2] or "0")[:9]), MAX_WIDTH) if parts and has_width else None
        columns += [
            _Column(field, width_of(field) if wide is None else wide, is_left(field) or bool(parts and parts[1]))
            for field in found
        ]
    return columns


def _units(given: Parsed) -> str:
    if (units := given.last("units")) is None:
        return "M" if given.has("noconvert") else ""
    if units.upper() not in set("KMGTP"):
        possible = f"sacct: error: Invalid unit type '{units}'. Possible options are 'KMGTP'"
        raise Refused(f"{possible}\nsacct: fatal: Invalid unit type")
    return units.upper()


def _newest(records: Sequence[Record]) -> list[Record]:
    """The last of the records of each job, with those of its steps."""
    last = {record.job.pk: record.attempt for record in records}
    return [record for record in records if record.attempt == last[record.job.pk]]


def _folded(records: Sequence[Record]) -> list[Record]:
    """The records, with one for the members of an array that have never started."""
    found: dict[tuple[int, int], Record] = {}
    for record in records:
        job = record.job
        waits = record.state is State.PENDING and job.array_index is not None and not job.attempt_count
        key = (job.group_id or 0, -1) if waits else (job.pk, len(found))
        first = found.setdefault(key, record)
        if waits:
            found[key] = replace(first, indices=(*first.indices, job.array_index or 0))
    return list(found.values())


def _cut(record: Record, window: Window) -> Record:
    """The record with the part of its run that lies in the window."""
    start, end = record.start, record.end
    if start is not None:
        start = start if window.start is None else max(start, window.start)
        end = window.end if end is None else min(end, window.end)
    return replace(record, start=start, end=end)


def _table(given: Parsed, columns: Sequence[_Column], rows: Iterable[Sequence[str]]) -> str:
    header = [] if given.has("noheader") else [[column.field for column in columns]]
    if given.has("parsable") or given.has("parsable2"):
        delimiter = "|" if (text := given.last("delimiter")) is None else text
        end = "" if given.has("parsable2") else delimiter
        return "".join(f"{delimiter.join(row)}{end}\n" for row in (*header, *rows))
    lines = [" ".join(column.padded(column.field) for column in columns) for _ in header]
    lines += [" ".join("-" * column.width for column in columns) for _ in header]
    lines += [" ".join(column.fitted(value) for column, value in zip(columns, row, strict=True)) for row in rows]
    return "".join(f"{line} \n" for line in lines)


def _listed(names: Sequence[str]) -> str:
    rows = [names[place : place + _NAMES_A_LINE] for place in range(0, len(names), _NAMES_A_LINE)]
    return "".join(f"{' '.join(f'{name:<19}' for name in row)}\n" for row in rows)
