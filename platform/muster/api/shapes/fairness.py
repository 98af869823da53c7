"""What sharing a pool cost."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Number, Shape, Text, values
from muster.api.shapes.jobs import Values
from muster.api.shapes.usage import UsageFilter, WithFrom
from scheduler.sim.judge import Parties


class JobFairness(Shape):
    """The finish-time fairness of a job: its time from submission to end, divided by its time alone on its share.

    A run time of less than a minute counts as a minute. Figures are null where `sentence` says why there are none.
    """

    final = Flag(help_text="Whether the job has ended; otherwise the figures are as it stands now.")
    sentence = Text(help_text="How much slower or faster the job is than alone, or why that is not known.")
    rho_quota = Number(allow_null=True, help_text="Against the quota of its own virtual cluster alone.")
    rho_cluster = Number(allow_null=True, help_text="Against an equal part of the pool.")
    taken_s = Number(allow_null=True, help_text="Seconds from submission to end, or to the expected end.")
    alone_s = Number(allow_null=True, help_text="The run time of its work on the GPUs that it asks for, s.")
    quota_gpus = Integer(help_text="GPUs of the quota of its virtual cluster, as far as the pool has them.")
    pool_gpus = Integer(help_text="GPUs of the pool.")
    contention = Number(
        allow_null=True, help_text="Mean number of applications in the pool since its submission, itself included."
    )
    vc_contention = Number(allow_null=True, help_text="The same of its virtual cluster.")


class RhoFigures(Shape):
    """The finish-time fairness of several applications; null: none of them has one."""

    applications = Integer(help_text="Number of sweeps, and of jobs outside of sweeps, that ended.")
    rho_quota_median = Number(allow_null=True, help_text="Median, against the quota of the own virtual cluster alone.")
    rho_quota_mean = Number(allow_null=True, help_text="The mean.")
    rho_quota_max = Number(allow_null=True, help_text="The largest.")
    rho_cluster_median = Number(allow_null=True, help_text="Median, against an equal part of the pool.")
    rho_cluster_mean = Number(allow_null=True, help_text="The mean.")
    rho_cluster_max = Number(allow_null=True, help_text="The largest.")


class FairnessRow(RhoFigures):
    """The figures of those who have the values in common; null is what was not asked for."""

    week = Text(allow_null=True, help_text="The Monday on which the week of their end begins, in UTC.")
    tenant = Text(allow_null=True, help_text="The name of the tenant.")
    vc = Text(allow_null=True, help_text="The name of the virtual cluster.")
    user = Text(allow_null=True, help_text="The name of the owner.")


class FairnessFilter(UsageFilter):
    """By what finish times are told apart, and as what."""

    by = Text(
        required=False,
        default="week,tenant",
        max_length=100,
        allow_blank=True,
        help_text="Separated by commas: week, tenant, vc, user.",
    )


class FairnessOfPeriod(WithFrom):
    """The finish-time fairness of the applications that ended in a period."""

    to = Moment(help_text="The end of the period.")
    by = serializers.ListField(child=Text(), help_text="What the rows are grouped by.")
    results = FairnessRow(many=True, help_text="One row for each group, in the order of their values.")


class PoolFairnessFilter(Shape):
    """Which other policy to judge, and between whom."""

    policy = Text(required=False, max_length=40, help_text="Judge this policy, too, with its defaults.")
    by = Choice(choices=values(Parties), required=False, default="tenant", help_text="Between whom to judge.")


class FairnessWitness(Shape):
    """What shows that a property did not hold in a snapshot."""

    at = Moment(help_text="The moment of the snapshot.")
    sentence = Text(help_text="What was unfair, and what shows it.")


class PolicyVerdicts(Shape):
    """In how many of the judged snapshots each property held under one policy."""

    policy = Text(help_text="The name of the policy.")
    policy_params = Values(help_text="Its parameters; those that are not named have their defaults.")
    today = Flag(help_text="Whether the pool decides by it now.")
    snapshots = Integer(help_text="Number of judged snapshots: the newest with waiting jobs, at most 20.")
    decided_by = serializers.DictField(
        child=Integer(), help_text="The policies that decided these snapshots when they were taken, and how many each."
    )
    sharing_incentive = Integer(help_text="Snapshots in which no party would be better off alone with its quota.")
    pareto_efficiency = Integer(help_text="Snapshots in which no party could gain without a loss to another one.")
    kept_by_quotas = Integer(
        help_text="Of the others, those in which each gain would take a tenant beyond its quota, as quotas are kept."
    )
    envy_freeness = Integer(help_text="Snapshots in which no party with an equal share would rather have another's.")
    problem = Text(allow_blank=True, help_text="Why snapshots were left out; empty: none was.")
    witnesses = FairnessWitness(many=True, help_text="The newest snapshot first; at most 20.")


class TenantRho(RhoFigures):
    """The figures of one tenant."""

    tenant = Text(help_text="The name of the tenant.")


class WeekRho(RhoFigures):
    """The figures of one week."""

    week = Text(help_text="The Monday on which it begins, in UTC.")


class PoolFairness(Shape):
    """Verdicts on the policy of a pool and on another one, and what sharing cost its tenants by week, and costs now."""

    pool = Text(help_text="The name of the pool.")
    days = Integer(help_text="Of how many days `tenants` and `weeks` tell.")
    verdicts = PolicyVerdicts(
        many=True, help_text="Those on the policy of the pool first, then those on the named one."
    )
    tenants = TenantRho(
        many=True,
        help_text="A tenant with a `rho_quota_median` above 1 paid for the others.",
    )
    weeks = WeekRho(many=True, help_text="The same of all tenants, by the week of the end.")
    now = TenantRho(
        many=True,
        help_text="As they stand: the newest 200 live jobs and 20 sweeps whose run time is expected, by tenant.",
    )
