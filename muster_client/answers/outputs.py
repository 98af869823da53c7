"""The files that jobs leave."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.terms import Moment, OutputFileState


class OutputFile(TypedDict):
    """An output file of a rank, and whether it is stored; `state` says why not."""

    id: Annotated[int, "The file's number."]
    attempt: Annotated[int, "The number of the attempt that left it."]
    rank: Annotated[int, "The rank that left it."]
    path: Annotated[str, "The path below the working folder."]
    size: Annotated[int, "The size in bytes."]
    sha256: Annotated[str | None, "The SHA-256 of the file; null until it is stored."]
    state: Annotated[OutputFileState, "`kept` if its bytes are stored, else why they are not."]
    at: Annotated[Moment, "When the platform learned of the file."]


class OutputsSummary(TypedDict):
    """A summary of a job's files."""

    patterns: Annotated[list[str], "The patterns in `outputs` of the spec."]
    kept_files: Annotated[int, "Files that are stored or arriving."]
    kept_bytes: Annotated[int, "Bytes of these files together."]
    most_files: Annotated[int, "The most files that the platform keeps of a job."]
    most_bytes: Annotated[int, "The most bytes that the platform keeps of a job."]
    kept_until: Annotated[Moment | None, "When its files are deleted; null: the job has not ended."]
    pending: Annotated[int, "Ranks of the latest attempt whose files have not arrived yet."]
    lost: Annotated[int, "Ranks whose files were lost with their node."]
    unnamed: Annotated[int, "The number of files that were left out and are not in the list."]
    cut_short: Annotated[bool, "Whether a rank's folder had too many files to look at all."]


class OutputFilePage(TypedDict):
    """A page of files: the latest attempt first, each by rank and path."""

    results: Annotated[list[OutputFile], "The files of this page."]
    next: Annotated[str | None, "The cursor of the next page; null on the last page."]
    summary: Annotated[OutputsSummary, "The job's files as a whole."]


class Upload(TypedDict):
    """A stored code archive."""

    sha256: Annotated[str, "The SHA-256 of the archive, for `code.upload` of a job spec."]
    size: Annotated[int, "The size in bytes."]
