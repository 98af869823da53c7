"""Versions of the operators' rules: a version never changes, and the version put into force last applies."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models, transaction

from muster.common.errors import Conflict
from muster.common.models import DatabaseNow
from muster.events.services import audit

MAX_TEXT_CHARS = 200_000


class RuleVersion(models.Model):
    """One version of all rules of a kind.

    `preview` is what the version would change for past failures, computed when it was drafted.
    """

    id = models.BigAutoField(primary_key=True)
    text = models.TextField(blank=True, max_length=MAX_TEXT_CHARS)
    note = models.CharField(max_length=200, blank=True, default="", help_text="What is new in it.")
    preview = models.JSONField(default=dict, editable=False)
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
    """The id and the text of the version in force; None if no version was ever put into force."""
    put = kind._default_manager.filter(in_force_at__isnull=False).order_by("-in_force_at")
    return put.values_list("pk", "text").first()


def text_in_force(kind: type[V]) -> str:
    """The text of the rules in force; empty if there are none."""
    found = in_force(kind)
    return found[1] if found else ""


def draft(kind: type[V], *, text: str, note: str, preview: dict[str, object], actor: str) -> V:
    """Store a new version that is not in force; the caller has validated its text and made its preview."""
    with transaction.atomic():
        version = kind._default_manager.create(text=text, note=note, author=actor, preview=preview)
        after = {"text": text, "note": note}
        audit("create", actor=actor, object_type=kind.audit_type, object_id=version.pk, after=after)
    return version


def put_into_force(version: RuleVersion, *, actor: str) -> None:
    """Apply this version, which may be an older one, from now on.

    Raises:
        Conflict: this version is in force already.
    """
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
