"""The cluster of a simulation: nodes by GPU type, from `V100:2x4,P100:4x4` or a YAML file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from scheduler.documents import DocumentError, load_yaml
from scheduler.sim.trace import Trace

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(MiB|GiB|TiB)")
_MIB = {"MiB": 1, "GiB": 1024, "TiB": 1024**2}
_BY_GPU_TIME = "by-gpu-time"


class ClusterError(ValueError):
    """A malformed cluster; the message quotes the part."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """`nodes` nodes of one kind; racks are numbered through the cluster, with `per_rack` nodes each."""

    gpu_type: str
    nodes: int
    gpus: int  # per node
    cpus: int = 0  # per node; 0 = enough for any job
    memory_mib: int = 0  # likewise
    gpu_memory_mib: int = 16_384
    per_rack: int = 0  # 0 = all in one rack
    bad: int = 0  # of the nodes, the first ones; nothing runs there


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """All groups of nodes; their order sets the ids of the nodes."""

    groups: tuple[NodeGroup, ...]
    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # vc -> GPU type -> GPUs
    shares: Mapping[str, float] = field(default_factory=dict)  # vc -> weight of its share of every GPU type
    by_gpu_time: bool = False  # virtual clusters get shares in proportion to their GPU time in the trace

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs by type."""
        totals: dict[str, int] = {}
        for group in self.groups:
            totals[group.gpu_type] = totals.get(group.gpu_type, 0) + group.nodes * group.gpus
        return totals

    def quotas_for(self, trace: Trace) -> Mapping[str, Mapping[str, int]]:
        """GPUs by virtual cluster and type for this trace: from the cluster, else from the trace; empty if neither has
        any.

        Raises:
            ClusterError: the cluster gives no quota to a virtual cluster with jobs in the trace.
        """
        if self.by_gpu_time:
            return quotas_by_share(self, gpu_time_by_vc(trace))
        quotas = quotas_by_share(self, self.shares) if self.shares else self.quotas
        if not quotas:
            return trace.quotas
        without = sorted({job.vc for job in trace.jobs} - quotas.keys())
        if without:
            raise ClusterError(f"cluster: no quota for virtual cluster {without[0]!r} of trace {trace.name}")
        return quotas


def parse_cluster(text: str) -> ClusterSpec:
    """The cluster described by `TYPE:NODESxGPUS[,…]`."""
    groups = []
    for part in text.split(","):
        gpu_type, colon, size = part.strip().partition(":")
        nodes, times, gpus = size.partition("x")
        if not (gpu_type and colon and times and nodes.isdecimal() and gpus.isdecimal() and int(nodes) and int(gpus)):
            raise ClusterError(f"cluster: {part!r} is not TYPE:NODESxGPUS, such as V100:2x4")
        groups.append(NodeGroup(gpu_type=gpu_type, nodes=int(nodes), gpus=int(gpus)))
    _require_one_spelling(groups)
    return ClusterSpec(tuple(groups))


def spelled_as_in(trace: Trace, cluster: ClusterSpec) -> ClusterSpec:
    """The cluster with its GPU types in the capitals of the trace: `V100` and `v100` are one type."""
    named = {kind for job in trace.jobs for kind in (job.gpu_type, *job.gpu_types) if kind is not None}
    named |= {kind for quota in trace.quotas.values() for kind in quota}
    spelling = {kind.casefold(): kind for kind in sorted(named)}
    renamed = {kind: spelling.get(kind.casefold(), kind) for kind in cluster.gpus if kind not in named}
    groups = tuple(replace(group, gpu_type=renamed.get(group.gpu_type, group.gpu_type)) for group in cluster.groups)
    quotas = {
        vc: {renamed.get(kind, kind): gpus for kind, gpus in quota.items()} for vc, quota in cluster.quotas.items()
    }
    return replace(cluster, groups=groups, quotas=quotas)


def _require_one_spelling(groups: Iterable[NodeGroup]) -> None:
    spelling: dict[str, str] = {}
    for group in groups:
        first = spelling.setdefault(group.gpu_type.casefold(), group.gpu_type)
        if first != group.gpu_type:
            raise ClusterError(f"cluster: {first!r} and {group.gpu_type!r} are one type; write it in one way")


def load_cluster(text: str) -> ClusterSpec:
    """The cluster in the file `text` if it ends in .yaml or .yml, else the cluster that `text` describes."""
    return read_cluster(Path(text)) if text.endswith((".yaml", ".yml")) else parse_cluster(text)


def read_cluster(path: Path) -> ClusterSpec:
    """The cluster that a YAML file describes; docs/reference/simulator-formats.md defines the format.

    Raises:
        ClusterError: it names the file and the wrong part.
    """
    try:
        data = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ClusterError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, DocumentError) as error:
        raise ClusterError(f"{path}: {error}") from None
    try:
        return _cluster(data)
    except ClusterError as error:
        raise ClusterError(f"{path}: {error}") from None


def on_one_node(trace: Trace, cluster: ClusterSpec) -> Trace:
    """The trace with each job on one node whose GPUs fit the largest node of the cluster."""
    largest = max(group.gpus for group in cluster.groups)
    jobs = tuple(
        replace(job, split=False, nodes=1, cpus=job.cpus * job.gpus, memory_mib=job.memory_mib * job.gpus)
        if job.split and job.gpus <= largest
        else job
        for job in trace.jobs
    )
    return replace(trace, jobs=jobs)


