"""Users, with the tenants that they belong to: without one, a user can submit nothing. And their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import UsernameField
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from muster.accounts.models import ApiToken, User
from muster.accounts.services import end_by_new_password, revoke_token
from muster.accounts.uids import free_uid, validate_gids
from muster.common.errors import MusterError
from muster.console.base import AuditedMixin, ModelAdmin, OperatorsMixin, ReadOnlyMixin, TabularInline, actor, never
from muster.events.services import access_changed, audit
from muster.tenants.models import Membership
from muster.tenants.roles import Role

if TYPE_CHECKING:
    from django.contrib.auth.forms import AdminPasswordChangeForm as DjangoPasswordChangeForm
    from django.contrib.auth.forms import AdminUserCreationForm
    from django.contrib.auth.forms import UserChangeForm as DjangoUserChangeForm

    UserCreationForm = AdminUserCreationForm[User]
    UserChangeForm = DjangoUserChangeForm[User]
    AdminPasswordChangeForm = DjangoPasswordChangeForm[User]
    UserPage = DjangoUserAdmin[User]
else:
    from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

    UserPage = DjangoUserAdmin

# Rights are roles in a tenant and the one mark of operators; groups would be a second, unused way.
admin.site.unregister(Group)


class FreeUidMixin:
    """Takes a free uid where the field is empty. The page's transaction holds it until the user is stored."""

    cleaned_data: dict[str, Any]

    def clean_uid(self) -> int:
        """The uid that was written, or a free one."""
        uid: int | None = self.cleaned_data["uid"]
        if uid is not None:
            return uid
        try:
            return free_uid()
        except MusterError as error:
            raise forms.ValidationError(error.detail) from error


class AddUserForm(FreeUidMixin, UserCreationForm):
    """A new user, with a password: there is no other way to sign in."""

    usable_password = None  # type: ignore[assignment]  # how Django leaves out a field of the base

    class Meta:
        model = User
        fields = ("username",)
        field_classes = {"username": UsernameField}


class EditUserForm(FreeUidMixin, UserChangeForm):
    """A user's data."""

    class Meta:
        model = User
        fields = "__all__"
        field_classes = {"username": UsernameField}

    def clean_gids(self) -> object:
        """The list of groups. Django's own validation passes over an empty object."""
        gids: object = self.cleaned_data["gids"]
        validate_gids(gids)
        return gids


class PasswordForm(AdminPasswordChangeForm):
    """A new password of a user."""

    usable_password = None


class TenantInline(OperatorsMixin, TabularInline[Membership, User]):
    """The tenants of a user, and the role in each."""

    model = Membership
    verbose_name, verbose_name_plural = "tenant", "tenants"
    fields = ["tenant", "role"]
    rows_below = "memberships"


