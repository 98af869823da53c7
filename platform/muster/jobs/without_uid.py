"""Which jobs ran while their user had no uid."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max

from muster.events.models import AuditEntry
from muster.jobs.models import Allocation


@dataclass(frozen=True, slots=True)
class RunsWithoutUid:
    """The jobs of one user on one node; `last_at` is when the node's agent claimed the last one."""

    username: str
    uid: int
    node: str
    jobs: int
    last_job: int
    last_at: datetime


def runs_without_uid() -> list[RunsWithoutUid]:
    """The jobs that agents started before their user was given a uid, by user and node.

    Nodes in whose runtime no job is root are among them: which runtime and which account an agent had is not recorded.
    """
    found = []
    for entry in AuditEntry.objects.filter(action="assign_uid", object_type="user", before={"uid": None}).order_by(
        "pk"
    ):
        rows = (
            Allocation.objects.filter(attempt__job__owner__username=entry.object_id, claimed_at__lt=entry.at)
            .values("node__name")
            .annotate(jobs=Count("attempt__job", distinct=True), last_job=Max("attempt__job"), at=Max("claimed_at"))
            .order_by("node__name")
        )
        uid = (entry.after or {})["uid"]
        found += [
            RunsWithoutUid(entry.object_id, uid, row["node__name"], row["jobs"], row["last_job"], row["at"])
            for row in rows
        ]
    return found
