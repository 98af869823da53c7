"""By what GPU-hours can be told apart, and how each is found: of claims, and of what was summed up by days."""

from enum import StrEnum

from muster.usage.outcomes import category_sql, failure_sql, outcome_sql, retry_sql

SLOTS = 64
"""Of a GPU; see `muster.jobs.models.GpuClaim`."""
SLOT_US_PER_HOUR = SLOTS * 3_600_000_000


class By(StrEnum):
    """By what GPU-hours can be told apart."""

    TENANT = "tenant"
    VC = "vc"
    USER = "user"
    GPU_TYPE = "gpu_type"
    CLASS = "class"
    DAY = "day"
    WEEK = "week"
    STATE = "state"
    """The state of the job."""
    OUTCOME = "outcome"
    """The outcome of the attempt."""
    FAILURE = "failure"
    CATEGORY = "category"
    RETRY = "retry"


BUCKETS = {By.DAY: "day", By.WEEK: "week"}

OF_CLAIMS = {
    By.TENANT: "job.tenant_id",
    By.VC: "job.vc_id",
    By.USER: "job.owner_id",
    By.GPU_TYPE: "held.gpu_type",
    By.CLASS: "job.klass",
    By.DAY: "held.bucket",
    By.WEEK: "held.bucket",
    By.STATE: "job.state",
    By.OUTCOME: outcome_sql(),
    By.FAILURE: failure_sql(),
    By.CATEGORY: category_sql(),
    By.RETRY: retry_sql(),
}
"""Of what was `held`, of its `attempt` and its `job`. Names come last, when there are few rows."""

OF_DAYS = {
    By.TENANT: "job.tenant_id",
    By.VC: "job.vc_id",
    By.USER: "job.owner_id",
    By.GPU_TYPE: "job.gpu_type",
    By.CLASS: "job.klass",
    By.DAY: "(job.day::timestamp AT TIME ZONE 'UTC')",
    By.WEEK: "date_trunc('week', job.day::timestamp AT TIME ZONE 'UTC', 'UTC')",
    By.STATE: "job.state",
    By.OUTCOME: "job.outcome",
    By.FAILURE: "NULLIF(job.failure, '')",
    By.CATEGORY: "NULLIF(job.category, '')",
    By.RETRY: "job.retry",
}
"""Of a row of `HeldDay`, and but for `retry` of `DayTotal`, called `job` so that scopes fit."""

NAMES = {
    By.TENANT: ("tenants_tenant", "name"),
    By.VC: ("tenants_virtualcluster", "name"),
    By.USER: ("accounts_user", "username"),
}
"""The table and the column in which the name is, where ids are told apart."""
