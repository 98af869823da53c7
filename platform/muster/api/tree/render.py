"""The tree of tenants as JSON, each list in a constant number of queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from muster.accounts.models import User
from muster.cells.models import Binding
from muster.common.clock import moment
from muster.common.models import DatabaseNow
from muster.jobs.models import GpuClaim, Job
from muster.tenants.caps import cap_as_data
from muster.tenants.models import CommonQuota, Loan, Membership, Organisation, Quota, Tenant, TreeNode, VirtualCluster
from muster.tenants.roles import Role
from muster.tenants.selectors import organisations_of, tenants_of
from muster_client.answers import tree as answers
from scheduler.admission import ADMISSIONS
from scheduler.model.lifecycle import JobState, Stage

LOANS_SHOWN, LOANS_KEPT = 100, timedelta(days=30)


def virtual_cluster_list(user: User, clusters: QuerySet[VirtualCluster]) -> list[answers.VirtualCluster]:
    """The virtual clusters with what they may hold, hold, lend, borrow and wait for."""
    rows = list(clusters.select_related("tenant__organisation", "pool").prefetch_related("quotas"))
    holding, outside = _holding(rows)
    jobs: Counter[tuple[int, str]] = Counter()
    counted = Job.objects.filter(vc__in=rows, state__in=[JobState.QUEUED, JobState.ACTIVE])
    for vc_id, state, count in counted.values_list("vc_id", "state").annotate(count=Count("id")).order_by():
        jobs[vc_id, state] = count
    lent, borrowed = _open_loans(rows)
    managed = _managed(user)
    return [
        {
            **_part(vc, user, vc.tenant_id in managed),
            "tenant": vc.tenant.name,
            "tenant_id": vc.tenant_id,
            "organisation": _name(vc.tenant.organisation),
            "pool": vc.pool.name,
            "quotas": _quotas(vc, holding, outside, lent, borrowed),
            "waiting": jobs[vc.pk, JobState.QUEUED],
            "active": jobs[vc.pk, JobState.ACTIVE],
        }
        for vc in rows
    ]


def virtual_cluster(user: User, vc: VirtualCluster) -> answers.VirtualClusterDetail:
    """One virtual cluster with its loans."""
    (document,) = virtual_cluster_list(user, VirtualCluster.objects.filter(pk=vc.pk))
    return {**document, "loans": _loans(user, vc)}


def tenant_list(user: User, tenants: QuerySet[Tenant]) -> list[answers.Tenant]:
    """The tenants with their virtual clusters, members and caps."""
    rows = tenants.order_by("name").select_related("organisation")
    rows = rows.prefetch_related("quotas__pool", "virtual_clusters__pool", "memberships__user", "caps__user")
    managed = _managed(user)
    return [
        {
            **_part(tenant, user, tenant.pk in managed),
            "organisation": _name(tenant.organisation),
            "quotas": _common_quotas(tenant.quotas.all()),
            "vcs": [
                {"id": vc.pk, "name": vc.name, "pool": vc.pool.name}
                for vc in sorted(tenant.virtual_clusters.all(), key=lambda vc: vc.name)
                if vc.closed_at is None
            ],
            "members": [
                {"username": one.user.username, "role": one.role}
                for one in sorted(tenant.memberships.all(), key=lambda one: one.user.username)
            ],
            "caps": sorted(
                (cap_as_data(cap) for cap in tenant.caps.all()), key=lambda cap: (cap["user"] or "", cap["role"] or "")
            ),
        }
        for tenant in rows
    ]


def tenant(user: User, row: Tenant) -> answers.Tenant:
    """One tenant."""
    return tenant_list(user, Tenant.objects.filter(pk=row.pk))[0]


def organisation_list(user: User, organisations: QuerySet[Organisation]) -> list[answers.Organisation]:
    """The organisations with what is directly below them."""
    rows = organisations.order_by("name").select_related("parent").prefetch_related("quotas__pool", "organisations")
    below: dict[int, list[str]] = {}
    named = Tenant.objects.all() if user.is_operator else _tenants_seen(user)
    for organisation_id, name in named.filter(organisation__isnull=False).values_list("organisation_id", "name"):
        below.setdefault(organisation_id, []).append(name)
    seen = set(organisations_of(user).values_list("name", flat=True))
    return [
        {
            **_part(row, user, False),
            "parent": _name(row.parent),
            "quotas": _common_quotas(row.quotas.all()),
            "organisations": sorted(one.name for one in row.organisations.all() if one.name in seen),
            "tenants": sorted(below.get(row.pk, [])),
        }
        for row in rows
    ]


def organisation(user: User, row: Organisation) -> answers.Organisation:
    """One organisation."""
    return organisation_list(user, Organisation.objects.filter(pk=row.pk))[0]


def _tenants_seen(user: User) -> QuerySet[Tenant]:
    """The tenants of the user, and those of the same organisations."""
    own = tenants_of(user)
    return Tenant.objects.filter(Q(pk__in=own) | Q(organisation__in=own.values("organisation")))


def _part(row: TreeNode, user: User, manages: bool) -> answers.Part:
    return {
        "id": row.pk,
        "name": str(row),
        "weight": row.weight,
        "version": row.version,
        "changed_at": moment(row.changed_at),
        "changed_by": row.changed_by,
        "may": "operate" if user.is_operator else "manage" if manages else "read",
    }


def _managed(user: User) -> set[int]:
    return set(Membership.objects.filter(user=user, role=Role.MANAGER).values_list("tenant_id", flat=True))


def _name(row: TreeNode | None) -> str | None:
    return None if row is None else str(row)


def _common_quotas(rows: Iterable[CommonQuota]) -> list[answers.CommonQuota]:
    return [
        {
            "pool": row.pool.name,
            "gpu_type": row.gpu_type,
            "gpus": row.gpus,
            "borrowing_limit": row.borrowing,
            "lending_limit": row.lending,
        }
        for row in sorted(rows, key=lambda row: (row.pool.name, row.gpu_type))
    ]


def _quotas(
    vc: VirtualCluster,
    holding: Mapping[tuple[int, str], int],
    outside: Mapping[tuple[int, str], int],
    lent: Mapping[tuple[int, str], int],
    borrowed: Mapping[tuple[int, str], int],
) -> list[answers.Quota]:
    promised: dict[str, Quota] = {quota.gpu_type: quota for quota in vc.quotas.all()}
    # What is still held of a type whose quota was taken away must stay visible.
    kinds = sorted(promised.keys() | {kind for vc_id, kind in holding if vc_id == vc.pk})
    documents: list[answers.Quota] = []
    for kind in kinds:
        row, place = promised.get(kind), (vc.pk, kind)
        documents.append(
            {
                "gpu_type": kind,
                "gpus": row.gpus if row else 0,
                "borrowing_limit": row.borrowing if row else None,
                "lending_limit": row.lending if row else None,
                "used": holding.get(place, 0),
                "borrowed": borrowed.get(place, 0),
                "lent": lent.get(place, 0),
                "opportunistic": outside.get(place, 0),
            }
        )
    return documents


def _holding(rows: list[VirtualCluster]) -> tuple[dict[tuple[int, str], int], dict[tuple[int, str], int]]:
    """The GPUs that each of the virtual clusters holds by GPU type, and those of them outside of its cells."""
    holding, outside = {}, {}
    # GPUs of screening runs do not count for the virtual cluster.
    claims = GpuClaim.objects.filter(
        released_at__isnull=True, allocation__attempt__job__vc__in=rows, allocation__attempt__stage=Stage.FULL
    )
    by_cells = [name for name in ADMISSIONS.names if ADMISSIONS.has(name, "has_cells")]
    bound = Exists(Binding.objects.filter(allocation=OuterRef("allocation")))
    within = ~Q(allocation__attempt__job__pool__admission__in=by_cells) | Q(bound)
    counted = claims.values_list("allocation__attempt__job__vc_id", "gpu__type").annotate(
        count=Count("gpu_id", distinct=True), within=Count("gpu_id", distinct=True, filter=within)
    )
    for vc_id, kind, count, cells in counted.order_by():
        holding[vc_id, kind], outside[vc_id, kind] = count, count - cells
    return holding, outside


def _open_loans(rows: list[VirtualCluster]) -> tuple[Counter[tuple[int, str]], Counter[tuple[int, str]]]:
    """The GPUs that each of the virtual clusters lends and borrows now, by GPU type."""
    lent: Counter[tuple[int, str]] = Counter()
    borrowed: Counter[tuple[int, str]] = Counter()
    ids = {row.pk for row in rows}
    for lender, borrower, kind, gpus in Loan.objects.filter(
        Q(lender_vc__in=ids) | Q(borrower__in=ids), until__isnull=True
    ).values_list("lender_vc_id", "borrower_id", "gpu_type", "gpus"):
        borrowed[borrower, kind] += gpus
        if lender is not None:
            lent[lender, kind] += gpus
    return lent, borrowed


def _loans(user: User, vc: VirtualCluster) -> list[answers.Loan]:
    rows = Loan.objects.filter(Q(borrower=vc) | Q(lender_vc=vc)).filter(
        Q(until__isnull=True) | Q(until__gte=DatabaseNow() - LOANS_KEPT)
    )
    rows = rows.select_related("borrower__tenant", "lender_vc__tenant", "lender_tenant", "lender_organisation")
    known = None if user.is_operator else set(_tenants_seen(user).values_list("pk", flat=True))

    def shown(other: VirtualCluster) -> str:
        return other.name if known is None or other.tenant_id in known else "another tenant"

    documents: list[answers.Loan] = []
    for row in rows.order_by(F("until").desc(nulls_first=True), "-since", "-pk")[:LOANS_SHOWN]:
        lent = row.lender_vc_id == vc.pk
        if lent:
            other = shown(row.borrower)
        elif row.lender_vc is not None:
            other = shown(row.lender_vc)
        else:
            lender, kind = (
                (row.lender_tenant, "tenant") if row.lender_tenant else (row.lender_organisation, "organisation")
            )
            visible = known is None or kind == "organisation" or row.lender_tenant_id in known
            other = f"{kind} {lender}" if visible else "another tenant"
        documents.append(
            {
                "direction": "lent" if lent else "borrowed",
                "other": other,
                "gpu_type": row.gpu_type,
                "gpus": row.gpus,
                "since": moment(row.since),
                "until": None if row.until is None else moment(row.until),
            }
        )
    return documents
