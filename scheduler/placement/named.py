"""Messages for a job that finds no room on the nodes that it allows: by their names, or by labels that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.model.eligibility import words_for_labels
from scheduler.model.lifecycle import HoldReason
from scheduler.model.phrases import become_free
from scheduler.model.plan import Denial
from scheduler.placement import words
from scheduler.placement.demand import Demand

MAX_NAMES = 8
"""The most nodes named in a sentence."""
Others = Mapping[str, str | None]
"""The names of nodes with room, and by which field the job does not allow them."""


def infeasible(demand: Demand, *, hosts: int, others: Others) -> Denial:
    """Of the nodes that the job allows only `hosts` could ever hold a rank, while the `others` could as well."""
    what, request = _size(demand), demand.request
    if request.nodes_in or request.exclude_nodes:
        allow, such = "allow" if request.nodes_in else "no longer exclude", listed(sorted(_unnamed(others)))
        helps = [f"{allow} nodes that have {what}{f', such as {such}' if such else ''}"]
    else:
        helps = []
    return Denial(
        HoldReason.INFEASIBLE,
        _of_named(_left(demand), hosts, what, demand) if request.nodes_in else _of_allowed(hosts, what, demand),
        words.evidence(demand, allowed_nodes_that_fit=hosts),
        (*helps, *_other_labels(demand)),
    )


def no_room(demand: Demand, *, with_gpus: int, hosts: int, others: Others) -> Denial:
    """Of the nodes that the job allows `hosts` have room for a rank now, and so have the `others`.

    `with_gpus` have the GPUs for a rank, whatever CPUs and memory they have.
    """
    what = _size(demand, free="free ", whole=with_gpus >= demand.nodes)
    excluded = _unnamed(others)
    if demand.request.nodes_in:
        detail = _of_named(_left(demand), hosts, what, demand)
        where, helps = f" on {listed(_left(demand), last='or')}", ["allow more nodes"]
    elif not excluded:
        detail, where, helps = _of_allowed(hosts, what, demand), " on a node that it allows", []
    else:
        verb, them = ("has", "it") if len(excluded) == 1 else ("have", "them")
        detail = f"{listed(excluded)} {verb} {what}, and this job excludes {them}"
        where, helps = " on a node that it allows", [f"no longer exclude {listed(excluded)}"]
    return Denial(
        HoldReason.NAMED_NODES,
        detail,
        words.evidence(demand, allowed_nodes_with_room=hosts),
        (*helps, *_other_labels(demand)),
        wanted=demand.gpus,
        once_free=become_free(demand.gpus, demand.gpu_type) + where if demand.gpu_type else "",
    )


def listed(names: Sequence[str], last: str = "") -> str:
    """`gpu01, gpu02`, or with a word before the last of them; of many, the first and how many more."""
    if len(names) > MAX_NAMES:
        return f"{', '.join(names[:MAX_NAMES])} and {len(names) - MAX_NAMES} more"
    if last and len(names) > 1:
        return f"{', '.join(names[:-1])} {last} {names[-1]}"
    return ", ".join(names)


def _left(demand: Demand) -> Sequence[str]:
    return [name for name in demand.request.nodes_in if name not in demand.request.exclude_nodes]


def _unnamed(others: Others) -> Sequence[str]:
    """Those that the names in the request do not allow."""
    return [name for name, field in others.items() if field in {"nodes_in", "exclude_nodes"}]


def _other_labels(demand: Demand) -> Sequence[str]:
    return ["ask for other node_labels"] if demand.request.node_labels else []


def _of_allowed(hosts: int, what: str, demand: Demand) -> str:
    nodes = "does not exclude" if demand.request.exclude_nodes else "allows"
    needs = words.count(demand.nodes, "node")
    return f"of the nodes that this job {nodes}, {words.have(hosts)} {what}; this job needs {needs}"


def _of_named(names: Sequence[str], hosts: int, what: str, demand: Demand) -> str:
    if hosts:
        return f"of {listed(names)}, {words.have(hosts)} {what}; this job needs {words.count(demand.nodes, 'node')}"
    return f"{names[0]} does not have {what}" if len(names) == 1 else f"none of {listed(names)} has {what}"


def _size(demand: Demand, *, free: str = "", whole: bool = False) -> str:
    """`4 A100`; for a job without GPUs, and of the `whole` of others too, CPUs and memory; then the labels."""
    gpus = f"{demand.gpus} {free}{demand.gpu_type}" if demand.gpu_type else ""
    rest = f"{words.count(demand.cpus, f'{free}CPU')} and {words.memory(demand.memory_mib)} of {free}memory"
    labels = words_for_labels(demand.request)
    return ((f"{gpus} with {rest}" if whole else gpus) if gpus else rest) + (f" and {labels}" if labels else "")
