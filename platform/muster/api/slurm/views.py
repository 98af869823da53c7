"""Running a command of Slurm."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.scopes import Scope
from muster.api import limits
from muster.api.base import ApiView, body_of, caller, describe
from muster.api.jobs.views import KEY, idempotency_key
from muster.api.scopes import calling_job, token_of
from muster.api.slurm import render
from muster.api.slurm.bodies import SlurmCall, SlurmScript
from muster.common.errors import NotFound
from muster.slurm.call import Call
from muster.slurm.registry import COMMANDS, answer_to
from muster.slurm.sbatch import Script, sbatch
from muster_client.answers.forecast import SlurmAnswer, SubmittedScript


class SubmitScript(ApiView):
    @describe(
        "submit_script",
        "jobs",
        {200: SubmittedScript},
        problems=(404, 409, 429),
        request=SlurmScript,
        parameters=[KEY],
    )
    def post(self, request: Request) -> Response:
        """Submit a script with `#SBATCH` directives, as sbatch does: a job, or with `--array` an array.

        What Slurm would refuse is told by `exit_code` and `stderr`, with status 200. A script in a folder that the
        nodes share runs there, with the environment of its submitter; any other in the uploaded folder. One that a job
        submits gets the code of that job if it names no other.
        """
        user, body = caller(request), body_of(request, SlurmScript)
        limits.take(limits.SUBMIT, user.pk)
        environment = body["environment"]
        zone = {"TZ": body["zone"]} if body["zone"] else {}
        call = Call(user, tuple(body["arguments"]), {**environment, **zone}, folder=body["folder"])
        script = Script(
            text=body["script"],
            name=body["script_name"],
            arguments=tuple(body["script_arguments"]),
            environment=environment,
            host=body["host"],
            code=body["code"],
        )
        found = sbatch(call, script, inside=calling_job(request), key=idempotency_key(request))
        return Response(render.submitted(found))


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
        return Response(render.answer(found))
