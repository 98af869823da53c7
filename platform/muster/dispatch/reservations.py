"""GPUs that are kept for one job while others stop: written, read, and forgotten under the lock of that job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta

from django.db.models import Q

from muster.common.models import DatabaseNow
from muster.fleet.models import Pool
from muster.jobs.models import Reservation, ReservedGpu
from muster.jobs.transitions import forget_reservations
from scheduler import model
from scheduler.model.lifecycle import JOB_TERMINAL, Desired


def keep_for(*, job_id: int, allocations: Iterable[model.AllocationView], for_s: float) -> None:
    """Keep the allocations for the job, instead of what was kept for it before; a GPU that is kept for another job is
    an `IntegrityError`."""
    shares = sorted(allocations, key=lambda share: share.rank)
    forget_reservations([job_id])
    row = Reservation.objects.create(
        job_id=job_id,
        allocations=[asdict(share) for share in shares],
        until=DatabaseNow() + timedelta(seconds=for_s),
    )
    gpu_ids = sorted(gpu_id for share in shares for gpu_id in share.gpu_ids)
    ReservedGpu.objects.bulk_create([ReservedGpu(gpu_id=gpu_id, reservation=row) for gpu_id in gpu_ids])


def forget_what_is_over(pool: Pool) -> None:
    """Forget what is kept beyond its time, or for a job that does not wait for it any more."""
    over = Reservation.objects.filter(job__pool=pool).filter(
        Q(until__lte=DatabaseNow()) | Q(job__state__in=sorted(JOB_TERMINAL)) | Q(job__desired=Desired.STOP)
    )
    forget_reservations(over.values_list("pk", flat=True))


def reservations_of(pool: Pool) -> tuple[model.Reservation, ...]:
    """What is kept for the jobs of the pool that want to run."""
    rows = (
        Reservation.objects.filter(job__pool=pool, job__desired=Desired.RUN)
        .exclude(job__state__in=sorted(JOB_TERMINAL))
        .order_by("pk")
    )
    return tuple(
        model.Reservation(
            row.job_id,
            tuple(
                model.AllocationView(
                    share["node_id"], share["rank"], tuple(share["gpu_ids"]), share["cpus"], share["memory_mib"]
                )
                for share in row.allocations
            ),
            row.until.timestamp(),
        )
        for row in rows
    )
