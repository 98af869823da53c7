"""The admin's forms of tenants, their members and their quotas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.forms import BaseInlineFormSet
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from muster.accounts.models import User
from muster.accounts.services import create_user
from muster.common.errors import Conflict, Invalid
from muster.console import base  # noqa: F401  (makes Django's form classes generic)
from muster.fleet.models import Pool
from muster.tenants import edits
from muster.tenants.caps import NAMES, caps_from
from muster.tenants.models import Cap, CommonQuota, Membership, Organisation, Quota, Tenant, VirtualCluster
from muster.tenants.selectors import Capacity, capacity_of
from muster.tenants.services import (
    cells_problem,
    create_virtual_cluster,
    set_quota,
)

_QUOTA = "quota__"


class TreeNodeForm(forms.ModelForm[Any]):
    """A node of the tree of tenants. The page brings back the version that it showed, as a PATCH of REST does."""

    loaded_version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is not None:
            self.initial["loaded_version"] = self.instance.version
            self.fields["loaded_version"].required = True

    def clean_weight(self) -> float:
        """The weight, by the rule of REST."""
        try:
            return edits.weight_of(self.cleaned_data, self.instance)
        except Invalid as error:
            raise ValidationError(error.errors[0].message) from error

    def clean(self) -> dict[str, Any]:
        """Lock the row, and refuse an edit of a version that another person has changed meanwhile."""
        values = dict(super().clean() or {})
        row = self.instance
        if row.pk is None or values.get("loaded_version") is None:
            return values
        if isinstance(row, Organisation):
            try:
                edits.require_no_cycle(row, values.get("parent"))
            except Invalid as error:
                self.add_error("parent", error.errors[0].message)
        edits.lock_pools(
            [row.pool_id] if isinstance(row, VirtualCluster) else Pool.objects.values_list("pk", flat=True)
        )
        try:
            edits.locked(type(row), row.pk, version=values["loaded_version"])
        except Conflict as error:
            raise ValidationError(error.detail) from error
        return values


class QuotaForm(forms.ModelForm[Quota]):
    """One quota. `static/muster/quota.js` shows the pool's capacity while the user types."""

    class Meta:
        model = Quota
        fields = ["gpu_type", "gpus", "borrowing", "lending"]


class QuotaFormSet(BaseInlineFormSet[Quota, VirtualCluster, forms.ModelForm[Quota]]):
    """Quotas that the pool can keep, all at once with those of its other virtual clusters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        vc = self.instance
        capacities = _capacities() if vc.pk is None else {vc.pool: capacity_of(vc.pool_id, without=vc.pk)}
        stored = set() if vc.pk is None else {quota.gpu_type for quota in vc.quotas.all()}
        self._choices, self._capacities = _type_choices(capacities, stored), _as_attribute(capacities)

    def add_fields(self, form: forms.ModelForm[Quota], index: int | None) -> None:
        """Offer the pool's types; what the pool does not have is refused by `clean`, which says what it has."""
        super().add_fields(form, index)
        _offer_types(form, self._choices, self._capacities)

    def clean(self) -> None:
        """Refuses a quota with the reason, at its own row."""
        super().clean()
        vc = self.instance
        if vc.pool_id is None:
            return
        # Two operators who edit quotas of one pool must not each see the other's old values.
        edits.lock_pools([vc.pool_id])
        goes = any(form.instance.pk and form.cleaned_data.get("DELETE") for form in self.forms)
        if goes and (problem := cells_problem(vc)):
            raise ValidationError(problem)  # a form whose row goes shows no errors of its own
        kept = _kept(self.forms, QuotaForm.Meta.fields)
        with _reporting(kept):
            edits.changed_quotas(vc, _limits(kept))


class CommonQuotaForm(forms.ModelForm[CommonQuota]):
    """GPUs of one type in a pool that an organisation or a tenant is promised itself."""

    class Meta:
        model = CommonQuota
        fields = ["pool", "gpu_type", "gpus", "borrowing", "lending"]


