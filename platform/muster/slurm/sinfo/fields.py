"""The fields of `sinfo`: letters for `-o`, names for `-O`, and their values for nodes that share a line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from muster.slurm.call import Call
from muster.slurm.durations import clock
from muster.slurm.hostlist import fold
from muster.slurm.sinfo.nodes import NodeLine, Place
from muster.slurm.sinfo.states import Base


@dataclass(frozen=True, slots=True)
class Line:
    """Nodes that share a line, of a partition where the format has something of it."""

    place: Place | None
    nodes: tuple[NodeLine, ...]
    call: Call

    @property
    def first(self) -> NodeLine | None:
        return self.nodes[0] if self.nodes else None


@dataclass(frozen=True, slots=True)
class Field:
    """A field. Nodes that differ in the value of a field that `parts` share no line."""

    letter: str
    name: str
    header: str
    value: Callable[[Line], str]
    parts: bool = False
    of_partition: bool = False


def _of_place(value: Callable[[Place], str]) -> Callable[[Line], str]:
    return lambda line: value(line.place) if line.place else ""


def _of_node(value: Callable[[NodeLine], str], missing: str = "n/a") -> Callable[[Line], str]:
    return lambda line: value(line.first) if line.first else missing


def _least(value: Callable[[NodeLine], int]) -> Callable[[Line], str]:
    """The smallest number, with `+` if a node has more."""

    def text(line: Line) -> str:
        found = sorted({value(node) for node in line.nodes}) or [0]
        return f"{found[0]}{'+' if len(found) > 1 else ''}"

    return text


def _constant(text: str) -> Callable[[Line], str]:
    return lambda _line: text


def _busy(nodes: Iterable[NodeLine]) -> int:
    return sum(node.state.base in {Base.ALLOCATED, Base.MIXED} for node in nodes)


def _node_counts(line: Line) -> list[int]:
    """Nodes that are allocated, idle, other, and all."""
    busy, usable = _busy(line.nodes), sum(node.state.usable for node in line.nodes)
    return [busy, usable - busy, len(line.nodes) - usable, len(line.nodes)]


def _cpu_counts(line: Line) -> list[int]:
    """CPUs that are allocated, idle, other, and all."""
    held = sum(node.cpus_held for node in line.nodes)
    idle = sum(max(node.cpus - node.cpus_held, 0) for node in line.nodes if node.state.usable and not node.state.drain)
    whole = sum(node.cpus for node in line.nodes)
    return [held, idle, max(whole - held - idle, 0), whole]


def _slashed(counts: Iterable[int]) -> str:
    return "/".join(map(str, counts))


def _gres(node: NodeLine) -> str:
    return ",".join(f"gpu:{kind}:{number}" for kind, number in node.gpus) or "(null)"


def _gres_used(node: NodeLine) -> str:
    held = dict(node.gpus_held)
    listed = (f"gpu:{kind}:{len(held.get(kind, ()))}(IDX:{_indices(held.get(kind, ()))})" for kind, _ in node.gpus)
    return ",".join(listed) or "gpu:0"


def _indices(found: Collection[int]) -> str:
    return fold(map(str, found)).strip("[]") or "N/A"


def _limit(minutes: int | None) -> str:
    return "infinite" if minutes is None else clock(60 * minutes)


def _job_size(place: Place) -> str:
    most = place.partition.max_nodes
    return f"1-{most}" if most != 1 and most else "1" if most else "1-infinite"


def _partition(letter: str, name: str, header: str, value: Callable[[Place], str]) -> Field:
    return Field(letter, name, header, _of_place(value), of_partition=True)


def _parting(letter: str, name: str, header: str, value: Callable[[NodeLine], str], missing: str = "n/a") -> Field:
    return Field(letter, name, header, _of_node(value, missing), parts=True)


def _since(line: Line) -> str:
    at = line.first.reason_at if line.first else None
    return line.call.moment(at, missing="Unknown")


FIELDS: tuple[Field, ...] = (
    _partition("P", "partition", "PARTITION", lambda place: place.partition.name + ("*" if place.default else "")),
    _partition("R", "partitionname", "PARTITION", lambda place: place.partition.name),
    _partition("a", "available", "AVAIL", lambda _place: "up"),
    _partition("l", "time", "TIMELIMIT", lambda place: _limit(place.partition.max_time_min)),
    _partition(
        "L",
        "defaulttime",
        "DEFAULTTIME",
        lambda place: "n/a" if place.partition.time_min is None else clock(60 * place.partition.time_min),
    ),
    _partition("s", "size", "JOB_SIZE", _job_size),
    _partition("g", "groups", "GROUPS", lambda _place: "all"),
    _partition("h", "oversubscribe", "OVERSUBSCRIBE", lambda _place: "NO"),
    _partition("r", "root", "ROOT", lambda _place: "no"),
    _partition("S", "allocnodes", "ALLOCNODES", lambda _place: "all"),
    _partition("p", "prioritytier", "PRIO_TIER", lambda _place: "1"),
    _partition("I", "priorityjobfactor", "PRIO_JOB_FACTOR", lambda _place: "1"),
    _partition("M", "preemptmode", "PREEMPT_MODE", lambda _place: "REQUEUE"),
    _partition("B", "maxcpuspernode", "MAX_CPUS_PER_NODE", lambda _place: "UNLIMITED"),
    _parting("t", "statecompact", "STATE", lambda node: node.state.short),
    _parting("T", "statelong", "STATE", lambda node: node.state.long),
    _parting("n", "nodehost", "HOSTNAMES", lambda node: node.name, ""),
    _parting("o", "nodeaddr", "NODE_ADDR", lambda node: node.address, ""),
    _parting("f", "features", "AVAIL_FEATURES", lambda node: ",".join(node.features) or "(null)", "(null)"),
    _parting("b", "features_act", "ACTIVE_FEATURES", lambda node: ",".join(node.features) or "(null)", "(null)"),
    _parting("G", "gres", "GRES", _gres, ""),
    _parting("", "gresused", "GRES_USED", _gres_used, ""),
    _parting("E", "reason", "REASON", lambda node: node.reason or "none", "none"),
    _parting("u", "user", "USER", lambda node: node.reason_by or "Unknown", "Unknown"),
    _parting("U", "userlong", "USER", lambda node: node.reason_by or "Unknown", "Unknown"),
    Field("H", "timestamp", "TIMESTAMP", _since, parts=True),
    _parting("v", "version", "VERSION", lambda node: node.version or "N/A", ""),
    Field("N", "nodelist", "NODELIST", lambda line: fold(node.name for node in line.nodes)),
    Field("D", "nodes", "NODES", lambda line: str(len(line.nodes))),
    Field("A", "nodeai", "NODES(A/I)", lambda line: _slashed(_node_counts(line)[:2])),
    Field("F", "nodeaiot", "NODES(A/I/O/T)", lambda line: _slashed(_node_counts(line))),
    Field("C", "cpusstate", "CPUS(A/I/O/T)", lambda line: _slashed(_cpu_counts(line))),
    Field("c", "cpus", "CPUS", _least(lambda node: node.cpus)),
    Field("X", "sockets", "SOCKETS", _least(lambda node: node.cpus)),
    Field("Y", "cores", "CORES", _constant("1")),
    Field("Z", "threads", "THREADS", _constant("1")),
    Field("z", "socketcorethread", "S:C:T", lambda line: f"{_least(lambda node: node.cpus)(line)}:1:1"),
    Field("m", "memory", "MEMORY", _least(lambda node: node.memory_mib)),
    Field("", "allocmem", "ALLOCMEM", _least(lambda node: node.memory_held_mib)),
    Field("d", "disk", "TMP_DISK", _least(lambda node: node.disk_mib)),
    Field("w", "weight", "WEIGHT", _constant("1")),
    Field("e", "freemem", "FREE_MEM", _constant("N/A")),
    Field("O", "cpusload", "CPU_LOAD", _constant("N/A")),
    Field("V", "cluster", "CLUSTER", _constant("N/A")),
)
BY_LETTER = {field.letter: field for field in FIELDS if field.letter}
BY_NAME = {field.name: field for field in FIELDS}
