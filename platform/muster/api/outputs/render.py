"""The files that jobs leave as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from muster.common.moments import moment
from muster.outputs.models import OutputFile
from muster.outputs.selectors import Summary

Json = dict[str, Any]


def output_file(file: OutputFile) -> Json:
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


def outputs_summary(summary: Summary) -> Json:
    """What is said of a job's files as a whole."""
    return asdict(summary) | {"kept_until": moment(summary.kept_until)}
