"""Bases of all pages of the admin: only operators enter, every edit leaves an audit row, and a save writes no more
columns than were edited, because agents and cycles write the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.db.models import ForeignKey, Model, QuerySet
from django.forms import BaseModelFormSet, ModelForm
from django.http import HttpRequest, HttpResponseRedirect

from muster.common.errors import MusterError
from muster.events.services import audit

# The skin has no type hints; its classes are Django's with other templates. In the hints Django's are generic, and
# when the program runs they are not, unless they are told to be.
if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin
    TabularInline = admin.TabularInline
else:
    import unfold.admin
    from unfold.admin import TabularInline

    class ModelAdmin(unfold.admin.ModelAdmin):
        """The page of a model, above which a link leads to the document about it."""

        list_before_template = "admin/document.html"
        change_form_outer_before_template = "admin/document.html"

        @property
        def document(self) -> str:
            """The name of the document about this model."""
            return DOCUMENTS.get(self.opts.label_lower) or DOCUMENTS[self.opts.app_label]

    for plain in (ModelAdmin, TabularInline, forms.ModelForm, forms.ModelMultipleChoiceField, forms.BaseInlineFormSet):
        plain.__class_getitem__ = classmethod(lambda cls, _: cls)


__all__ = [
    "AuditedMixin",
    "ModelAdmin",
    "OperatorsMixin",
    "ReadOnlyMixin",
    "RecordsMixin",
    "RefusalsMixin",
    "TabularInline",
    "actor",
    "never",
    "state_of",
]

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
    "links": "operator/ssh",
    "notices": "user/notifications",
    "offers": "operator/offers",
    "sbatch": "operator/slurm",
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


def never(_page: object, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG001 (Django's names)
    """A permission that not even operators have."""
    return False


def _is_operator(_page: object, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG001
    return bool(getattr(request.user, "is_operator", False))


class OperatorsMixin:
    """Only operators may enter, and they may do everything that a page offers."""

    kept_fields: ClassVar[Sequence[str]] = ()
    """The fields of a new row that cannot be edited later, and those that only a stored row has."""
    add_form: Any = None
    add_fieldsets: Any = None
    """The form and the fields of a new row, where they are others than those of a stored one."""
    rows_below = ""
    """Of an inline, the related rows: one is there to be filled in while there are none, or for a new object."""

    has_module_permission = has_view_permission = has_add_permission = _is_operator
    has_change_permission = has_delete_permission = _is_operator

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = super().get_readonly_fields(request, obj)  # type: ignore[misc]
        return [*fields, *(self.kept_fields if obj is not None else ())]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return (obj is None and self.add_fieldsets) or super().get_fieldsets(request, obj)  # type: ignore[misc]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        new = {"form": self.add_form} if obj is None and self.add_form is not None else {}
        return super().get_form(request, obj, change=change, **new | kwargs)  # type: ignore[misc]

    def get_extra(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> int:
        if not self.rows_below:
            return int(super().get_extra(request, obj, **kwargs))  # type: ignore[misc]
        return 0 if obj is not None and getattr(obj, self.rows_below).exists() else 1

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Remove each of the rows as its page does, or none."""
        with transaction.atomic():
            for row in queryset:
                self.delete_model(request, row)  # type: ignore[attr-defined]


class ReadOnlyMixin(OperatorsMixin):
    """Operators may look, and nothing can be edited here."""

    has_add_permission = has_change_permission = has_delete_permission = never


class RecordsMixin(ReadOnlyMixin):
    """Rows that pile up: the newest first, and not all of them counted."""

    ordering: Any = ("-id",)
    list_per_page = 50
    show_full_result_count = False


class RefusalsMixin:
    """Shows refusals of the services on the page."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._told(super().changeform_view, request, *args, **kwargs)  # type: ignore[misc]

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._told(super().delete_view, request, *args, **kwargs)  # type: ignore[misc]

    def _told(self, view: Callable[..., Any], request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return view(request, *args, **kwargs)
        except MusterError as error:
            messages.error(request, error.detail)
            return HttpResponseRedirect(request.path)


class AuditedMixin(OperatorsMixin):
    """Every edit is written into the audit log, in the transaction that makes it."""

    # How the audit log calls the objects; by default the model's name.
    audit_type = ""

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm[Any], change: bool) -> None:
        _store(request, obj, form.changed_data if change else None, self.audit_type, self.reason_of(form))

    def reason_of(self, form: ModelForm[Any]) -> str:
        """The reason of the edit, for the audit log, where the form asks."""
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
        _remove(request, obj, self.audit_type)


def _store(request: HttpRequest, row: Model, names: Iterable[str] | None, audit_type: str, reason: str = "") -> None:
    """Insert the row, or update those of the named fields that are columns."""
    kind = audit_type or str(row._meta.model_name)
    if names is None:
        row.save(force_insert=True)
        audit("create", kind, row, actor=actor(request), after=state_of(row))
        return
    columns = _columns(row)
    edited = [name for name in names if name in columns]
    if not edited:
        return
    before = state_of(type(row)._default_manager.get(pk=row.pk), edited)
    row.save(update_fields=edited)
    after = state_of(row, edited) | ({"reason": reason} if reason else {})
    audit("change", kind, row, actor=actor(request), before=before, after=after)


def _remove(request: HttpRequest, row: Model, audit_type: str) -> None:
    kind = audit_type or str(row._meta.model_name)
    audit("delete", kind, row, actor=actor(request), before=state_of(row))
    row.delete()


def _columns(row: Model) -> set[str]:
    return {field.name for field in row._meta.concrete_fields if isinstance(field, models.Field)}
