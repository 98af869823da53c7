"""The cluster at a glance, as lines of text: nodes, virtual clusters and the jobs that run.

Pure: from what the server answered and the room there is. What the caller may not see the server leaves out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from muster_client.local.terminal import clean
from muster_client.show.request import gpus_text
from muster_client.show.tables import text_of
from muster_client.show.times import ago, run_time, took

if TYPE_CHECKING:
    from muster_client.answers.fleet import Gpu, Node
    from muster_client.answers.jobs import JobInList
    from muster_client.answers.tree import Quota, VirtualCluster

_GAP = 2
_NARROWEST = 8
_MIB = 1024
_LEVELS = "▁▂▃▄▅▆▇█"
_FREE, _FAILED, _UNKNOWN = "·", "x", "?"
_STATES = {"active": "cyan", "ready": "green", "down": "red", "suspect": "yellow", "pending": "dim"}


@dataclass(frozen=True, slots=True)
class View:
    """One answer of the server, and its time."""

    url: str
    nodes: Sequence[Node]
    vcs: Sequence[VirtualCluster]
    jobs: Sequence[JobInList]
    at: datetime
    more_jobs: bool = False

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"at": self.at.isoformat(), "nodes": self.nodes, "vcs": self.vcs, "jobs": self.jobs}


@dataclass(frozen=True, slots=True)
class _Column:
    """A column; where the line is too long those with the highest `rank` go first, and 0 never does."""

    head: str
    rank: int = 0
    right: bool = False
    elastic: bool = False


@dataclass(slots=True)
class _Held:
    """A job's use of the GPUs that it holds."""

    gpus: list[Gpu] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Section:
    """A table with its head, of which there may be more than was asked for."""

    name: str
    lines: Sequence[Text]
    more: bool = False

    @property
    def length(self) -> int:
        """Return how many lines it takes."""
        return len(self.lines) + self.more

    def within(self, room: int) -> list[Text]:
        """Return as many lines as there is room for; the last tells of those that are not there."""
        if self.length <= room:
            return [*self.lines, *([_dim(f"… and more {self.name}")] if self.more else [])]
        kept = list(self.lines[: max(0, room - 1)])
        left_out = len(self.lines) - max(1, len(kept))
        return [*kept, _dim(f"… {left_out}{'+' if self.more else ''} more {self.name}")][:room]


def top_lines(view: View, *, width: int, height: int | None = None, note: str = "") -> list[Text]:
    """Return the lines of the whole, none longer than the width and not more than the height."""
    nodes = [_node_row(node, view.at) for node in sorted(view.nodes, key=_trouble_first)]
    tables = (
        _Section("nodes", _table(_NODES, nodes, width) if nodes else [_dim("No nodes.")]),
        _Section("quotas", _table(_VCS, [row for vc in view.vcs for row in _vc_rows(vc)], width) if view.vcs else []),
        _Section(
            "jobs", _table(_JOBS, _job_rows(view), width) if view.jobs else [_dim("No job runs.")], view.more_jobs
        ),
    )
    sections = [section for section in tables if section.lines]
    head, foot = _summary(view, width), [_cut(_dim(clean(note)), width)] if note else []
    rooms = [section.length for section in sections]
    if height is not None:
        # A blank line goes before each table.
        rooms = _shares(rooms, max(0, height - len(head) - len(foot) - len(sections)))
    body = [line for section, room in zip(sections, rooms, strict=True) for line in (Text(), *section.within(room))]
    lines = [*head, *body]
    return [*(lines if height is None else lines[: height - len(foot)]), *foot]


_NODES = (
    _Column("NODE", elastic=True),
    _Column("STATE", rank=2),
    _Column("TYPE", rank=4),
    _Column("GPUS", right=True),
    _Column("UTIL", right=True),
    _Column("MEMORY", rank=1, right=True),
    _Column("EACH", rank=3),
    _Column("CPUS", rank=6, right=True),
    _Column("POOL", rank=5),
    _Column("NOTE", rank=7, elastic=True),
)
_VCS = (
    _Column("VC", elastic=True),
    _Column("TENANT", rank=2),
    _Column("POOL", rank=3),
    _Column("GPU"),
    _Column("USED", right=True),
    _Column("WAITING", rank=1, right=True),
    _Column("ACTIVE", rank=1, right=True),
)
_JOBS = (
    _Column("JOB", right=True),
    _Column("NAME", elastic=True),
    _Column("OWNER", rank=2),
    _Column("VC", rank=4),
    _Column("GPUS", right=True),
    _Column("UTIL", right=True),
    _Column("MEMORY", rank=5, right=True),
    _Column("RUNS", rank=1, right=True),
    _Column("NOTE", rank=3, elastic=True),
    _Column("NODES", rank=6, elastic=True),
)