def gpu_time_by_vc(trace: Trace) -> Mapping[str, float]:
    """The GPU-seconds that the jobs of each virtual cluster would take without waiting."""
    totals: dict[str, float] = {}
    for job in trace.jobs:
        totals[job.vc] = totals.get(job.vc, 0.0) + job.gpus * job.work.alone_s()
    return totals


def quotas_by_share(cluster: ClusterSpec, shares: Mapping[str, float]) -> Mapping[str, Mapping[str, int]]:
    """All GPUs divided by these weights, each type separately, in whole GPUs by largest remainder.

    Of two equal remainders the name that sorts first wins.
    """
    total = sum(shares.values())
    if not total > 0 or min(shares.values()) < 0 or total == float("inf"):
        raise ClusterError(f"the GPUs cannot be divided by the shares of the virtual clusters: {dict(shares)}")
    quotas: dict[str, dict[str, int]] = {name: {} for name in sorted(shares)}
    for gpu_type, gpus in cluster.gpus.items():
        exact = {name: gpus * shares[name] / total for name in quotas}
        for name, part in exact.items():
            quotas[name][gpu_type] = int(part)
        left = gpus - sum(int(part) for part in exact.values())
        for name in sorted(exact, key=lambda name: (int(exact[name]) - exact[name], name))[:left]:
            quotas[name][gpu_type] += 1
    return quotas


def _cluster(data: object) -> ClusterSpec:
    top = _mapping(data, "the file", {"groups", "vcs"})
    groups = top.get("groups")
    if not isinstance(groups, list) or not groups:
        raise ClusterError("groups must be a list of at least one group of nodes")
    cluster = ClusterSpec(tuple(_group(each, f"groups[{index}]") for index, each in enumerate(groups)))
    _require_one_spelling(cluster.groups)
    vcs = top.get("vcs")
    if vcs is None:
        return cluster
    if vcs == _BY_GPU_TIME:
        return replace(cluster, by_gpu_time=True)
    if not isinstance(vcs, dict) or not vcs:
        raise ClusterError(f"vcs must be {_BY_GPU_TIME!r}, or quotas or shares by name")
    if all(isinstance(value, dict) for value in vcs.values()):
        return replace(cluster, quotas=_quotas(vcs, cluster.gpus))
    for name, value in vcs.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise ClusterError(f"vcs.{name} must be a share above 0, or GPUs by type, like the others, not {value!r}")
    return replace(cluster, shares={str(name): float(value) for name, value in vcs.items()})


def _group(data: object, where: str) -> NodeGroup:
    group = _mapping(data, where, {"type", "nodes", "gpus", "cpus", "memory", "gpu_memory", "per_rack", "bad"})
    gpu_type = group.get("type")
    if not isinstance(gpu_type, str) or not gpu_type:
        raise ClusterError(f"{where}.type must be the name of a GPU type, not {gpu_type!r}")
    defaults = {each.name: each.default for each in fields(NodeGroup)}
    return NodeGroup(
        gpu_type=gpu_type,
        nodes=_whole(group.get("nodes"), f"{where}.nodes", least=1),
        gpus=_whole(group.get("gpus"), f"{where}.gpus", least=1),
        cpus=_whole(group.get("cpus", 0), f"{where}.cpus"),
        memory_mib=_mib(group.get("memory", 0), f"{where}.memory"),
        gpu_memory_mib=_mib(group.get("gpu_memory", defaults["gpu_memory_mib"]), f"{where}.gpu_memory"),
        per_rack=_whole(group.get("per_rack", 0), f"{where}.per_rack"),
        bad=_whole(group.get("bad", 0), f"{where}.bad"),
    )


def _quotas(vcs: Mapping[object, Mapping[object, object]], gpus: Mapping[str, int]) -> dict[str, dict[str, int]]:
    quotas: dict[str, dict[str, int]] = {}
    for name, types in vcs.items():
        for gpu_type in types:
            if gpu_type not in gpus:
                raise ClusterError(f"vcs.{name}: the cluster has no {gpu_type!r}; it has {', '.join(gpus)}")
        quotas[str(name)] = {str(kind): _whole(count, f"vcs.{name}.{kind}") for kind, count in types.items()}
    for gpu_type, there in gpus.items():
        given = sum(types.get(gpu_type, 0) for types in quotas.values())
        if given > there:
            raise ClusterError(f"vcs: the quotas add up to {given} {gpu_type}, but the cluster has {there}")
    return quotas


def _mapping(data: object, where: str, known: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ClusterError(f"{where} must be a mapping")
    unknown = sorted(str(key) for key in data if key not in known)
    if unknown:
        raise ClusterError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return data


def _whole(value: object, where: str, *, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ClusterError(f"{where} must be a whole number of at least {least}, not {value!r}")
    return value


def _mib(value: object, where: str) -> int:
    """The MiB in a plain number, or in a text such as `256GiB`."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match is None:
            raise ClusterError(f"{where} must be a size such as 256GiB, not {value!r}")
        return int(float(match[1]) * _MIB[match[2]])
    return _whole(value, where)
