"""The admin's pages of users, with the tenants that they belong to: without one, a user can submit nothing."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from muster.accounts.models import User
from muster.console.accounts import UserAdmin as AccountAdmin
from muster.console.base import OperatorsMixin, TabularInline
from muster.events.services import access_changed
from muster.tenants.models import Membership
from muster.tenants.roles import Role


class TenantInline(OperatorsMixin, TabularInline[Membership, User]):
    """The tenants of a user, and the role in each."""

    model = Membership
    verbose_name, verbose_name_plural = "tenant", "tenants"
    fields = ["tenant", "role"]
    rows_below = "memberships"


@admin.register(User)
class UserAdmin(AccountAdmin):
    """Users and where they belong."""

    list_display = ["username", "email", "belongs_to", "is_active", "operator", "uid", "last_login"]
    inlines = [TenantInline]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """The fields; of a new user with what a tenant is for."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is not None:
            return fieldsets
        explanation = "A user submits jobs in a tenant: choose one below. Without a tenant they can only sign in."
        return [(name, {**options, "description": explanation}) for name, options in fieldsets]

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("memberships__tenant")

    def save_formset(self, request: HttpRequest, form: forms.ModelForm[Any], formset: Any, change: bool) -> None:
        """Store the roles, and have open streams recheck the access of their callers."""
        super().save_formset(request, form, formset, change)
        access_changed()

    def response_add(self, request: HttpRequest, obj: User, post_url_continue: str | None = None) -> HttpResponse:
        """The answer, with a warning about a user who can do nothing yet."""
        if not obj.is_staff and not obj.memberships.exists():
            text = f"{obj.username} belongs to no tenant, and can submit no jobs. Add a tenant on the page of the user."
            self.message_user(request, text, messages.WARNING)
        return super().response_add(request, obj, post_url_continue)

    @admin.display(description="Tenants")
    def belongs_to(self, user: User) -> str:
        """By name; managers are marked."""
        rows = sorted(user.memberships.all(), key=lambda row: row.tenant.name)
        return ", ".join(row.tenant.name + (" (manager)" if row.role == Role.MANAGER else "") for row in rows)

    @admin.display(description="Operator", boolean=True, ordering="is_staff")
    def operator(self, user: User) -> bool:
        return user.is_staff
