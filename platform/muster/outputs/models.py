"""Output files of jobs and their states; the bytes themselves are files of our own."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.db.models import Q

from muster.common.models import DatabaseNow, check, choices, one_of, unique
from muster.jobs.models import Allocation, Job


class FileState(StrEnum):
    """Whether a file is here, and if not, why."""

    ARRIVING = "arriving"
    KEPT = "kept"
    TOO_LARGE = "too_large"
    OVER_LIMIT = "over_limit"
    NO_SPACE = "no_space"
    CHANGED = "changed"
    VANISHED = "vanished"
    BAD_NAME = "bad_name"
    NOT_A_FILE = "not_a_file"
    NOT_OWNED = "not_owned"
    TOO_DEEP = "too_deep"
    UNREADABLE = "unreadable"
    INCOMPLETE = "incomplete"
    MADE_ROOM = "made_room"
    EXPIRED = "expired"


HELD = (FileState.ARRIVING, FileState.KEPT)
"""The states in which there are bytes, which count against what a job may keep."""


class Collection(models.Model):
    """An agent's report about a rank's files as a whole."""

    allocation = models.OneToOneField(Allocation, on_delete=models.CASCADE, primary_key=True, related_name="outputs")
    finished_at = models.DateTimeField(null=True)
    more = models.PositiveIntegerField(default=0, help_text="Files that were left out and have no row.")
    cut_short = models.BooleanField(default=False, help_text="The folder held more than could be looked at.")

    def __str__(self) -> str:
        return f"files of allocation {self.pk}"


class OutputFile(models.Model):
    """A file that a rank left; its bytes lie under this row's number, never under its name."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="output_files")
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="output_files")
    path = models.CharField(max_length=1024)
    size = models.BigIntegerField(help_text="As the agent found it.")
    stored = models.BigIntegerField(default=0, help_text="Bytes that have come.")
    sha256 = models.CharField(max_length=64, default="")
    state = models.CharField(max_length=12, choices=choices(FileState))
    at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [
            one_of("state", FileState, name="output_file_state_known"),
            unique("output_file_path_once", ["allocation", "path"]),
            check("output_file_kept_is_whole", ~Q(state=FileState.KEPT) | (Q(stored=models.F("size")) & ~Q(sha256=""))),
        ]

    def __str__(self) -> str:
        return f"file {self.pk} of job {self.job_id}"
