"""`sinfo` as a command: its options, the lines of its table, and the table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from muster.common.clock import utc_now
from muster.slurm.call import VERSION, Answer, Call, Refused
from muster.slurm.formats import Format, letters_format, names_format, table
from muster.slurm.hostlist import expand
from muster.slurm.options import Parsed, flag, parse, valued
from muster.slurm.sinfo.fields import BY_LETTER, BY_NAME, Field, Line
from muster.slurm.sinfo.nodes import NodeLine, Place, places_of
from muster.slurm.sinfo.states import STATE_NAMES, Test, tests_of

OPTIONS = (
    *(flag("all", "a"), flag("dead", "d"), flag("exact", "e"), flag("federation"), flag("noheader", "h")),
    *(flag("hide"), valued("iterate", "i"), flag("json"), flag("local"), flag("long", "l"), valued("clusters", "M")),
    *(valued("nodes", "n"), flag("noconvert"), flag("Node", "N"), valued("format", "o"), valued("Format", "O")),
    *(valued("partition", "p"), flag("responding", "r"), flag("list-reasons", "R"), flag("summarize", "s")),
    *(valued("sort", "S"), valued("states", "t"), flag("reservation", "T"), flag("verbose", "v")),
    *(flag("version", "V"), flag("yaml"), flag("help"), flag("usage")),
)
_USAGE = "Usage: sinfo [-adehlNRrsTv] [-t states] [-p partition] [-n nodes] [-S fields] [-o format] [-O Format]\n"
# The format of each view; columns of names are as wide as the longest.
_VIEWS = (
    (("list-reasons", "long"), "%20E %12U %19H %6t %N"),
    (("list-reasons",), "%20E %9u %19H %N"),
    (("Node", "long"), "%{node}N %.6D %.{partition}P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"),
    (("Node",), "%{node}N %.6D %.{partition}P %6t"),
    (("summarize",), "%{partition}P %.5a %.10l %.16F %N"),
    (("long",), "%{partition}P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"),
    ((), "%{partition}P %.5a %.10l %.6D %.6t %N"),
)
_Fields = Mapping[str, Field]


def sinfo(call: Call) -> Answer:
    """The answer of `sinfo`."""
    given = parse("sinfo", call.arguments, OPTIONS)
    if given.has("version"):
        return Answer(f"{VERSION}\n")
    if given.has("help") or given.has("usage"):
        return Answer(_USAGE)
    for name in ("json", "yaml", "iterate"):
        if given.has(name):
            raise Refused(f"sinfo: error: --{name} is not supported")
    if given.has("reservation"):
        return Answer("No reservations in the system\n")
    for name, letter in (("format", "o"), ("Format", "O")):
        if given.has("long") and given.has(name):
            both = f"Options -{letter}(--{name}) and -l(--long)"
            raise Refused(f"sinfo: fatal: {both} are mutually exclusive. Please remove one and retry.")
    return shown(given, call, places_of(call.user))


def shown(given: Parsed, call: Call, places: Sequence[Place]) -> Answer:
    """The table of these partitions."""
    places = _chosen(given, call, places)
    form, by, complaint = _format(given, call, places)
    lines = _lines(given, [by[name] for name in form.fields], places, call)
    text = table(form, [_values(by, line) for line in lines], None if given.has("noheader") else _headers(by))
    if given.has("long") and not given.has("noheader"):
        text = f"{utc_now().astimezone(call.zone):%a %b %d %H:%M:%S %Y}\n{text}"
    return Answer(text, "".join(f"{complaint}: {one}\n" for one in form.unknown))


def _chosen(given: Parsed, call: Call, places: Sequence[Place]) -> list[Place]:
    """The partitions that are asked for, each with the nodes that are."""
    named = given.last("partition") or call.environment.get("SINFO_PARTITION")
    tests = _tests(given)
    hosts: Collection[str] | None = None
    if (text := given.last("nodes")) is not None:
        try:
            hosts = set(expand(text))
        except ValueError:
            hosts = ()

    def keeps(node: NodeLine) -> bool:
        return (
            (hosts is None or node.name in hosts)
            and (tests is None or any(test(node.state) for test in tests))
            and not (given.has("dead") and not node.state.silent)
            and not (given.has("responding") and node.state.silent)
            and not (given.has("list-reasons") and not node.reason)
        )

    return [
        Place(place.partition, place.default, tuple(filter(keeps, place.nodes)))
        for place in places
        if named is None or place.partition.name in named.split(",")
    ]


def _tests(given: Parsed) -> list[Test] | None:
    text = given.last("states")
    if text is None:
        return None
    try:
        return tests_of(text)
    except ValueError as error:
        message = f'sinfo: error: Bad state string: "{error}"\nsinfo: error: valid states: {STATE_NAMES}'
        raise Refused(message) from error


def _format(given: Parsed, call: Call, places: Sequence[Place]) -> tuple[Format, _Fields, str]:
    """The format, the fields by the words that it uses, and the complaint about a word that is no field."""
    names = given.last("Format")
    if names is not None:
        return names_format(names, BY_NAME), BY_NAME, "sinfo: error: Invalid job format specification"
    letters = given.last("format")
    if letters is None and not any(given.has(name) for view, _ in _VIEWS for name in view):
        letters = call.environment.get("SINFO_FORMAT")
    if letters is None:
        view = next(view for options, view in _VIEWS if all(map(given.has, options)))
        node = max([len(node.name) for place in places for node in place.nodes] + [9])
        partition = max([len(place.partition.name) + place.default for place in places] + [9])
        letters = view.format(node=node, partition=partition)
    return letters_format(letters, BY_LETTER), BY_LETTER, "Invalid node format specification"


def _lines(given: Parsed, fields: Sequence[Field], places: Sequence[Place], call: Call) -> list[Line]:
    """The lines of the table in order: nodes share one where all fields that part them are alike."""
    each = given.has("Node")
    by_partition = each or any(field.of_partition for field in fields)
    parting = [field for field in fields if field.parts]
    together: dict[tuple[object, ...], tuple[Place | None, dict[str, NodeLine]]] = {}
    for number, place in enumerate(places):
        for node in place.nodes:
            alone = Line(place, (node,), call)
            key = (number if by_partition else 0, node.name if each else "", *(field.value(alone) for field in parting))
            together.setdefault(key, (place if by_partition else None, {}))[1][node.name] = node
        if not place.nodes and not each and by_partition and not given.has("list-reasons"):
            together[(number,)] = (place, {})
    lines = [Line(place, tuple(nodes.values()), call) for place, nodes in together.values()]
    order = [place.partition.name for place in places]

    def rank(line: Line) -> tuple[object, ...]:
        place = order.index(line.place.partition.name) if line.place else 0
        first = line.nodes[0] if line.nodes else None
        state = first.state.order if first else ()
        return (first.name if first else "", place) if each else (place, state)

    return _sorted(given.last("sort"), sorted(lines, key=rank))


def _sorted(wanted: str | None, lines: list[Line]) -> list[Line]:
    """The lines by the letters of `-S`, with `-` in front for descending; letters that are no field are skipped."""
    for part in reversed(wanted.split(",") if wanted else []):
        field = BY_LETTER.get(part[-1:])
        if field is not None:
            lines = sorted(lines, key=partial(_sort_key, field), reverse=part.startswith("-") != (field.letter in "tT"))
    return lines


def _sort_key(field: Field, line: Line) -> tuple[object, ...]:
    if field.letter in "tT":
        return line.nodes[0].state.order if line.nodes else ()
    value = field.value(line)
    return (False, int(value), "") if value.isdecimal() else (True, 0, value)


def _values(by: _Fields, line: Line) -> Callable[[str], str]:
    return lambda name: by[name].value(line)


def _headers(by: _Fields) -> Callable[[str], str]:
    return lambda name: by[name].header
