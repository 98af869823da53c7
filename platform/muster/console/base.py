"""What all pages of the admin share: only operators enter, every edit leaves an audit row, and a save writes no more
columns than were edited, because agents and cycles write the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.db.models import ForeignKey, Model, QuerySet
from django.forms import BaseModelFormSet, ModelForm
from django.http import HttpRequest

from muster.events.services import audit

# The skin has no type hints; its classes are Django's with other templates. In the hints Django's are generic, and
# when the program runs they are not.
if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin
    TabularInline = admin.TabularInline
else:
    import unfold.admin

    class ModelAdmin(unfold.admin.ModelAdmin):
        """The page of a model, above which a link leads to the document about it."""

        list_before_template = "admin/document.html"
        change_form_outer_before_template = "admin/document.html"

        def __class_getitem__(cls, model: object) -> type:
            return cls

        @property
        def document(self) -> str:
            """The name of the document about this model."""
            return DOCUMENTS.get(self.opts.label_lower) or DOCUMENTS[self.opts.app_label]

    class TabularInline(unfold.admin.TabularInline):
        """The rows of another model on a model's page."""

        def __class_getitem__(cls, models: object) -> type:
            return cls


__all__ = ["AuditedMixin", "ModelAdmin", "OperatorsMixin", "ReadOnlyMixin", "TabularInline", "actor", "state_of"]

# By app; that of a model comes before that of its app.
DOCUMENTS = {
    "accounts": "operator/users",
    "dispatch.cycle": "design/architecture",
    "dispatch.lane": "operator/lanes",
    "dispatch.planner": "operator/planners",
    "dispatch.target": "operator/lanes",
    "events": "operator/troubleshooting",
    "events.outbox": "user/notifications",
    "events.restore": "operator/backup",
    "failures": "user/failures",
    "fleet": "operator/health",
    "fleet.maintenance": "operator/maintenance",
    "fleet.node": "operator/first-node",
    "fleet.pool": "operator/presets",
    "fleet.strike": "operator/strikes",
    "jobs": "reference/states",
    "links": "operator/agent",
    "notices": "user/notifications",
    "offers": "operator/offers",
    "screening": "user/screening-runs",
    "shells": "user/shell",
    "tenants": "operator/tenants",
    "tenants.registrycredentials": "user/registries",
    "tenants.volume": "user/volumes",
}

# Never written into the audit log, whatever the model.
SECRET_FIELDS = frozenset(
    {
        "password",
        "digest",
        "join_digest",
        "credential_digest",
        "sealed_key",
        "sealed_credential",
        "sealed_password",
        "sealed_secret",
    }
)


def actor(request: HttpRequest) -> str:
    """The name of the operator who sends the request."""
    return request.user.get_username()


def state_of(instance: Model, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The instance's columns as plain JSON, without secrets; related objects by their names."""
    wanted = None if names is None else set(names)
    state = {
        field.name: str(getattr(instance, field.name))
        if isinstance(field, ForeignKey)
        else field.value_from_object(instance)
        for field in instance._meta.concrete_fields
        if field.name not in SECRET_FIELDS and (wanted is None or field.name in wanted)
    }
    plain: dict[str, Any] = json.loads(json.dumps(state, cls=DjangoJSONEncoder))
    return plain


class OperatorsMixin:
    """Only operators may enter, and they may do everything that a page offers."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Whether the pages appear at all."""
        return _is_operator(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether rows can be looked at."""
        return _is_operator(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether rows can be added."""
        return _is_operator(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether rows can be edited."""
        return _is_operator(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether rows can be removed."""
        return _is_operator(request)


class ReadOnlyMixin(OperatorsMixin):
    """Operators may look, and nothing can be edited here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nothing is added by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nothing is edited by hand."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nothing is removed by hand."""
        return False


class AuditedMixin(OperatorsMixin):
    """Every edit is written into the audit log, in the transaction that makes it."""

    # How the audit log calls the objects; by default the model's name.
    audit_type = ""

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm[Any], change: bool) -> None:
        """Store what was edited."""
        _store(request, obj, form.changed_data if change else None, self.audit_type, self.reason_of(form))

    def reason_of(self, form: ModelForm[Any]) -> str:
        """Why it was edited, for the audit log, where the form asks."""
        return ""

    def save_formset(
        self, request: HttpRequest, form: ModelForm[Any], formset: BaseModelFormSet[Any, Any], change: bool
    ) -> None:
        """Store the edited rows of an inline: removals first, so that their names can be used again."""
        formset.save(commit=False)
        for row in formset.deleted_objects:
            _remove(request, row, "")
        for row, names in formset.changed_objects:
            _store(request, row, names, "")
        for row in formset.new_objects:
            _store(request, row, None, "")
        formset.save_m2m()

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Remove the row."""
        _remove(request, obj, self.audit_type)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Remove each of the rows, or none."""
        with transaction.atomic():
            for row in queryset:
                _remove(request, row, self.audit_type)


def _is_operator(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_operator", False))


def _store(request: HttpRequest, row: Model, names: Iterable[str] | None, audit_type: str, reason: str = "") -> None:
    """Insert the row, or update those of the named fields that are columns."""
    kind = audit_type or str(row._meta.model_name)
    if names is None:
        row.save(force_insert=True)
        audit("create", actor=actor(request), object_type=kind, object_id=row, after=state_of(row))
        return
    columns = _columns(row)
    edited = [name for name in names if name in columns]
    if not edited:
        return
    before = state_of(type(row)._default_manager.get(pk=row.pk), edited)
    row.save(update_fields=edited)
    after = state_of(row, edited) | ({"reason": reason} if reason else {})
    audit("change", actor=actor(request), object_type=kind, object_id=row, before=before, after=after)


def _remove(request: HttpRequest, row: Model, audit_type: str) -> None:
    kind = audit_type or str(row._meta.model_name)
    audit("delete", actor=actor(request), object_type=kind, object_id=row, before=state_of(row))
    row.delete()


def _columns(row: Model) -> set[str]:
    return {field.name for field in row._meta.concrete_fields if isinstance(field, models.Field)}
