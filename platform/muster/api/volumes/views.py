"""Volumes that the caller's jobs may mount."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, caller, describe
from muster.tenants.volumes import volumes_of
from muster_client.answers import tree as answers


class Volumes(ApiView):
    @describe("list_volumes", "cluster", {200: answers.VolumeList})
    def get(self, request: Request) -> Response:
        """Which volumes jobs of your tenants may mount, by tenant and name."""
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
