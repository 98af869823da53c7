"""The rates that a spec claims by GPU type: `throughput: {A100: 410, V100: 190}`, in the unit of the job's progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field

from muster.common.errors import FieldError, Invalid
from muster.fleet.models import Gpu, Pool
from muster.jobs.spec.gpus import GpuChoice
from scheduler.predict.rates import MAX_RATE

MAX_CLAIMS = 32

Claim = Annotated[float, Field(gt=0, le=MAX_RATE, allow_inf_nan=False)]
Throughput = Annotated[dict[str, Claim], Field(max_length=MAX_CLAIMS)]


def require_known_types(claims: Mapping[str, float], choices: Iterable[GpuChoice], pool: Pool) -> None:
    """Return if the job may run on each GPU type that it claims a rate for.

    Raises:
        Invalid: names each type that is none of the job's choices or, where any type will do, none of the pool.
    """
    accepted = {choice.gpu_type for choice in choices if choice.gpu_type}
    if not claims or accepted.issuperset(claims):
        return
    if accepted:
        errors = [
            FieldError(f"throughput.{gpu_type}", f"the job does not accept {gpu_type}: {' or '.join(sorted(accepted))}")
            for gpu_type in claims
            if gpu_type not in accepted
        ]
    else:
        known = sorted(Gpu.objects.filter(node__pool=pool).values_list("type", flat=True).distinct())
        errors = [
            FieldError(
                f"throughput.{gpu_type}",
                f"pool {pool.name} has no GPU type {gpu_type}; it has {', '.join(known) or 'none'}",
            )
            for gpu_type in claims
            if gpu_type not in known
        ]
    if errors:
        raise Invalid.fields(errors)
