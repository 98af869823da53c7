"""Running a command of Slurm."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.scopes import Scope
from muster.api import limits
from muster.api.base import ApiView, body_of, caller, describe
from muster.api.scopes import token_of
from muster.api.slurm.bodies import SlurmCall
from muster.common.errors import NotFound
from muster.slurm.call import Call
from muster.slurm.registry import COMMANDS, answer_to
from muster_client.answers.forecast import SlurmAnswer


class SlurmCommand(ApiView):
    @describe("slurm", "jobs", {200: SlurmAnswer}, problems=(404, 429), request=SlurmCall)
    def post(self, request: Request, name: str) -> Response:
        """Run a command of Slurm: squeue, scancel, sinfo, sacct or scontrol.

        What the command refuses is told by `exit_code` and `stderr`, as Slurm would tell it, with status 200.
        """
        user, body = caller(request), body_of(request, SlurmCall)
        if name not in COMMANDS:
            raise NotFound(f"there is no command {name}; there are {', '.join(COMMANDS)}")
        limits.take(limits.SUBMIT, user.pk)
        token = token_of(request)
        call = Call(
            user=user,
            arguments=tuple(body["arguments"]),
            environment=body["environment"],
            input=body["input"],
            folder=body["folder"],
            manages=token is None or Scope.MANAGE in token.scopes,
        )
        found = answer_to(name, call)
        answer: SlurmAnswer = {"stdout": found.stdout, "stderr": found.stderr, "exit_code": found.exit_code}
        return Response(answer)
