"""What tenants sign in with at registries of images. For managers; a password is in no answer."""

from __future__ import annotations

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, body_of, caller, describe
from muster.api.registries import bodies
from muster.common.clock import moment
from muster.common.rows import require_first
from muster.tenants.models import RegistryCredentials
from muster.tenants.registries import registries_managed_by, remove_registry, store_registry, tenant_managed_by
from muster_client.answers import tree as answers


class Registries(ApiView):
    @describe("list_registries", "account", {200: answers.RegistryList})
    def get(self, request: Request) -> Response:
        """Which registries the tenants that you manage have credentials for, by tenant and registry."""
        rows = registries_managed_by(caller(request))
        return Response(answers.RegistryList(results=[_shown(row) for row in rows], next=None))

    @describe("store_registry", "account", {200: answers.Registry}, problems=(404,), request=bodies.NewRegistry)
    def post(self, request: Request) -> Response:
        """Store what the tenant's jobs sign in with at a registry, in the place of what it had there. For managers."""
        user = caller(request)
        body = body_of(request, bodies.NewRegistry)
        tenant = tenant_managed_by(user, body.pop("tenant", None))
        return Response(_shown(store_registry(tenant=tenant, actor=user.username, **body)))


class OneRegistry(ApiView):
    @describe("remove_registry", "account", {204: None}, problems=(404,))
    def delete(self, request: Request, registry_id: int) -> Response:
        """Forget the credentials. What runs goes on. For managers."""
        user = caller(request)
        refusal = f"there are no credentials {registry_id} of a tenant that you manage"
        row = require_first(registries_managed_by(user).filter(pk=registry_id), refusal)
        remove_registry(credentials=row, actor=user.username)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _shown(row: RegistryCredentials) -> answers.Registry:
    return {
        "id": row.pk,
        "tenant": row.tenant.name,
        "registry": row.registry_id,
        "username": row.username,
        "changed_at": moment(row.changed_at),
        "changed_by": row.changed_by,
    }
