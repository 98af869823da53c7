"""Asking for a shell in a running job."""

from __future__ import annotations

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.api import limits
from muster.api.base import ApiView, body_of, caller, describe, job_to_change
from muster.api.scopes import api_token_of
from muster.api.shells.bodies import NewShell
from muster.common.client_address import current_address
from muster.shells.services import Wanted, request_shell
from muster_client.answers.shells import OpenedShell


class JobShells(ApiView):
    @describe("open_shell", "jobs", {201: OpenedShell}, problems=(404, 409, 429), request=NewShell)
    def post(self, request: Request, job_id: int) -> Response:
        """Ask for a shell in a rank of the job; its bytes then go by its own token."""
        user = caller(request)
        job = job_to_change(request, job_id)
        limits.take(limits.SHELL, user.pk)
        shell, secret = request_shell(
            user=user,
            job=job,
            wanted=Wanted(**body_of(request, NewShell)),
            api_token=api_token_of(request),
            address=current_address(),
        )
        allocation = shell.allocation
        answer: OpenedShell = {
            "id": shell.pk,
            "job": shell.job_id,
            "attempt": allocation.attempt.number,
            "rank": allocation.rank,
            "node": allocation.node.name,
            "token": secret,
        }
        return Response(answer, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})
