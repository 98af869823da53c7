"""Finish-time fairness and verdicts: what sharing a pool cost whom, and whether its policy is fair."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, caller, describe, operator, query_of
from muster.api.fairness.bodies import FairnessFilter, PoolFairnessFilter
from muster.api.fairness.render import fairness_csv, fairness_row, job_fairness, tenant_rho, verdicts_document, week_rho
from muster.api.policies.views import SEE_POLICY, pool_named
from muster.api.usage.render import period_document
from muster.api.usage.views import accepted, asked, table
from muster.common.clock import utc_now
from muster.dispatch.explain.fairness import pool_verdicts
from muster.jobs.selectors import get_job
from muster.usage.dimensions import By
from muster.usage.fairness import fairness_by, fairness_now, parse_fairness_by
from muster.usage.finish_times import fairness_of
from muster.usage.periods import Period
from muster.usage.scope import Scope
from muster_client.answers import fairness as answers
from scheduler.sim.judge import Parties

DAYS = 28  # of the weeks of a pool


class FairnessOfJob(ApiView):
    @describe("get_job_fairness", "jobs", {200: answers.JobFairness}, problems=(404,))
    def get(self, request: Request, job_id: int) -> Response:
        """The final figures of a job that has ended, or the present ones of another job if its run time is expected."""
        return Response(job_fairness(fairness_of(get_job(caller(request), job_id))))


class FairnessOfUsage(ApiView):
    @describe(
        "get_usage_fairness", "usage", {200: answers.FairnessOfPeriod}, parameters=[FairnessFilter], tables=(200,)
    )
    def get(self, request: Request) -> Any:
        """Median, mean and maximum of the jobs and sweeps that ended: the caller's own, the whole tenant's for its
        managers, all for operators."""
        query = query_of(request, FairnessFilter)
        period, scope = asked(request, query)
        by = parse_fairness_by(query["by"])
        rows = fairness_by(period, scope, by)
        if query.get("format", accepted(request)) == "csv":
            return table("fairness.csv", fairness_csv(by, rows))
        answer: answers.FairnessOfPeriod = {
            **period_document(period),
            "by": [one.value for one in by],
            "results": [fairness_row(row) for row in rows],
        }
        return Response(answer)


class FairnessOfPool(ApiView):
    @describe(
        "get_pool_fairness", "cluster", {200: answers.PoolFairness}, problems=(404,), parameters=[PoolFairnessFilter]
    )
    def get(self, request: Request, name: str) -> Response:
        """Verdicts on snapshots under the pool's policy and the named one, and the cost of sharing for tenants in
        recent weeks. For operators."""
        operator(request, SEE_POLICY)
        pool = pool_named(name)
        query = query_of(request, PoolFairnessFilter)
        verdicts = pool_verdicts(pool, policy=query.get("policy"), by=Parties(query["by"]))
        now = utc_now()
        period = Period(now - timedelta(days=DAYS), now)
        tenants, weeks = (fairness_by(period, Scope(), [by], pool_id=pool.pk) for by in (By.TENANT, By.WEEK))
        answer: answers.PoolFairness = {
            "pool": pool.name,
            "days": DAYS,
            "verdicts": [verdicts_document(one) for one in verdicts],
            "tenants": [tenant_rho(row) for row in tenants],
            "weeks": [week_rho(row) for row in weeks],
            "now": [tenant_rho(row) for row in fairness_now(pool.pk)],
        }
        return Response(answer)
