"""The index of what jobs printed; the bytes themselves are files."""

from __future__ import annotations

from django.db import models

from muster.common.models import DatabaseNow, unique
from muster.jobs.models import Allocation, Attempt


class LogHead(models.Model):
    """Bytes that all ranks of an attempt wrote, holes included: there the next chunk in their order begins."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, primary_key=True, related_name="log_head")
    position = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"log of attempt {self.pk}"


class LogFile(models.Model):
    """The log of one rank. `size` counts every byte that the rank wrote so far, holes included."""

    allocation = models.OneToOneField(Allocation, on_delete=models.CASCADE, primary_key=True, related_name="log_file")
    size = models.BigIntegerField(default=0)
    holes = models.JSONField(default=list, help_text="Byte ranges [from, to) that were given up.")
    segment_bytes = models.PositiveIntegerField(db_default=4 << 20, help_text="How much of the log one file holds.")
    finished_at = models.DateTimeField(null=True)
    complete = models.BooleanField(null=True, help_text="Whether the stored bytes have the digest the agent stated.")

    def __str__(self) -> str:
        return f"log of allocation {self.pk}"


class LogChunk(models.Model):
    """Bytes [offset, offset + size) of a rank, in the order in which they were accepted over all ranks."""

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="log_chunks")
    position = models.BigIntegerField()
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="log_chunks")
    offset = models.BigIntegerField()
    size = models.PositiveIntegerField()
    crc32 = models.BigIntegerField()
    stored_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        constraints = [
            unique("log_chunk_position", ["attempt", "position"]),
            unique("log_chunk_offset", ["allocation", "offset"]),
        ]

    def __str__(self) -> str:
        return f"{self.size} bytes at {self.offset} of allocation {self.allocation_id}"
