"""The tree of tenants: organisations, tenants with caps, virtual clusters with quotas; registries and volumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from django.db import transaction
from django.db.models import QuerySet
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.models import User
from muster.api.base import ApiView, body_of, caller, describe, operator, query_of
from muster.api.fields import Shape
from muster.api.tree import bodies, render
from muster.clusters.closing import close_virtual_cluster
from muster.common.clock import moment
from muster.common.errors import Forbidden
from muster.common.rows import require_first
from muster.tenants import edits
from muster.tenants.models import RegistryCredentials, TreeNode
from muster.tenants.registries import registries_managed_by, remove_registry, store_registry, tenant_managed_by
from muster.tenants.selectors import is_manager, organisations_of, tenants_of, virtual_clusters_of
from muster.tenants.volumes import volumes_of
from muster_client.answers import tree as answers

_Handler = Callable[..., Response]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of node: which of them a user may see, their documents, and what makes and changes one.

    `manager_of` gives the id of the tenant whose managers may change a node; without it only operators may.
    """

    name: str
    rows: Callable[[User], QuerySet[Any]]
    listed: Callable[[User, QuerySet[Any]], list[Any]]
    document: Callable[[User, Any], Any]
    create: Callable[..., TreeNode]
    edit: Callable[..., TreeNode]
    list_answer: type[Any]
    answer: type[Any]
    new_shape: type[Shape]
    changes_shape: type[Shape]
    manager_of: Callable[[Any], int] | None = None

    @property
    def key(self) -> str:
        """Its name in the ids of its operations."""
        return self.name.replace(" ", "_")

    def one(self, user: User, path: dict[str, int]) -> Any:
        """The node of a path that the user may see."""
        (pk,) = path.values()
        return require_first(self.rows(user).filter(pk=pk), f"there is no {self.name} {pk} that you may see")


def _lists(kind: Kind, description: str) -> _Handler:
    @describe(f"list_{kind.key}s", "cluster", {200: kind.list_answer}, description=description)
    def get(view: ApiView, request: Request) -> Response:
        user = caller(request)
        return Response(kind.list_answer(results=kind.listed(user, kind.rows(user)), next=None))

    return cast(_Handler, get)


def _creates(kind: Kind, description: str) -> _Handler:
    @describe(
        f"create_{kind.key}",
        "cluster",
        {201: kind.answer},
        problems=(404, 409),
        request=kind.new_shape,
        description=description,
    )
    def post(view: ApiView, request: Request) -> Response:
        user, body = operator(request, "do this"), body_of(request, kind.new_shape)
        with transaction.atomic():
            row = kind.create(user=user, **body)
        return Response(kind.document(user, row), status=status.HTTP_201_CREATED)

    return cast(_Handler, post)


def _gets(kind: Kind, description: str) -> _Handler:
    @describe(f"get_{kind.key}", "cluster", {200: kind.answer}, problems=(404,), description=description)
    def get(view: ApiView, request: Request, **path: int) -> Response:
        user = caller(request)
        return Response(kind.document(user, kind.one(user, path)))

    return cast(_Handler, get)


def _changes(kind: Kind, description: str) -> _Handler:
    @describe(
        f"change_{kind.key}",
        "cluster",
        {200: kind.answer},
        problems=(404, 409),
        request=kind.changes_shape,
        parameters=[bodies.Change],
        description=description,
    )
    def patch(view: ApiView, request: Request, **path: int) -> Response:
        user = caller(request) if kind.manager_of else operator(request, "do this")
        row = kind.one(user, path)
        if kind.manager_of and not is_manager(user, kind.manager_of(row)):
            raise Forbidden("only managers of the tenant and operators may change this")
        dry_run, body = query_of(request, bodies.Change)["dry_run"], body_of(request, kind.changes_shape)
        with transaction.atomic():
            row = kind.edit(user=user, node=row, version=body.pop("version"), changes=body)
            document = kind.document(user, row)
            if dry_run:
                transaction.set_rollback(True)
        return Response(document)

    return cast(_Handler, patch)


VIRTUAL_CLUSTER = Kind(
    name="virtual cluster",
    rows=virtual_clusters_of,
    listed=render.virtual_cluster_list,
    document=render.virtual_cluster,
    create=edits.create_cluster,
    edit=edits.edit_virtual_cluster,
    list_answer=answers.VirtualClusterList,
    answer=answers.VirtualClusterDetail,
    new_shape=bodies.NewVirtualCluster,
    changes_shape=bodies.VirtualClusterChanges,
    manager_of=lambda row: row.tenant_id,
)
TENANT = Kind(
    name="tenant",
    rows=tenants_of,
    listed=render.tenant_list,
    document=render.tenant,
    create=edits.create_tenant_below,
    edit=edits.edit_tenant,
    list_answer=answers.TenantList,
    answer=answers.Tenant,
    new_shape=bodies.NewTenant,
    changes_shape=bodies.TenantChanges,
    manager_of=lambda row: row.pk,
)
ORGANISATION = Kind(
    name="organisation",
    rows=organisations_of,
    listed=render.organisation_list,
    document=render.organisation,
    create=edits.create_organisation,
    edit=edits.edit_group,
    list_answer=answers.OrganisationList,
    answer=answers.Organisation,
    new_shape=bodies.NewOrganisation,
    changes_shape=bodies.OrganisationChanges,
)


