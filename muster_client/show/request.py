"""A job's request in words: its GPUs, and the nodes that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from muster_client.show.tables import text_of

if TYPE_CHECKING:
    from muster_client.answers.jobs import DryRunSize, GpuChoice, JobSize
    from muster_client.answers.terms import JobSpec


def gpus_text(choices: Sequence[GpuChoice], nodes: int) -> str:
    """Return how many GPUs a job asks for on all nodes, such as `8`, or `4–8` where its choices differ in size."""
    totals = sorted(choice["gpus"] * nodes for choice in choices)
    return str(totals[0]) if totals[0] == totals[-1] else f"{totals[0]}–{totals[-1]}"


def request_rows(
    choices: Sequence[GpuChoice], sizes: Sequence[JobSize | DryRunSize], spec: JobSpec
) -> list[tuple[str, RenderableType]]:
    """Return the choices of a job that has several, what it gets on each node, its outputs, and the nodes it names."""
    rows: list[tuple[str, RenderableType]] = []
    if len(choices) > 1:
        text = " or ".join(f"{choice['gpus']} {choice['gpu_type']}" for choice in choices)
        rows.append(("GPUs per node", text_of(f"{text}, in this order")))
    rows += [(title, text_of(text)) for title, text in _size_texts(sizes, spec)]
    if "outputs" in spec:
        kept = ", ".join(spec["outputs"]) or "none named: the working folder is removed when the job ends"
        rows.append(("Outputs", text_of(kept)))
    for key, title in (("nodes_in", "Nodes in"), ("exclude_nodes", "Excluded nodes")):
        if spec.get(key):
            rows.append((title, text_of(", ".join(spec[key]))))
    if spec.get("node_labels"):
        rows.append(
            ("Node labels", text_of(", ".join(f"{name}={value}" for name, value in spec["node_labels"].items())))
        )
    return rows


def _size_texts(sizes: Sequence[JobSize | DryRunSize], spec: JobSpec) -> list[tuple[str, str]]:
    """Return the CPUs and the memory on each node, and for those that the spec does not name where they come from."""
    cpus = [_with_source(str(size["cpus"]), size, "cpus", spec) for size in sizes]
    memory = [_with_source(f"{size['memory_mib'] / 1024:.4g} GiB", size, "memory", spec) for size in sizes]
    titled = (("CPUs per node", cpus), ("Memory per node", memory))
    return [(title, " or ".join(dict.fromkeys(texts))) for title, texts in titled if texts]


def _with_source(text: str, size: Mapping[str, Any], key: str, spec: JobSpec) -> str:
    if spec.get(key):
        return text
    return f"{text} ({size.get(f'{key}_from') or 'default when it was submitted'})"
