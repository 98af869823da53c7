"""The first questions of a cycle, in one statement each: the work to do, and the parts of a pool that have anything in
them.

Most pools have no offers, caps, maintenance or reservations, and a query for each of them cost more than a decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from muster.common.statements import statement_of
from muster.dispatch import hooks
from scheduler.admission import ADMISSIONS

# Each planner of each pool; the default planner has no id. Loans are looked after while any may begin or end.
_WORK = """
SELECT pool.id, planner.id,
    EXISTS (SELECT FROM events_restore WHERE resumed_at IS NULL),
    EXISTS (
        SELECT FROM jobs_job job WHERE job.pool_id = pool.id AND job.startable AND (
            SELECT planned.planner_id FROM dispatch_plannedcluster planned
            JOIN dispatch_planner owner ON owner.id = planned.planner_id AND owner.pool_id = pool.id
            WHERE planned.vc_id = job.vc_id
        ) IS NOT DISTINCT FROM planner.id
    ),
    extract(epoch FROM coalesce(
        (SELECT wake_at FROM dispatch_policystate WHERE pool_id = pool.id AND planner.id IS NULL),
        (SELECT wake_at FROM dispatch_plannerstate WHERE planner_id = planner.id)
    ) - clock_timestamp())::float8,
    planner.id IS NULL AND EXISTS (SELECT FROM dispatch_lane WHERE pool_id = pool.id AND mode <> 'off'),
    planner.id IS NULL AND EXISTS (
        SELECT FROM jobs_reservation kept JOIN jobs_job job ON job.id = kept.job_id WHERE job.pool_id = pool.id
        AND (kept.until <= clock_timestamp() OR job.desired = 'stop'
            OR job.state IN ('succeeded', 'failed', 'cancelled'))
    ),
    planner.id IS NULL AND (EXISTS (
        SELECT FROM tenants_loan loan JOIN tenants_virtualcluster vc ON vc.id = loan.borrower_id
        WHERE vc.pool_id = pool.id AND loan.until IS NULL
    ) OR pool.admission = ANY(%s) AND EXISTS (
        SELECT FROM jobs_gpuclaim claim JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id
        JOIN fleet_node node ON node.id = gpu.node_id WHERE node.pool_id = pool.id AND claim.released_at IS NULL
    )),
    planner.id IS NULL AND ({after})
FROM fleet_pool pool
CROSS JOIN LATERAL (
    SELECT NULL::bigint AS id UNION ALL SELECT id FROM dispatch_planner WHERE pool_id = pool.id
) planner
{which} ORDER BY pool.id, planner.id NULLS FIRST
"""
_OF_ONE = "WHERE pool.id = %s AND planner.id IS NOT DISTINCT FROM %s"

# Strikes that count no more are found with the others; rates of jobs that have ended, too.
_PARTS = """
SELECT clock_timestamp(),
    EXISTS (SELECT FROM events_restore WHERE resumed_at IS NULL),
    EXISTS (SELECT FROM fleet_maintenance WHERE pool_id = pool.id AND over_at IS NULL),
    EXISTS (
        SELECT FROM fleet_strike strike JOIN fleet_node node ON node.id = strike.node_id
        WHERE node.pool_id = pool.id AND strike.forgiven_at IS NULL
    ),
    EXISTS (SELECT FROM jobs_reservation kept JOIN jobs_job job ON job.id = kept.job_id WHERE job.pool_id = pool.id),
    {reserved},
    EXISTS (SELECT FROM jobs_jobgroup WHERE pool_id = pool.id AND state = 'active'),
    EXISTS (SELECT FROM tenants_cap),
    EXISTS (SELECT FROM tenants_commonquota WHERE pool_id = pool.id),
    EXISTS (
        SELECT FROM tenants_virtualcluster vc WHERE vc.pool_id = pool.id
        AND (EXISTS (SELECT FROM cells_cellshare WHERE vc_id = vc.id)
             OR EXISTS (SELECT FROM cells_pinnedcell WHERE vc_id = vc.id))
    ),
    EXISTS (SELECT FROM samples_speedalone) OR EXISTS (SELECT FROM samples_rateestimate),
    EXISTS (SELECT FROM dispatch_planner WHERE pool_id = pool.id)
FROM fleet_pool pool WHERE pool.id = %s
"""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a planner of a pool: see `run_cycle`. `left_s` are the seconds until its timer is due."""

    pool_id: int
    planner_id: int | None
    paused: bool
    waiting: bool
    left_s: float | None
    lane: bool
    expired: bool
    loans: bool
    after: bool

    @property
    def is_due(self) -> bool:
        """Whether the timer of the planner is due."""
        return self.left_s is not None and self.left_s <= 0

    @property
    def any(self) -> bool:
        """Whether a cycle would have anything to do."""
        return self.waiting or self.is_due or self.lane or self.expired or self.loans or self.after


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a pool that have anything in them, and the database's clock at that moment.

    They are those of the moment only: a snapshot reads them in its own transaction, the applier after its last lock.
    """

    now: datetime
    paused: bool
    maintenance: bool
    strikes: bool
    reservations: bool
    reserved_by_others: bool
    groups: bool
    caps: bool
    common_quotas: bool
    cells: bool
    rates: bool
    planners: bool


def work_of(pool_id: int, planner_id: int | None) -> Work | None:
    """The work for a planner of a pool; None if one of them is gone."""
    rows = _work(_OF_ONE, pool_id, planner_id)
    return rows[0] if rows else None


def all_work() -> list[Work]:
    """The work for each planner of each pool; a pool's default planner comes first."""
    return _work("")


def _work(which: str, *params: int | None) -> list[Work]:
    lenders = [name for name in ADMISSIONS.names if ADMISSIONS.has(name, "lends")]
    rows = statement_of(_WORK.format(which=which, after=hooks.has_work_after())).rows(lenders, *params)
    return [Work(*row) for row in rows]


def parts_of(pool_id: int) -> Parts:
    """The parts of the pool as the running transaction sees them."""
    (row,) = statement_of(_PARTS.format(reserved=hooks.has_reservations())).rows(pool_id)
    return Parts(*row)