class VirtualClusters(ApiView):
    get = _lists(VIRTUAL_CLUSTER, "Each virtual cluster with its quotas, their use, and its waiting jobs.")
    post = _creates(VIRTUAL_CLUSTER, "Make a virtual cluster with its quotas. For operators.")


class OneVirtualCluster(ApiView):
    get = _gets(VIRTUAL_CLUSTER, "The virtual cluster with its limits and loans.")
    patch = _changes(
        VIRTUAL_CLUSTER,
        "Change weight and limits. Managers may set the weight, move quota within their tenant, and lower limits.",
    )

    @describe("delete_virtual_cluster", "cluster", {204: None}, problems=(404, 409), parameters=[bodies.Closing])
    def delete(self, request: Request, **path: int) -> Response:
        """Delete a virtual cluster without running jobs; its waiting jobs may move to another one. For operators."""
        user = operator(request, "do this")
        row = VIRTUAL_CLUSTER.one(user, path)
        close_virtual_cluster(user=user, vc=row, merge_into=query_of(request, bodies.Closing).get("merge_into"))
        return Response(status=status.HTTP_204_NO_CONTENT)


class Tenants(ApiView):
    get = _lists(TENANT, "Each tenant with its virtual clusters, members and caps.")
    post = _creates(TENANT, "Make a tenant without members. For operators.")


class OneTenant(ApiView):
    get = _gets(TENANT, "The tenant with its virtual clusters, members and caps.")
    patch = _changes(
        TENANT, "Change organisation, weight, quotas and caps. Managers may set caps, and raise no limit on themselves."
    )


class Organisations(ApiView):
    get = _lists(ORGANISATION, "Each organisation with its organisations and tenants.")
    post = _creates(ORGANISATION, "Make an organisation. For operators.")


class OneOrganisation(ApiView):
    get = _gets(ORGANISATION, "The organisation with its organisations and tenants.")
    patch = _changes(ORGANISATION, "Change its parent, weight and quotas. For operators.")

    @describe("delete_organisation", "cluster", {204: None}, problems=(404, 409))
    def delete(self, request: Request, **path: int) -> Response:
        """Delete an organisation with nothing below it. For operators."""
        user = operator(request, "do this")
        row = ORGANISATION.one(user, path)
        with transaction.atomic():
            edits.delete_organisation(user=user, organisation=row)
        return Response(status=status.HTTP_204_NO_CONTENT)


class Registries(ApiView):
    @describe("list_registries", "account", {200: answers.RegistryList})
    def get(self, request: Request) -> Response:
        """The registries for which the tenants that you manage have credentials, by tenant and registry."""
        rows = registries_managed_by(caller(request))
        return Response(answers.RegistryList(results=[_registry(row) for row in rows], next=None))

    @describe("store_registry", "account", {200: answers.Registry}, problems=(404,), request=bodies.NewRegistry)
    def post(self, request: Request) -> Response:
        """Store the tenant's credentials for a registry; they replace earlier ones. For managers."""
        user = caller(request)
        body = body_of(request, bodies.NewRegistry)
        tenant = tenant_managed_by(user, body.pop("tenant", None))
        return Response(_registry(store_registry(tenant=tenant, actor=user.username, **body)))


class OneRegistry(ApiView):
    @describe("remove_registry", "account", {204: None}, problems=(404,))
    def delete(self, request: Request, registry_id: int) -> Response:
        """Delete the credentials. Running jobs go on. For managers."""
        user = caller(request)
        refusal = f"there are no credentials {registry_id} of a tenant that you manage"
        row = require_first(registries_managed_by(user).filter(pk=registry_id), refusal)
        remove_registry(credentials=row, actor=user.username)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _registry(row: RegistryCredentials) -> answers.Registry:
    return {
        "id": row.pk,
        "tenant": row.tenant.name,
        "registry": row.registry_id,
        "username": row.username,
        "changed_at": moment(row.changed_at),
        "changed_by": row.changed_by,
    }


class Volumes(ApiView):
    @describe("list_volumes", "cluster", {200: answers.VolumeList})
    def get(self, request: Request) -> Response:
        """The volumes that jobs of your tenants may mount, by tenant and name."""
        results: list[answers.Volume] = [
            {
                "name": row.name,
                "tenant": row.tenant.name,
                "vc": row.vc.name if row.vc else None,
                "mode": "rw" if row.writable else "ro",
            }
            for row in volumes_of(caller(request))
        ]
        return Response(answers.VolumeList(results=results, next=None))
