"""What a job asks for, in words: its GPUs, and the nodes that it names."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from muster_client.shapes import GpuChoice, JobSpec
from muster_client.terminal import clean


def gpus_text(choices: Sequence[GpuChoice], nodes: int) -> str:
    """Return how many GPUs a job asks for on all nodes, such as `8`, or `4–8` where its choices differ in size."""
    totals = sorted(choice["gpus"] * nodes for choice in choices)
    return str(totals[0]) if totals[0] == totals[-1] else f"{totals[0]}–{totals[-1]}"


def request_rows(choices: Sequence[GpuChoice], spec: JobSpec) -> list[tuple[str, RenderableType]]:
    """Return the choices of a job that has several, and the nodes that it names."""
    rows: list[tuple[str, RenderableType]] = []
    if len(choices) > 1:
        text = " or ".join(f"{choice['gpus']} {choice['gpu_type']}" for choice in choices)
        rows.append(("GPUs per node", Text(clean(f"{text}, in this order"))))
    for key, title in (("nodes_in", "Nodes in"), ("exclude_nodes", "Excluded nodes")):
        if spec.get(key):
            rows.append((title, Text(clean(", ".join(spec[key])))))
    return rows