def _summary(view: View, width: int) -> list[Text]:
    gpus = [gpu for node in view.nodes for gpu in node["gpus"]]
    failed = sum(not gpu["healthy"] for gpu in gpus)
    away = sum(node["health"] != "ready" for node in view.nodes)
    parts = [
        f"{sum(gpu['busy'] for gpu in gpus)} of {len(gpus)} GPUs in use",
        f"utilisation {_share(gpus)}",
        f"memory {_memory(gpus)}",
        *([f"{failed} failed"] if failed else []),
        *([f"{away} of {len(view.nodes)} nodes not ready"] if away else []),
    ]
    first = Text(f"{clean(view.url)}  {view.at.astimezone():%H:%M:%S %Z}", style="bold")
    return [_cut(first, width), _cut(Text(", ".join(parts)), width)]


def _trouble_first(node: Node) -> tuple[bool, str]:
    """Return what nodes are ordered by: where some are left out, it must not be those that need someone."""
    return not (node["health"] != "ready" or any(not gpu["healthy"] for gpu in node["gpus"])), node["name"]


def _node_row(node: Node, now: datetime) -> list[Text]:
    gpus = node["gpus"]
    state = node["health"] if node["admin"] == "active" else node["admin"]
    failed = sum(not gpu["healthy"] for gpu in gpus)
    why = node["reason"] or node.get("barred") or ""
    if node["health"] != "ready" and node["last_seen_at"]:
        why = f"seen {ago(node['last_seen_at'], now)}{': ' if why else ''}{why}"
    return [
        text_of(node["name"]),
        Text(clean(state), style=_STATES.get(state, "")),
        text_of(", ".join(sorted({gpu["type"] for gpu in gpus})) or "-"),
        Text(f"{sum(gpu['busy'] for gpu in gpus)}/{len(gpus)}", style="red" if failed else ""),
        Text(_share(gpus)),
        Text(_memory(gpus)),
        Text("".join(_square(gpu) for gpu in gpus)),
        Text(f"{node['cpus_used']}/{node['cpus']}"),
        text_of(node["pool"]),
        text_of(why),
    ]


def _square(gpu: Gpu) -> str:
    """Return one character for a GPU: how busy it is, or that it is free, failed or unknown."""
    if not gpu["healthy"]:
        return _FAILED
    if gpu["utilization"] is None:
        return _UNKNOWN if gpu["busy"] else _FREE
    if not gpu["busy"] and gpu["utilization"] < 1:
        return _FREE
    return _LEVELS[min(len(_LEVELS) - 1, int(max(0.0, gpu["utilization"]) * len(_LEVELS) / 100))]


def _vc_rows(vc: VirtualCluster) -> Iterable[list[Text]]:
    quotas: Sequence[Quota | None] = vc["quotas"] or [None]
    for quota in quotas:
        used = "-" if quota is None else f"{quota['used']}/{quota['gpus']}"
        yield [
            *(text_of(value) for value in (vc["name"], vc["tenant"], vc["pool"])),
            text_of("-" if quota is None else quota["gpu_type"]),
            Text(used),
            Text(str(vc["waiting"])),
            Text(str(vc["active"])),
        ]


def _job_rows(view: View) -> list[list[Text]]:
    """Return a line for each job, those with the most GPUs first."""
    held: dict[int, _Held] = defaultdict(_Held)
    for node in view.nodes:
        for gpu in node["gpus"]:
            for brief in gpu["jobs"]:
                held[brief["id"]].gpus.append(gpu)
                held[brief["id"]].nodes.add(node["name"])
    jobs = sorted(view.jobs, key=lambda job: (-len(held[job["id"]].gpus), -job["gpus_total"], job["id"]))
    return [_job_row(job, held[job["id"]], view.at) for job in jobs]


