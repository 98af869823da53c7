"""The tree of tenants: organisations, tenants with their caps, virtual clusters with quotas and loans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.models import User
from muster.api.render import tree as render
from muster.api.shapes import tree as shapes
from muster.api.shapes.common import Shape
from muster.api.views.base import ApiView, body_of, caller, describe, query_of
from muster.common.errors import Forbidden, NotFound
from muster.jobs.closing import close_virtual_cluster
from muster.tenants import edits
from muster.tenants.models import Organisation, Tenant
from muster.tenants.selectors import is_manager, organisations_of, tenants_of, virtual_clusters_of

_WRITES = (404, 409, 413, 415, 422)


class VirtualClusters(ApiView):
    """The virtual clusters of the caller's tenants."""

    @describe("list_virtual_clusters", tag="cluster", answers={200: shapes.VirtualClusterList})
    def get(self, request: Request) -> Response:
        """Each virtual cluster with what it may hold, holds, and waits for."""
        user = caller(request)
        return _whole(render.virtual_cluster_list(user, virtual_clusters_of(user)))

    @describe(
        "create_virtual_cluster",
        tag="cluster",
        answers={201: shapes.VirtualClusterDetail},
        problems=_WRITES,
        request=shapes.NewVirtualCluster,
    )
    def post(self, request: Request) -> Response:
        """Make a virtual cluster with its quotas. For operators."""
        user, body = _operator(request), body_of(request, shapes.NewVirtualCluster)
        with transaction.atomic():
            row = edits.create_cluster(user=user, **body)
        return Response(render.virtual_cluster(user, row), status=status.HTTP_201_CREATED)


class OneVirtualCluster(ApiView):
    """One virtual cluster."""

    @describe("get_virtual_cluster", tag="cluster", answers={200: shapes.VirtualClusterDetail}, problems=(404,))
    def get(self, request: Request, vc_id: int) -> Response:
        """The virtual cluster with its limits, and who lends to whom."""
        user = caller(request)
        return Response(render.virtual_cluster(user, _one(virtual_clusters_of(user), vc_id, "virtual cluster")))

    @describe(
        "change_virtual_cluster",
        tag="cluster",
        answers={200: shapes.VirtualClusterDetail},
        problems=_WRITES,
        request=shapes.VirtualClusterChanges,
        parameters=[shapes.Change],
    )
    def patch(self, request: Request, vc_id: int) -> Response:
        """Change weight and limits. Managers may set the weight, move quota within their tenant, and lower limits."""
        user = caller(request)
        row = _one(virtual_clusters_of(user), vc_id, "virtual cluster")
        _require_manager(user, row.tenant_id)

        def change(body: dict[str, Any]) -> dict[str, Any]:
            edited = edits.edit_virtual_cluster(user=user, vc=row, version=body.pop("version"), changes=body)
            return render.virtual_cluster(user, edited)

        return _changed(request, shapes.VirtualClusterChanges, change)

    @describe(
        "delete_virtual_cluster",
        tag="cluster",
        answers={204: None},
        problems=(404, 409, 422),
        parameters=[shapes.Closing],
    )
    def delete(self, request: Request, vc_id: int) -> Response:
        """Delete a virtual cluster without running jobs; its waiting jobs may move to another one. For operators."""
        user = _operator(request)
        row = _one(virtual_clusters_of(user), vc_id, "virtual cluster")
        close_virtual_cluster(user=user, vc=row, merge_into=query_of(request, shapes.Closing).get("merge_into"))
        return Response(status=status.HTTP_204_NO_CONTENT)


class Tenants(ApiView):
    """The caller's tenants."""

    @describe("list_tenants", tag="cluster", answers={200: shapes.TenantList})
    def get(self, request: Request) -> Response:
        """Each tenant with its virtual clusters, members and caps."""
        user = caller(request)
        return _whole(render.tenant_list(user, tenants_of(user)))

    @describe("create_tenant", tag="cluster", answers={201: shapes.Tenant}, problems=_WRITES, request=shapes.NewTenant)
    def post(self, request: Request) -> Response:
        """Make a tenant without members. For operators."""
        user, body = _operator(request), body_of(request, shapes.NewTenant)
        with transaction.atomic():
            row = edits.create_tenant_below(user=user, **body)
        return Response(_tenant(user, row), status=status.HTTP_201_CREATED)


