"""Versions of rules that operators write: a version never changes, and the one put into force last counts."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models, transaction

from muster.common.errors import Conflict
from muster.common.models import DatabaseNow
from muster.events.services import audit

LONGEST_TEXT = 200_000


class RuleVersion(models.Model):
    """One version of all rules of a kind, as they were written."""

    id = models.BigAutoField(primary_key=True)
    text = models.TextField(blank=True, max_length=LONGEST_TEXT)
    note = models.CharField(max_length=200, blank=True, default="", help_text="What is new in it.")
    trial = models.JSONField(default=dict, editable=False)
    author = models.CharField(max_length=200, editable=False)
    created_at = models.DateTimeField(db_default=DatabaseNow())
    in_force_at = models.DateTimeField(null=True, editable=False)

    audit_type = ""
    """What the audit log calls these rules."""

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"version {self.pk}"


V = TypeVar("V", bound=RuleVersion)


def in_force(kind: type[V]) -> tuple[int, str] | None:
    """The id and the text of the version that counts; None as long as none was put into force."""
    put = kind._default_manager.filter(in_force_at__isnull=False).order_by("-in_force_at")
    return put.values_list("pk", "text").first()


def text_in_force(kind: type[V]) -> str:
    """The rules as they are in force; empty where there are none."""
    found = in_force(kind)
    return found[1] if found else ""


def draft(kind: type[V], *, text: str, note: str, trial: dict[str, object], actor: str) -> V:
    """A new version, not yet in force; whoever calls has checked and tried it."""
    with transaction.atomic():
        version = kind._default_manager.create(text=text, note=note, author=actor, trial=trial)
        after = {"text": text, "note": note}
        audit("create", actor=actor, object_type=kind.audit_type, object_id=version.pk, after=after)
    return version


def put_into_force(version: RuleVersion, *, actor: str) -> None:
    """Let this version count from now on, also an older one; `Conflict` for the one that does."""
    kind = type(version)
    with transaction.atomic():
        found = in_force(kind)
        if found is not None and found[0] == version.pk:
            raise Conflict(f"version {version.pk} is in force already")
        kind._default_manager.filter(pk=version.pk).update(in_force_at=DatabaseNow())
        before: dict[str, Any] = {"version": found[0] if found else None}
        audit(
            "put_into_force",
            actor=actor,
            object_type=kind.audit_type,
            object_id=version.pk,
            before=before,
            after={"version": version.pk},
        )
