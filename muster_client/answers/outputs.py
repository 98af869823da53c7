"""The files that jobs leave."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.terms import Moment, OutputFileState


class OutputFile(TypedDict):
    """A file that a rank left, and whether it is here; `state` says why not."""

    id: Annotated[int, "The file's number."]
    attempt: Annotated[int, "The number of the attempt that left it."]
    rank: Annotated[int, "The rank that left it."]
    path: Annotated[str, "Below the working folder."]
    size: Annotated[int, "Bytes."]
    sha256: Annotated[str | None, "Null until all of it is here."]
    state: Annotated[OutputFileState, "`kept` if its bytes are stored, else why they are not."]
    at: Annotated[Moment, "When the platform learned of the file."]


class OutputsSummary(TypedDict):
    """What can be said of a job's files as a whole."""

    patterns: Annotated[list[str], "`outputs` of the spec."]
    kept_files: Annotated[int, "Files that are stored or arriving."]
    kept_bytes: Annotated[int, "Bytes of these files together."]
    most_files: Annotated[int, "How many files of a job are kept."]
    most_bytes: Annotated[int, "How many bytes of a job are kept."]
    kept_until: Annotated[Moment | None, "Null: the job has not ended."]
    pending: Annotated[int, "Ranks of the latest attempt whose files are still to come."]
    lost: Annotated[int, "Ranks whose node was lost with what they left."]
    unnamed: Annotated[int, "Files that were left out and are not in the list."]
    cut_short: Annotated[bool, "Some rank's folder held more than could be looked at."]


class OutputFilePage(TypedDict):
    """A page of files: the latest attempt first, each by rank and path."""

    results: Annotated[list[OutputFile], "The files of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]
    summary: Annotated[OutputsSummary, "The job's files as a whole."]


class Upload(TypedDict):
    """A stored code archive."""

    sha256: Annotated[str, "The SHA-256 of the archive, for `code.upload` of a job spec."]
    size: Annotated[int, "Bytes."]
