"""GPUs that are reserved for one job while others stop: written, read and deleted under the lock of that job."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

from django.db.models import Q

from muster.common.models import DatabaseNow
from muster.fleet.models import Pool
from muster.jobs.models import Reservation, ReservedGpu
from muster.jobs.transitions import forget_reservations
from scheduler import model
from scheduler.model.lifecycle import JOB_TERMINAL, Desired
from scheduler.model.plan import Place


def keep_for(place: Place, *, for_s: float) -> None:
    """Reserve the place for its job, instead of what it had reserved before.

    Raises:
        IntegrityError: a GPU is reserved for another job.
    """
    shares = sorted(place.allocations, key=lambda share: share.rank)
    forget_reservations([place.job_id])
    row = Reservation.objects.create(
        job_id=place.job_id,
        allocations=[asdict(share) for share in shares],
        given=dict(place.given),
        until=DatabaseNow() + timedelta(seconds=for_s),
    )
    gpu_ids = sorted(gpu_id for share in shares for gpu_id in share.gpu_ids)
    ReservedGpu.objects.bulk_create([ReservedGpu(gpu_id=gpu_id, reservation=row) for gpu_id in gpu_ids])


def delete_expired_reservations(pool: Pool) -> None:
    """Delete the reservations that have expired, and those of jobs that no longer wait."""
    over = Reservation.objects.filter(job__pool=pool).filter(
        Q(until__lte=DatabaseNow()) | Q(job__state__in=sorted(JOB_TERMINAL)) | Q(job__desired=Desired.STOP)
    )
    forget_reservations(over.values_list("pk", flat=True))


def reservations_of(pool: Pool) -> tuple[model.Reservation, ...]:
    """The reservations of the pool's jobs that are to run."""
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
                    share["node_id"],
                    share["rank"],
                    tuple(share["gpu_ids"]),
                    share["cpus"],
                    share["memory_mib"],
                    cells=tuple(share.get("cells", ())),
                )
                for share in row.allocations
            ),
            row.until.timestamp(),
            given=tuple(sorted(row.given.items())),
        )
        for row in rows
    )
