"""The cost of sharing a pool."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.terms import Moment, Values
from muster_client.answers.usage import AnswerOfPeriod


class JobFairness(TypedDict):
    """The finish-time fairness of a job: its time from submission to end, divided by its time alone on its share.

    A run time of less than a minute counts as a minute. Figures are null where `sentence` says why there are none.
    """

    final: Annotated[bool, "Whether the job has ended; otherwise the figures are those of now."]
    sentence: Annotated[str, "The figures as a sentence, or the reason why they are not known."]
    rho_quota: Annotated[float | None, "Against the quota of its own virtual cluster alone."]
    rho_cluster: Annotated[float | None, "Against an equal part of the pool."]
    taken_s: Annotated[float | None, "Seconds from submission to end, or to the expected end."]
    alone_s: Annotated[float | None, "The run time of its work on the GPUs that it asks for, s."]
    quota_gpus: Annotated[int, "GPUs of the quota of its virtual cluster, as far as the pool has them."]
    pool_gpus: Annotated[int, "GPUs of the pool."]
    contention: Annotated[
        float | None, "Mean number of applications in the pool since its submission, itself included."
    ]
    vc_contention: Annotated[float | None, "The same for its virtual cluster."]


class RhoFigures(TypedDict):
    """The finish-time fairness of several applications; null: none of them has one."""

    applications: Annotated[int, "Number of sweeps, and of jobs outside of sweeps, that ended."]
    rho_quota_median: Annotated[float | None, "Median rho, against the quota of its virtual cluster alone."]
    rho_quota_mean: Annotated[float | None, "The mean."]
    rho_quota_max: Annotated[float | None, "The largest."]
    rho_cluster_median: Annotated[float | None, "Median rho, against an equal part of the pool."]
    rho_cluster_mean: Annotated[float | None, "The mean."]
    rho_cluster_max: Annotated[float | None, "The largest."]


class FairnessRow(RhoFigures):
    """The figures of one group; null: a column that was not asked for."""

    week: Annotated[str | None, "The Monday on which the week of their end begins, in UTC."]
    tenant: Annotated[str | None, "The name of the tenant."]
    vc: Annotated[str | None, "The name of the virtual cluster."]
    user: Annotated[str | None, "The name of the owner."]


class FairnessOfPeriod(AnswerOfPeriod):
    """The finish-time fairness of the applications that ended in a period."""

    by: Annotated[list[str], "The columns that the rows are grouped by."]
    results: Annotated[list[FairnessRow], "One row for each group, in the order of their values."]


class FairnessWitness(TypedDict):
    """An example of a snapshot in which a property did not hold."""

    at: Annotated[Moment, "The moment of the snapshot."]
    sentence: Annotated[str, "The unfairness and its evidence, as a sentence."]


class PolicyVerdicts(TypedDict):
    """The number of judged snapshots in which each property held under one policy."""

    policy: Annotated[str, "The name of the policy."]
    policy_params: Annotated[Values, "Its parameters; those that are not named have their defaults."]
    today: Annotated[bool, "Whether the pool decides by it now."]
    snapshots: Annotated[int, "Number of judged snapshots: the newest with waiting jobs, at most 20."]
    decided_by: Annotated[
        dict[str, int], "The policies that decided these snapshots when they were taken, and how many each."
    ]
    sharing_incentive: Annotated[int, "Snapshots in which no party would be better off alone with its quota."]
    pareto_efficiency: Annotated[int, "Snapshots in which no party could gain without a loss to another one."]
    kept_by_quotas: Annotated[int, "Of the others, snapshots in which each gain would exceed a tenant's quota."]
    envy_freeness: Annotated[int, "Snapshots in which no party with an equal share would rather have another's."]
    problem: Annotated[str, "Why snapshots were left out; empty: none was."]
    witnesses: Annotated[list[FairnessWitness], "The newest snapshot first; at most 20."]


class TenantRho(RhoFigures):
    """The figures of one tenant."""

    tenant: Annotated[str, "The name of the tenant."]


class WeekRho(RhoFigures):
    """The figures of one week."""

    week: Annotated[str, "The Monday on which it begins, in UTC."]


class PoolFairness(TypedDict):
    """Verdicts on the policy of a pool and on another one, and the cost of sharing for its tenants, by week and now."""

    pool: Annotated[str, "The name of the pool."]
    days: Annotated[int, "The number of days that `tenants` and `weeks` cover."]
    verdicts: Annotated[list[PolicyVerdicts], "Those on the policy of the pool first, then those on the named one."]
    tenants: Annotated[list[TenantRho], "A tenant with a `rho_quota_median` above 1 paid for the others."]
    weeks: Annotated[list[WeekRho], "The same for all tenants, by the week of the end."]
    now: Annotated[
        list[TenantRho],
        "The present figures of the newest 200 live jobs and 20 sweeps with an expected run time, by tenant.",
    ]