class CommonQuotaFormSet(BaseInlineFormSet[CommonQuota, Any, forms.ModelForm[CommonQuota]]):
    """Quotas of an organisation or a tenant that its pools can keep."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        group = self.instance if self.instance.pk else None
        pools = Pool.objects.order_by("name")
        capacities = {pool: capacity_of(pool.pk, without_group=group) for pool in pools}
        stored = {quota.gpu_type for quota in group.quotas.all()} if group else set()
        self._choices, self._capacities = _type_choices(capacities, stored), _as_attribute(capacities)

    def add_fields(self, form: forms.ModelForm[CommonQuota], index: int | None) -> None:
        """Offer the types of all pools; `clean` refuses what the pool of the row does not have."""
        super().add_fields(form, index)
        _offer_types(form, self._choices, self._capacities)

    def clean(self) -> None:
        """Refuses a quota with the reason, at its own row."""
        super().clean()
        kept = _kept(self.forms, CommonQuotaForm.Meta.fields)
        pools = edits.lock_pools({form.cleaned_data["pool"].pk for form in kept})
        rows = [{**row, "pool": form.cleaned_data["pool"].name} for form, row in zip(kept, _limits(kept), strict=True)]
        with _reporting(kept):
            edits.changed_common_quotas(self.instance, pools.values(), rows)


class CapForm(forms.ModelForm[Cap]):
    """A cap on one member, on each with a role, or on each member."""

    class Meta:
        model = Cap
        fields = ["user", "role", *NAMES]


class CapFormSet(BaseInlineFormSet[Cap, Tenant, forms.ModelForm[Cap]]):
    """The caps of a tenant."""

    def add_fields(self, form: forms.ModelForm[Cap], index: int | None) -> None:
        """Offer the members of the tenant."""
        super().add_fields(form, index)
        user, role = form.fields["user"], form.fields["role"]
        user.queryset = User.objects.filter(memberships__tenant=self.instance).order_by("username")  # type: ignore[attr-defined]
        user.empty_label = "any member"  # type: ignore[attr-defined]
        role.choices = [("", "any role"), *(pair for pair in role.choices if pair[0])]  # type: ignore[attr-defined]

    def clean(self) -> None:
        """Refuses a cap with the reason, at its own row."""
        super().clean()
        kept = _kept(self.forms, CapForm.Meta.fields)
        rows = [
            {
                **{name: form.cleaned_data[name] for name in NAMES},
                "user": form.cleaned_data["user"] and form.cleaned_data["user"].username,
                "role": form.cleaned_data["role"] or None,
            }
            for form in kept
        ]
        with _reporting(kept):
            caps_from(self.instance, rows)


class MemberForm(forms.ModelForm[Membership]):
    """A member: a user of the platform, or a new one, who gets a free uid and can sign in and submit at once."""

    username = forms.CharField(
        max_length=150,
        required=False,
        label="or a new user",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
    )
    password = forms.CharField(
        strip=False,
        required=False,
        label="Password of the new user",
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
    )

    class Meta:
        model = Membership
        fields = ["user", "role"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["user"].required = False

    def clean(self) -> dict[str, Any]:
        """Either a user or the name and the password of a new one, each checked as on the page of users."""
        values = dict(super().clean() or {})
        name = values.get("username", "").strip()
        if bool(name) == bool(values.get("user")):
            if not self.errors and (name or self.has_changed()):
                self.add_error("user", "Choose a user, or name a new one." + " Not both." * bool(name))
            return values
        if name:
            self._check_new_user(User(username=name), values.get("password", ""))
        return values

    def _check_new_user(self, user: User, password: str) -> None:
        try:
            user.full_clean(exclude={"password", "uid"})
        except ValidationError as error:
            self.add_error("username", error.messages)
        try:
            validate_password(password, user)
        except ValidationError as error:
            self.add_error("password", error.messages)


class MemberFormSet(BaseInlineFormSet[Membership, Tenant, forms.ModelForm[Membership]]):
    """Members of a tenant, some of whom are users that the same form makes."""

    def clean(self) -> None:
        """Refuses two new users of one name."""
        super().clean()
        seen: set[str] = set()
        for form in self.forms:
            name = getattr(form, "cleaned_data", {}).get("username", "").strip()
            if name in seen:
                form.add_error("username", f"{name} is named twice.")
            seen.add(name or " ")

    def create_users(self, *, actor: str) -> None:
        """Store the new users, so that their memberships can be stored."""
        for form in self.forms:
            name = form.cleaned_data.get("username", "").strip()
            if name:
                form.instance.user = create_user(username=name, password=form.cleaned_data["password"], actor=actor)


class AddTenantForm(TreeNodeForm):
    """A new tenant, and if a pool is chosen its virtual cluster with quotas. `add_tenant_form` adds their fields."""

    pool = forms.ModelChoiceField(
        Pool.objects.order_by("name"),
        required=False,
        empty_label="No virtual cluster yet",
        widget=UnfoldAdminSelectWidget,
        help_text="Members can submit jobs once their tenant has a virtual cluster.",
    )
    vc_name = forms.CharField(
        max_length=63,
        required=False,
        label="Name of the virtual cluster",
        widget=UnfoldAdminTextInputWidget,
        help_text="Empty: the name of the tenant.",
    )

    class Meta:
        model = Tenant
        exclude: list[str] = []

    def clean(self) -> dict[str, Any]:
        """Refuses a virtual cluster or a quota that cannot be stored, at its field."""
        values = dict(super().clean() or {})
        if values.get("pool") is not None and values.get("name"):
            self._check_virtual_cluster(values)
        return values

    @transaction.atomic
    def create_virtual_cluster(self, *, actor: str) -> None:
        """Store the virtual cluster of the stored tenant with its quotas, if a pool was chosen."""
        values = self.cleaned_data
        if values["pool"] is None:
            return
        name = values["vc_name"] or self.instance.name
        vc = create_virtual_cluster(tenant=self.instance, pool=values["pool"], name=name, actor=actor)
        for row in self._quotas(values):
            set_quota(vc=vc, **row, actor=actor)

    def _check_virtual_cluster(self, values: Mapping[str, Any]) -> None:
        pool = Pool.objects.select_for_update(no_key=True).get(pk=values["pool"].pk)
        vc = VirtualCluster(pool=pool, name=values["vc_name"] or values["name"])
        try:
            vc.full_clean(exclude={"tenant"})
        except ValidationError as error:
            self.add_error("vc_name", error.messages)
        quotas = self._quotas(values)
        try:
            edits.changed_quotas(vc, quotas)
        except Invalid as error:
            for index, _, message in _told(error):
                self.add_error(_QUOTA + quotas[index]["gpu_type"], message)

    def _quotas(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The quotas that were entered, as REST takes them."""
        entered = {name.removeprefix(_QUOTA): gpus for name, gpus in values.items() if name.startswith(_QUOTA) and gpus}
        return [{"gpu_type": gpu_type, "gpus": gpus} for gpu_type, gpus in entered.items()]


