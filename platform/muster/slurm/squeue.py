"""squeue: the jobs that wait and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.slurm.call import Answer, Call
from muster.slurm.durations import clock
from muster.slurm.formats import letters_format, table
from muster.slurm.hostlist import fold
from muster.slurm.options import flag, parse, valued
from muster.slurm.records import Record, known_jobs, records_of
from muster.slurm.states import State

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
OPTIONS = (flag("noheader", "h"), valued("format", "o"))


def squeue(call: Call) -> Answer:
    """The jobs that the caller may see, one a line."""
    given = parse("squeue", call.arguments, OPTIONS)
    form = letters_format(given.last("format") or DEFAULT, _FIELDS)
    rows = [record for record in records_of(known_jobs(call.user), folded=True) if not record.state.is_over]
    rows.sort(key=lambda record: (record.partition, list(State).index(record.state), -record.job.priority))
    header = None if given.has("noheader") else lambda letter: _FIELDS[letter][0]
    return Answer(table(form, [_row(record) for record in rows], header))


def _row(record: Record) -> Callable[[str], str]:
    return lambda letter: _FIELDS[letter][1](record)


_FIELDS: Mapping[str, tuple[str, Callable[[Record], str]]] = {
    "i": ("JOBID", lambda one: one.id),
    "P": ("PARTITION", lambda one: one.partition),
    "j": ("NAME", lambda one: one.job.name),
    "u": ("USER", lambda one: one.job.owner.username),
    "t": ("ST", lambda one: one.state.value),
    "T": ("STATE", lambda one: one.state.name),
    "M": ("TIME", lambda one: clock(one.ran_s)),
    "D": ("NODES", lambda one: str(len(one.nodes) or one.job.nodes)),
    "R": ("NODELIST(REASON)", lambda one: fold(one.nodes) if one.nodes else f"({one.reason})"),
}
