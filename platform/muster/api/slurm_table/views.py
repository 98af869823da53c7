"""The table of Slurm's words, for operators."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api.base import ApiView, body_of, describe, operator
from muster.api.slurm_table.bodies import TableChange
from muster.common.clock import moment
from muster.common.errors import FieldError, Invalid
from muster.sbatch.edits import as_text, edit_table
from muster.sbatch.models import SlurmTable
from muster.sbatch.selectors import newest_table
from muster_client.answers.forecast import SlurmWords
from scheduler.documents import load_yaml

SEE_TABLE = "see and change the table of Slurm's words"


class Words(ApiView):
    @describe("get_slurm_table", "cluster", {200: SlurmWords})
    def get(self, request: Request) -> Response:
        """The partitions, accounts and qualities of service of scripts, and the folders in which they run in place.
        For operators."""
        operator(request, SEE_TABLE)
        return Response(_shown(newest_table()))

    @describe("change_slurm_table", "cluster", {200: SlurmWords}, problems=(409,), request=TableChange)
    def put(self, request: Request) -> Response:
        """Replace the table, from the next script on; `version` is that of the table that you read. For operators."""
        user, body = operator(request, SEE_TABLE), body_of(request, TableChange)
        try:
            row = edit_table(text=as_text(body["table"]), version=body["version"], actor=user.username)
        except Invalid as error:
            inside = [
                FieldError("table" if one.field == "table" else f"table.{one.field}", one.message)
                for one in error.errors
            ]
            raise Invalid.fields(inside) from error
        return Response(_shown(row))


def _shown(row: SlurmTable) -> SlurmWords:
    table = load_yaml(row.text)
    return {
        "version": row.version,
        "table": table if isinstance(table, dict) else {},
        "changed_by": row.author or None,
        "changed_at": moment(row.created_at if row.version else None),
    }
