"""Admin pages: roles to edit, frameworks and offers to read."""

from __future__ import annotations

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from muster.console.base import AuditedMixin, ModelAdmin, ReadOnlyMixin, RecordsMixin
from muster.events.services import wake_pool
from muster.offers.models import Framework, Offer, Role


@admin.register(Role)
class RoleAdmin(AuditedMixin, ModelAdmin[Role]):
    """Parts of virtual clusters that are offered to outside schedulers."""

    list_display = ["name", "vc", "weight", "revocable"]
    list_filter = ["vc__pool", "vc__tenant", "revocable"]
    list_select_related = ["vc"]
    search_fields = ["name", "vc__name"]
    ordering = ["name"]
    fields = ["name", "vc", "weight", "revocable"]
    kept_fields = ["name", "vc"]  # frameworks use the name, and their jobs are in the cluster

    def save_model(self, request: HttpRequest, obj: Role, form: forms.ModelForm[Role], change: bool) -> None:
        """Store the role; the next cycle makes offers by it."""
        super().save_model(request, obj, form, change)
        wake_pool(obj.vc.pool_id)


@admin.register(Framework)
class FrameworkAdmin(ReadOnlyMixin, ModelAdmin[Framework]):
    """The frameworks of each role."""

    list_display = ["id", "role", "user", "needs", "registered_at", "seen_at"]
    list_filter = ["role"]
    list_select_related = ["role", "user"]
    ordering = ["-id"]


@admin.register(Offer)
class OfferAdmin(RecordsMixin, ModelAdmin[Offer]):
    """The offers and how they ended."""

    list_display = ["id", "framework", "node", "state", "gpu_count", "cpus", "made_at", "expires_at", "ended_at"]
    list_filter = ["state", "framework__role", "node__pool"]
    list_select_related = ["framework__role", "framework__user", "node"]

    @admin.display(description="GPUs")
    def gpu_count(self, offer: Offer) -> int:
        return len(offer.gpu_ids)
