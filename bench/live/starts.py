"""Start forecasts in a large pool: the dry run of a job, and the rows behind submissions."""

from __future__ import annotations

import time
from datetime import timedelta

import numpy as np
from django.db import connection
from django.utils import timezone

from bench.figures import Series
from bench.live.cycle import fill
from bench.live.stack import ACTOR
from muster.dispatch.explain.forecast import dry_run
from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.jobs.services import submit_job
from muster.predictions.models import Kind, WaitOutcome, WaitRecord
from muster.predictions.versions import store_model
from muster.predictions.waits import records
from muster.predictions.waits.outlook import outlook_of_draft
from muster.tenants.models import VirtualCluster
from muster.tenants.roles import Role
from muster.tenants.services import add_member
from scheduler.predict.waits.features import NAMES, VERSION
from scheduler.predict.waits.model import train

WARM_UPS, SUBMITTED, TRAINED = 2, 100, 4000


def measure(*, samples: int) -> Series:
    """Milliseconds of dry runs with a forecast of the start, and of the rows of 100 submissions."""
    pool = fill("forecast")
    _learn(pool)
    vc = VirtualCluster.objects.select_related("tenant").filter(pool=pool).first()
    user = Job.objects.filter(vc=vc)[0].owner
    add_member(tenant=vc.tenant, user=user, role=Role.MEMBER, actor=ACTOR)
    spec = {"command": "true", "gpus": 4, "time": "4h", "vc": vc.name, "name": "asked"}
    records.read_events(most=10_000)
    series: Series = {"forecast_ms": [], "forecast_rows_ms": []}
    for _ in range(samples + WARM_UPS):
        start = time.perf_counter()
        outlook = outlook_of_draft(dry_run(user=user, data=spec).job)
        series["forecast_ms"].append((time.perf_counter() - start) * 1000)
        assert outlook.forecast is not None
    for _ in range(SUBMITTED):
        submit_job(user=user, data=spec)
    start = time.perf_counter()
    read = records.read_events()
    series["forecast_rows_ms"].append((time.perf_counter() - start) * 1000)
    assert read == SUBMITTED
    return {name: values[WARM_UPS:] if len(values) > 1 else values for name, values in series.items()}


def _learn(pool: Pool) -> None:
    """Give the pool a model, and a history of starts."""
    chance = np.random.default_rng(1)
    rows = chance.uniform(0, 1, (TRAINED, len(NAMES)))
    waited_s = 7200 * rows[:, 0] * chance.uniform(0.1, 1, TRAINED)
    model = train(rows, waited_s, np.ones(TRAINED, dtype=bool))
    assert model is not None
    data = model.to_bytes()
    store_model(kind=Kind.WAIT, pool_id=pool.pk, rows=TRAINED, scores={}, data=data, active=True)
    now = timezone.now()
    WaitRecord.objects.bulk_create(
        WaitRecord(
            job_id=job_id, pool=pool, version=VERSION, features=[0.0] * len(NAMES), outcome=WaitOutcome.STARTED,
            eligible_at=now - timedelta(seconds=60.0 * number + 600), over_at=now - timedelta(seconds=60.0 * number),
        )
        for number, job_id in enumerate(Job.objects.filter(pool=pool, state="active").values_list("pk", flat=True))
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