def _job_row(job: JobInList, held: _Held, now: datetime) -> list[Text]:
    return [
        Text(str(job["id"])),
        text_of(job["name"]),
        text_of(job["owner"]),
        text_of(job["vc"]),
        Text(_gpus(job, len(held.gpus))),
        Text(_share(held.gpus)),
        Text(_memory(held.gpus)),
        Text(run_time(job, now)),
        Text(", ".join(_notes(job, held, now)), style="yellow"),
        text_of(", ".join(sorted(held.nodes))),
    ]


def _gpus(job: JobInList, held: int) -> str:
    """Return the GPUs that the job holds, of those it asks for: in screening it holds fewer."""
    if any(choice["gpus"] * job["nodes"] == held for choice in job["gpu_choices"]):
        return str(held)
    return f"{held}/{gpus_text(job['gpu_choices'], job['nodes'])}"


def _notes(job: JobInList, held: _Held, now: datetime) -> Iterable[str]:
    """Yield notes about a running job."""
    if job["stage"] == "screening":
        yield "in screening"
    elif held.gpus and job["started_at"] is None:
        yield "starts"
    idle, kept = job.get("idle"), job.get("kept")
    if kept:
        yield "failed, kept"
    elif idle:
        yield f"idle for {took(idle['since'], None, now)}"
    if any(len(gpu["jobs"]) > 1 for gpu in held.gpus):
        yield "shares GPUs"
    if job["desired"] != "run":
        yield "is being stopped"


def _share(gpus: Sequence[Gpu]) -> str:
    """Return the mean utilisation of the GPUs of which one is known."""
    known = [gpu["utilization"] for gpu in gpus if gpu["utilization"] is not None]
    return f"{sum(known) / len(known):.0f} %" if known else "-"


def _memory(gpus: Sequence[Gpu]) -> str:
    """Return how much of the GPUs' memory is in use."""
    known = [gpu["memory_used_mib"] for gpu in gpus if gpu["memory_used_mib"] is not None]
    total = f"{sum(gpu['memory_mib'] for gpu in gpus) / _MIB:.0f} GiB"
    return f"{sum(known) / _MIB:.0f}/{total}" if known else f"-/{total}" if gpus else "-"


def _table(columns: Sequence[_Column], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """Return the head and a line for each row, with the columns for which there is room."""
    needed = [
        max([cell_len(column.head), *(row[place].cell_len for row in rows)]) for place, column in enumerate(columns)
    ]
    # A column in which nothing stands says nothing.
    shown = [place for place, _ in enumerate(columns) if not rows or any(row[place].plain for row in rows)]
    least = [min(size, _NARROWEST) if columns[place].elastic else size for place, size in enumerate(needed)]
    while _length(least, shown) > width and any(columns[place].rank for place in shown):
        shown.remove(max(shown, key=lambda place: columns[place].rank))
    sizes = _stretched(needed, least, shown, width)
    head = [Text(column.head, style="bold") for column in columns]
    return [
        _cut(
            Text(" " * _GAP).join(_cell(line[place], sizes[place], right=columns[place].right) for place in shown),
            width,
        )
        for line in (head, *rows)
    ]


def _stretched(needed: Sequence[int], least: Sequence[int], shown: Sequence[int], width: int) -> list[int]:
    """Return the widths: the least of each, and what is left to those that want more, from the left."""
    sizes, left = list(least), width - _length(least, shown)
    for place in shown:
        more = min(max(0, left), needed[place] - sizes[place])
        sizes[place] += more
        left -= more
    return sizes


def _length(sizes: Sequence[int], shown: Sequence[int]) -> int:
    return sum(sizes[place] for place in shown) + _GAP * (len(shown) - 1)


def _cell(text: Text, size: int, *, right: bool) -> Text:
    cell = text.copy()
    cell.truncate(size, overflow="ellipsis")
    space = " " * (size - cell.cell_len)
    return Text.assemble(space, cell) if right else Text.assemble(cell, space)


def _cut(text: Text, width: int) -> Text:
    text.rstrip()
    text.truncate(width, overflow="ellipsis")
    return text


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return how many lines each table has: none more than it wants, and what one leaves goes to the others."""
    shares = [0] * len(wanted)
    open_ = [place for place, size in enumerate(wanted) if size]
    while room and open_:
        each = max(1, room // len(open_))
        for place in list(open_):
            more = min(each, wanted[place] - shares[place], room)
            shares[place] += more
            room -= more
            if shares[place] == wanted[place]:
                open_.remove(place)
    return shares


def _dim(text: str) -> Text:
    return Text(text, style="dim")