class OneTenant(ApiView):
    """One tenant."""

    @describe("get_tenant", tag="cluster", answers={200: shapes.Tenant}, problems=(404,))
    def get(self, request: Request, tenant_id: int) -> Response:
        """The tenant with its virtual clusters, members and caps."""
        user = caller(request)
        return Response(_tenant(user, _one(tenants_of(user), tenant_id, "tenant")))

    @describe(
        "change_tenant",
        tag="cluster",
        answers={200: shapes.Tenant},
        problems=_WRITES,
        request=shapes.TenantChanges,
        parameters=[shapes.Change],
    )
    def patch(self, request: Request, tenant_id: int) -> Response:
        """Change organisation, weight, quotas and caps. Managers may set caps, and raise no limit on themselves."""
        user = caller(request)
        row = _one(tenants_of(user), tenant_id, "tenant")
        _require_manager(user, row.pk)

        def change(body: dict[str, Any]) -> dict[str, Any]:
            edits.edit_tenant(user=user, tenant=row, version=body.pop("version"), changes=body)
            return _tenant(user, row)

        return _changed(request, shapes.TenantChanges, change)


class Organisations(ApiView):
    """The organisations above the caller's tenants."""

    @describe("list_organisations", tag="cluster", answers={200: shapes.OrganisationList})
    def get(self, request: Request) -> Response:
        """Each organisation with what is below it."""
        user = caller(request)
        return _whole(render.organisation_list(user, organisations_of(user)))

    @describe(
        "create_organisation",
        tag="cluster",
        answers={201: shapes.Organisation},
        problems=_WRITES,
        request=shapes.NewOrganisation,
    )
    def post(self, request: Request) -> Response:
        """Make an organisation. For operators."""
        user, body = _operator(request), body_of(request, shapes.NewOrganisation)
        with transaction.atomic():
            row = edits.create_organisation(user=user, **body)
        return Response(_organisation(user, row), status=status.HTTP_201_CREATED)


class OneOrganisation(ApiView):
    """One organisation."""

    @describe("get_organisation", tag="cluster", answers={200: shapes.Organisation}, problems=(404,))
    def get(self, request: Request, organisation_id: int) -> Response:
        """The organisation with what is below it."""
        user = caller(request)
        return Response(_organisation(user, _one(organisations_of(user), organisation_id, "organisation")))

    @describe(
        "change_organisation",
        tag="cluster",
        answers={200: shapes.Organisation},
        problems=_WRITES,
        request=shapes.OrganisationChanges,
        parameters=[shapes.Change],
    )
    def patch(self, request: Request, organisation_id: int) -> Response:
        """Change what it is below, its weight and quotas. For operators."""
        user = _operator(request)
        row = _one(organisations_of(user), organisation_id, "organisation")

        def change(body: dict[str, Any]) -> dict[str, Any]:
            edits.edit_group(user=user, group=row, version=body.pop("version"), changes=body)
            return _organisation(user, row)

        return _changed(request, shapes.OrganisationChanges, change)

    @describe("delete_organisation", tag="cluster", answers={204: None}, problems=(404, 409))
    def delete(self, request: Request, organisation_id: int) -> Response:
        """Delete an organisation with nothing below it. For operators."""
        user = _operator(request)
        row = _one(organisations_of(user), organisation_id, "organisation")
        with transaction.atomic():
            edits.delete_organisation(user=user, organisation=row)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _changed(request: Request, shape: type[Shape], change: Callable[[dict[str, Any]], dict[str, Any]]) -> Response:
    """The answer to a change, which is not stored in a dry run."""
    dry_run, body = query_of(request, shapes.Change)["dry_run"], body_of(request, shape)
    with transaction.atomic():
        document = change(body)
        if dry_run:
            transaction.set_rollback(True)
    return Response(document)


def _one(rows: QuerySet[Any], pk: int, what: str) -> Any:
    row = rows.filter(pk=pk).first()
    if row is None:
        raise NotFound(f"there is no {what} {pk} that you may see")
    return row


def _tenant(user: User, row: Tenant) -> dict[str, Any]:
    return render.tenant_list(user, Tenant.objects.filter(pk=row.pk))[0]


def _organisation(user: User, row: Organisation) -> dict[str, Any]:
    return render.organisation_list(user, Organisation.objects.filter(pk=row.pk))[0]


def _operator(request: Request) -> User:
    user = caller(request)
    if not user.is_operator:
        raise Forbidden("only operators may do this")
    return user


def _require_manager(user: User, tenant_id: int) -> None:
    if not is_manager(user, tenant_id):
        raise Forbidden("only managers of the tenant and operators may change this")


def _whole(results: list[dict[str, Any]]) -> Response:
    """A list that comes in one piece."""
    return Response({"results": results, "next": None})
