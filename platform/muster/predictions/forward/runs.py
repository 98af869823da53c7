"""Runs the policies of pools forward, in a child process of the worker.

The run of a pool is of its main configuration: jobs of other planners hold GPUs in it, and have no forecast.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from functools import partial

from muster.common.statements import Statement
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import planner_snapshot
from muster.fleet.models import Pool
from muster.predictions.children import Busy, ChildError, Limits, Stopped, in_child
from muster.predictions.models import PoolForward
from scheduler.forward.child import answer_of

log = logging.getLogger(__name__)

BUDGET_S = 20.0
"""The processor time of one run."""
MAX_RUN_S = 300.0
"""The time after which a run is ended; it is niced, so that it may take many times its processor time."""
MIN_EVERY_S = 60.0
PAUSE = 20.0
"""The pause after a run, by its processor time: runs take at most a twentieth of a processor on average."""

HAS_LIVE_JOBS = "EXISTS (SELECT FROM jobs_job WHERE state IN ('queued', 'active'))"
_DUE = Statement("""
SELECT pool.id FROM fleet_pool pool LEFT JOIN predictions_poolforward run ON run.pool_id = pool.id
WHERE EXISTS (
    SELECT FROM jobs_job job JOIN tenants_virtualcluster vc ON vc.id = job.vc_id
    WHERE vc.pool_id = pool.id AND job.state IN ('queued', 'active')
) AND (
    run.at IS NULL
    OR run.at + GREATEST(%s::float8, %s::float8 * run.took_s) * interval '1 s' <= clock_timestamp()
)
ORDER BY run.at NULLS FIRST
""")


def run_due_pools() -> int:
    """Run the policies of the pools forward whose turn it is, the longest waiting first; returns how many were run."""
    done = 0
    for (pool_id,) in _DUE.rows(MIN_EVERY_S, PAUSE):
        try:
            run_pool(Pool.objects.get(pk=pool_id))
        except (Busy, Stopped) as why:
            log.info("forward_put_off pool=%s why=%s", pool_id, why)
            break
        done += 1
    return done


def run_pool(pool: Pool) -> PoolForward:
    """Run the policy of the pool forward from now, and keep the answer, or why there is none.

    Raises:
        Busy, Stopped: no child process can run now.
    """
    began, began_here = time.monotonic(), time.thread_time()
    snapshot, config = planner_snapshot(pool, None, seed=pool.pk), config_of(pool)
    row = PoolForward(pool=pool, at=datetime.fromtimestamp(snapshot.now, UTC))
    run = partial(answer_of, seed=pool.pk, budget_s=BUDGET_S)
    try:
        answer = in_child(run, [(snapshot, config)], limits=Limits(run_s=MAX_RUN_S))
    except (Busy, Stopped):
        raise
    except ChildError as failure:
        log.warning("forward_failed pool=%s policy=%s why=%s", pool.name, config.policy, failure)
        row.took_s, row.error = time.monotonic() - began, str(failure)
    else:
        row.jobs, row.data = answer.pop("jobs"), answer | {"jobs": {}}
        row.took_s = answer["took_s"] + time.thread_time() - began_here
    PoolForward.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["pool"], update_fields=["at", "took_s", "data", "jobs", "error"]
    )
    return row
