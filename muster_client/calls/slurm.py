"""The SDK's calls of Slurm's commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from muster_client.calls.transport import Transport, new_idempotency_key

if TYPE_CHECKING:
    from muster_client.answers.forecast import SlurmAnswer, SubmittedScript


class SlurmCalls:
    """The calls of a client that run commands of Slurm."""

    _http: Transport

    def slurm(
        self,
        command: str,
        arguments: Sequence[str] = (),
        *,
        environment: Mapping[str, str] | None = None,
        stdin: str = "",
        folder: str = "",
    ) -> SlurmAnswer:
        """Return the output of squeue, scancel, sinfo, sacct or scontrol with these arguments.

        The environment has the variables `SLURM_*`, `SQUEUE_*` and the like, which set options, and `TZ`.
        """
        body = {"arguments": list(arguments), "environment": dict(environment or {}), "input": stdin, "folder": folder}
        return cast("SlurmAnswer", self._http.document("POST", f"/slurm/{command}", json_body=body))

    def submit_script(
        self,
        script: str,
        *,
        name: str = "sbatch",
        options: Sequence[str] = (),
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        folder: str = "",
        host: str = "",
        zone: str = "",
        code: str = "",
        idempotency_key: str | None = None,
    ) -> SubmittedScript:
        """Submit a script with `#SBATCH` directives, and return the answer of sbatch with the number of the job.

        `folder`: where it is submitted; the job runs there if the nodes have it too, with the environment, else with
        `code`, the digest of an uploaded archive. However often the request is sent, it submits once.
        """
        body = {
            "script": script,
            "script_name": name,
            "arguments": list(options),
            "script_arguments": list(arguments),
            "environment": dict(environment or {}),
            "folder": folder,
            "host": host,
            "zone": zone,
            "code": code,
        }
        headers = {"Idempotency-Key": idempotency_key or new_idempotency_key()}
        answer = self._http.document("POST", "/slurm/sbatch", json_body=body, headers=headers, repeatable=True)
        return cast("SubmittedScript", answer)
