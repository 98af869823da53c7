"""The files that jobs leave as JSON."""

from __future__ import annotations

from muster.common.clock import moment
from muster.outputs.models import OutputFile as FileRow
from muster.outputs.selectors import Summary
from muster_client.answers.outputs import OutputFile, OutputsSummary


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


def outputs_summary(summary: Summary) -> OutputsSummary:
    """What is said of a job's files as a whole."""
    return {
        "patterns": summary.patterns,
        "kept_files": summary.kept_files,
        "kept_bytes": summary.kept_bytes,
        "most_files": summary.most_files,
        "most_bytes": summary.most_bytes,
        "kept_until": moment(summary.kept_until),
        "pending": summary.pending,
        "lost": summary.lost,
        "unnamed": summary.unnamed,
        "cut_short": summary.cut_short,
    }
