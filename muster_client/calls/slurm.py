"""The SDK's call of Slurm's commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from muster_client.calls.transport import Transport

if TYPE_CHECKING:
    from muster_client.answers.forecast import SlurmAnswer


class SlurmCalls:
    """The call of a client that runs a command of Slurm."""

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
