"""The files that jobs leave as JSON."""

from __future__ import annotations

from muster.common.clock import moment
from muster.outputs.models import OutputFile as FileRow
from muster_client.answers.outputs import OutputFile


def output_file(file: FileRow) -> OutputFile:
    """A file, with its attempt and rank."""
    return {
        "id": file.pk,
        "attempt": file.allocation.attempt.number,
        "rank": file.allocation.rank,
        "path": file.path,
        "size": file.size,
        "sha256": file.sha256 or None,
        "state": file.state,
        "at": moment(file.at),
    }