@admin.register(User)
class UserAdmin(AuditedMixin, UserPage, ModelAdmin[User]):
    """Users and where they belong. They are deactivated rather than deleted, because jobs keep their owners."""

    form = EditUserForm
    add_form = AddUserForm
    add_form_template = None
    change_password_form = PasswordForm
    list_display = ["username", "email", "belongs_to", "is_active", "operator", "uid", "last_login"]
    list_filter = ["is_active", "is_staff"]
    inlines = [TenantInline]
    search_fields = ["username", "email"]
    ordering = ["username"]
    filter_horizontal = []
    readonly_fields = ["last_login", "date_joined", "new_password"]
    fieldsets = [
        (None, {"fields": ["username", "new_password"]}),
        ("Person", {"fields": ["first_name", "last_name", "email"]}),
        ("Rights", {"fields": ["is_active", "is_staff"]}),
        ("On the nodes", {"fields": ["uid", "gids"]}),
        ("Dates", {"fields": ["last_login", "date_joined"]}),
    ]
    add_fieldsets = [(None, {"fields": ["username", "email", "password1", "password2", "is_staff", "uid"]})]
    actions = ["deactivate", "activate"]

    has_delete_permission = never

    @admin.display(description="Password")
    def new_password(self, user: User) -> str:
        """The link to set a new one. The stored hash is not shown."""
        page = reverse("admin:auth_user_password_change", args=[user.pk])
        return format_html('<a class="link" href="{}">Set a new password</a>', page)

    def response_add(self, request: HttpRequest, obj: User, post_url_continue: str | None = None) -> HttpResponse:
        """Back to the list, without Django's second form; a user who can do nothing yet is pointed out."""
        if not obj.is_staff and not obj.memberships.exists():
            text = f"{obj.username} belongs to no tenant, and can submit no jobs. Add a tenant on the page of the user."
            self.message_user(request, text, messages.WARNING)
        return ModelAdmin.response_add(self, request, obj, post_url_continue)

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

    @admin.display(description="Tenants")
    def belongs_to(self, user: User) -> str:
        """By name; managers are marked."""
        rows = sorted(user.memberships.all(), key=lambda row: row.tenant.name)
        return ", ".join(row.tenant.name + (" (manager)" if row.role == Role.MANAGER else "") for row in rows)

    @admin.display(description="Operator", boolean=True, ordering="is_staff")
    def operator(self, user: User) -> bool:
        return user.is_staff

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form, in which operators cannot shut themselves out."""
        form = super().get_form(request, obj, change=change, **kwargs)
        if "is_staff" in form.base_fields:
            form.base_fields["is_staff"].label = "Operator"
            form.base_fields["is_staff"].help_text = "May use the admin and see every tenant."
        if obj is not None and obj.pk == request.user.pk:
            for name in ("is_active", "is_staff"):
                form.base_fields[name].disabled = True
        return form

    def save_model(self, request: HttpRequest, obj: User, form: forms.ModelForm[User], change: bool) -> None:
        """Store the user; an operator is also what Django calls a superuser."""
        obj.is_superuser = obj.is_staff
        if change and "is_staff" in form.changed_data:
            form.changed_data.append("is_superuser")
        super().save_model(request, obj, form, change)
        access_changed()

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002
        """The page for a new password; that it was set is audited, and not what it is."""
        with transaction.atomic():
            response = super().user_change_password(request, id, form_url)
            if request.method == "POST" and response.status_code == 302:
                user = User.objects.get(pk=id)
                audit("set_password", "user", user.username, actor=actor(request))
                end_by_new_password(user=user, actor=actor(request))
        return response

    @admin.action(description="Deactivate: no login, tokens end to work")
    def deactivate(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Let the users in no more; what they have running goes on."""
        self._set_active(request, queryset.exclude(username=actor(request)), active=False)

    @admin.action(description="Activate again")
    def activate(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        self._set_active(request, queryset, active=True)

    def _set_active(self, request: HttpRequest, users: QuerySet[User], *, active: bool) -> None:
        with transaction.atomic():
            changed = list(users.filter(is_active=not active))
            User.objects.filter(pk__in=[user.pk for user in changed]).update(is_active=active)
            for user in changed:
                audit(
                    "activate" if active else "deactivate",
                    "user",
                    user.username,
                    actor=actor(request),
                    before={"is_active": not active},
                    after={"is_active": active},
                )
            access_changed()
        self.message_user(request, f"{len(changed)} users are {'active' if active else 'not active'} now.")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyMixin, ModelAdmin[ApiToken]):
    """Tokens by their first characters; the secrets are nowhere."""

    list_display = ["name", "prefix", "user", "created_at", "expires_at", "last_used_at", "revoked_at"]
    list_filter = ["revoked_at"]
    search_fields = ["name", "prefix", "user__username"]
    list_select_related = ["user"]
    ordering = ["-pk"]
    exclude = ["digest"]
    actions = ["revoke"]

    @admin.action(description="Revoke")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        for token in queryset.filter(revoked_at__isnull=True).select_related("user"):
            try:
                revoke_token(user=token.user, token_id=token.pk, actor=actor(request))
            except MusterError as error:
                self.message_user(request, f"{token}: {error.detail}", messages.ERROR)
            else:
                self.message_user(request, f"{token} is revoked.")