def add_tenant_form() -> type[AddTenantForm]:
    """The form with a quota field for each GPU type of each pool."""
    capacities = _capacities()
    fields = {
        _QUOTA + name: forms.IntegerField(
            min_value=0,
            required=False,
            label=f"Quota of {name} (GPUs)",
            widget=UnfoldAdminIntegerFieldWidget(
                attrs={"data-quota-of": _as_attribute(capacities), "data-gpu-type": name}
            ),
        )
        for name in _types(capacities)
    }
    return type("AddTenantForm", (AddTenantForm,), fields)


def quota_fields() -> list[str]:
    """The names of the quota fields of `add_tenant_form`."""
    return [_QUOTA + name for name in _types(_capacities())]


def _capacities() -> dict[Pool, dict[str, Capacity]]:
    return {pool: capacity_of(pool.pk) for pool in Pool.objects.order_by("name")}


def _type_choices(capacities: Mapping[Pool, Mapping[str, Capacity]], stored: Iterable[str]) -> list[tuple[str, str]]:
    return [("", "Select a type"), *((name, name) for name in sorted({*_types(capacities), *stored}))]


def _offer_types(form: forms.ModelForm[Any], choices: Sequence[tuple[str, str]], capacities: str) -> None:
    """The types as a list, and what `quota.js` reads."""
    attrs = {"data-quota-type-of": capacities}
    form.fields["gpu_type"].widget = UnfoldAdminSelectWidget(attrs=attrs, choices=choices)
    form.fields["gpu_type"].label, form.fields["gpus"].label = "GPU type", "GPUs"
    form.fields["gpus"].widget.attrs["data-quota-of"] = capacities


def _kept(rows: Iterable[forms.ModelForm[Any]], needed: Sequence[str]) -> list[forms.ModelForm[Any]]:
    """The rows that stay and have these fields."""
    return [
        form
        for form in rows
        if all(name in form.cleaned_data for name in needed) and not form.cleaned_data.get("DELETE")
    ]


def _limits(rows: Iterable[forms.ModelForm[Any]]) -> list[dict[str, Any]]:
    """The quotas of the rows as REST takes them."""
    columns = {"gpu_type": "gpu_type", "gpus": "gpus", **edits.LIMITS}
    return [{name: form.cleaned_data[column] for name, column in columns.items()} for form in rows]


@contextmanager
def _reporting(rows: Sequence[forms.ModelForm[Any]]) -> Iterator[None]:
    """Show at its row what a check by REST's names refuses."""
    try:
        yield
    except Invalid as error:
        for index, name, message in _told(error):
            rows[index].add_error(edits.LIMITS.get(name, name) or None, message)


def _told(error: Invalid) -> Iterator[tuple[int, str, str]]:
    """The row, the field and the message of each error: `caps.1.gpus` is the second row's `gpus`."""
    for one in error.errors:
        _, index, *names = one.field.split(".")
        yield int(index), ".".join(names[:1]), one.message


def _types(capacities: Mapping[Pool, Mapping[str, Capacity]]) -> list[str]:
    return sorted({name for types in capacities.values() for name in types})


def _as_attribute(capacities: Mapping[Pool, Mapping[str, Capacity]]) -> str:
    """The capacities as `quota.js` reads them, by the id of the pool."""
    data = {
        pool.pk: {"name": pool.name, "types": {name: [one.total, one.promised] for name, one in types.items()}}
        for pool, types in capacities.items()
    }
    return json.dumps(data)
