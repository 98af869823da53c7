"""squeue: the jobs that wait and run, and those that ended a short time ago."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from django.db.models import QuerySet

from muster.common.clock import utc_now
from muster.jobs.models import Job
from muster.slurm.call import VERSION, Answer, Call, Refused
from muster.slurm.documents import document
from muster.slurm.fields import BY_LETTER, BY_NAME, Field
from muster.slurm.formats import Format, letters_format, names_format, table
from muster.slurm.jobids import JobId, job_id, split_ids, with_ids
from muster.slurm.jobs import on_nodes
from muster.slurm.options import Option, Parsed, Takes, flag, parse, usage, valued
from muster.slurm.records import Record, known_jobs, known_users, records_of
from muster.slurm.states import State

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
OPTIONS = (
    valued("account", "A"),
    flag("all", "a"),
    flag("array", "r"),
    flag("array-unique"),
    valued("clusters", "M"),
    flag("federation"),
    valued("format", "o"),
    valued("Format", "O"),
    flag("help"),
    flag("hide"),
    valued("iterate", "i"),
    Option("jobs", "j", Takes.NEXT),
    flag("json"),
    valued("licenses", "L"),
    flag("local"),
    flag("long", "l"),
    flag("me"),
    valued("name", "n"),
    flag("noheader", "h"),
    valued("nodelist", "w"),
    valued("partition", "p"),
    flag("priority", "P"),
    valued("qos", "q"),
    valued("reservation", "R"),
    flag("sibling"),
    valued("sort", "S"),
    flag("start"),
    valued("states", "t"),
    Option("steps", "s", Takes.NEXT),
    flag("usage"),
    valued("user", "u"),
    flag("verbose", "v"),
    flag("version", "V"),
)
_VARIABLES = {
    "account": "SQUEUE_ACCOUNT",
    "format": "SQUEUE_FORMAT",
    "Format": "SQUEUE_FORMAT2",
    "name": "SQUEUE_NAMES",
    "partition": "SQUEUE_PARTITION",
    "qos": "SQUEUE_QOS",
    "sort": "SQUEUE_SORT",
    "states": "SQUEUE_STATES",
    "user": "SQUEUE_USERS",
}
_DEFAULT_STATES = frozenset(
    {State.PENDING, State.RUNNING, State.CONFIGURING, State.COMPLETING, State.SUSPENDED, State.STOPPED}
)
_SORT_KEY = re.compile(r"([-+]?)([^-+,\s])")
_UNKNOWN_HERE = {"iterate": "run it again by watch(1)", "steps": "the platform does not know the steps of jobs"}


def squeue(call: Call) -> Answer:
    """The jobs that the caller may see, one a line."""
    given = parse("squeue", call.arguments, OPTIONS)
    if given.words:
        raise Refused(f"squeue: error: Unrecognized option: {given.words[0]}")
    if given.has("version"):
        return Answer(f"{VERSION}\n")
    if given.has("help") or given.has("usage"):
        return Answer(usage("squeue", OPTIONS))
    for name, why in _UNKNOWN_HERE.items():
        if given.has(name):
            raise Refused(f"squeue: error: --{name} is not supported: {why}")
    ids = _ids(given)
    form, fields = _format(given, call)
    states = _states(given, call)
    records, problem = _selected(call, given, ids)
    records = [record for record in records if record.state in states]
    _sort(records, given, call)
    if given.has("json"):
        return Answer(document(records), problem)
    for word in form.unknown:
        problem += f"squeue: error: Invalid job format specification: {word}\n"
    headers = None if given.has("noheader") else lambda word: fields[word].header
    text = table(form, [_row(record, fields, call) for record in records], headers)
    if given.has("long") and headers is not None:
        text = f"{utc_now().astimezone(call.zone):%a %b %d %H:%M:%S %Y}\n{text}"
    return Answer(text, problem)


def _row(record: Record, fields: Mapping[str, Field], call: Call) -> Callable[[str], str]:
    return lambda word: fields[word].text(record, call)


def _format(given: Parsed, call: Call) -> tuple[Format, Mapping[str, Field]]:
    """The format that holds, and its fields by letter or by name: an option, then a variable, then the default one."""
    for name, text in reversed(given.options):
        if name == "format":
            return letters_format(text, BY_LETTER), BY_LETTER
        if name == "Format":
            return names_format(text, BY_NAME), BY_NAME
    if given.has("start"):
        return letters_format(START, BY_LETTER), BY_LETTER
    if given.has("long"):
        return letters_format(LONG, BY_LETTER), BY_LETTER
    if text := call.environment.get("SQUEUE_FORMAT2", ""):
        return names_format(text, BY_NAME), BY_NAME
    return letters_format(call.environment.get("SQUEUE_FORMAT") or DEFAULT, BY_LETTER), BY_LETTER


def _value(given: Parsed, call: Call, name: str) -> str:
    """The value of an option, or of the variable that stands for it; empty for neither."""
    return given.last(name) or call.environment.get(_VARIABLES.get(name, ""), "")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _ids(given: Parsed) -> list[JobId]:
    found = []
    for text in split_ids(given.last("jobs") or ""):
        try:
            found.append(job_id(text))
        except ValueError as error:
            raise Refused(f"squeue: error: Invalid job id: {text}") from error
    return found


def _states(given: Parsed, call: Call) -> Collection[State]:
    if given.has("start"):
        return {State.PENDING}
    found: set[State] = set()
    for word in _words(_value(given, call, "states")):
        state = State.of_word(word)
        if word.lower() == "all":
            return set(State)
        if state is None:
            listed = ",".join(one.name for one in State)
            raise Refused(
                f"squeue: error: Invalid job state specified: {word}\n"
                f"squeue: error: Valid job states include: {listed}\n\n"
            )
        found.add(state)
    if State.RUNNING in found:
        found.add(State.CONFIGURING)
    return found or _DEFAULT_STATES


def _selected(call: Call, given: Parsed, ids: Sequence[JobId]) -> tuple[list[Record], str]:
    """The records that match all options but those of state, and what is wrong with the options."""
    jobs = known_jobs(call.user)
    if ids:
        jobs = with_ids(jobs, ids)
        if len(ids) == 1 and not jobs.exists():
            raise Refused("slurm_load_jobs error: Invalid job id specified")
    elif given.has("jobs") and {"", "--jobs="} & {*call.arguments}:
        jobs = jobs.none()
    jobs, problem = _of_users(call, given, jobs)
    if names := _words(_value(given, call, "name")):
        jobs = jobs.filter(name__in=names)
    if text := given.last("nodelist"):
        try:
            jobs = jobs.filter(pk__in=on_nodes(text))
        except ValueError as error:
            raise Refused(f"squeue: error: Invalid node name {error}") from error
    unfolded = given.has("array") or "SQUEUE_ARRAY" in call.environment
    records = records_of(jobs, folded=not unfolded, limits=all(one.indices is None for one in ids))
    for option in ("partition", "account", "qos"):
        if wanted := _words(_value(given, call, option)):
            records = [record for record in records if getattr(record, option) in wanted]
    if given.last("reservation") or given.last("licenses"):
        records = []  # no job has one
    return records, problem


def _of_users(call: Call, given: Parsed, jobs: QuerySet[Job]) -> tuple[QuerySet[Job], str]:
    names = _words(_value(given, call, "user"))
    if given.has("me"):
        names = [call.user.username]
    if not names:
        return jobs, ""
    unknown = set(names) - known_users(call.user, names)
    problems = [f"squeue: error: Invalid user: {name}\n\n" for name in names if name in unknown]
    return jobs.filter(owner__username__in=names), "".join(problems)


def _sort(records: list[Record], given: Parsed, call: Call) -> None:
    """Put the records in order: by number, and then by each key from the last one, which keeps the order of equals."""
    records.sort(key=lambda record: (record.array_id or record.job.pk, record.job.array_index or 0))
    text = _value(given, call, "sort") or ("S" if given.has("start") else "P,t,-p")
    for sign, letter in reversed(_SORT_KEY.findall(text)):
        field = BY_LETTER.get(letter)
        if field is None:
            raise Refused(f"squeue: error: Invalid sort specification: {letter}")
        records.sort(key=field.rank, reverse=sign == "-")
