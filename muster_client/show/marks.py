"""Marks beside a job's state, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster_client.local.terminal import clean

if TYPE_CHECKING:
    from muster_client.answers.jobs import JobFinish, JobRate
    from muster_client.answers.terms import Values


def params_text(params: Values) -> str:
    """`lr 0.01, batch 64`."""
    return ", ".join(f"{clean(name)} {value_text(value)}" for name, value in params.items())


def value_text(value: Any) -> str:
    """A value of a parameter or a metric; numbers in at most six digits."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else clean(value)


def rate_text(rate: JobRate) -> str:
    """`8 A100: 410 ± 30 per s measured`."""
    around = "" if rate["deviation"] is None else f" ± {rate['deviation']:.2g}"
    return f"{rate['gpus']} {clean(rate['gpu_type'])}: {rate['per_s']:.3g}{around} per s {clean(rate['source'])}"


def finish_texts(finish: JobFinish | None) -> list[str]:
    """`V100 now finishes before A100 in 4 h.` and the start and the finish on each type; empty without any."""
    if finish is None:
        return []
    lines = [f"{finish['summary']}." if finish["summary"] else "", finish["detail"], _NOT_COUNTED]
    return ["\n".join(clean(line) for line in lines if line)]


_NOT_COUNTED = "Jobs ahead of it in the queue are not counted."
