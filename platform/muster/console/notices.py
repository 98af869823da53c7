"""Webhooks, to be read and to be disabled."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from muster.console.base import ModelAdmin, ReadOnlyMixin, actor
from muster.notices.addresses import BadUrl, read_url
from muster.notices.models import Webhook
from muster.notices.webhooks import disable_webhook, enable_webhook


@admin.register(Webhook)
class WebhookAdmin(ReadOnlyMixin, ModelAdmin[Webhook]):
    """Webhooks and their states. Of a URL the host is shown: paths can be secrets."""

    list_display = ["id", "user", "host", "disabled_at", "failures", "last_result", "last_success_at"]
    list_select_related = ["user"]
    search_fields = ["user__username"]
    ordering = ["-id"]
    exclude = ["sealed_secret", "url"]
    readonly_fields = ["host"]
    actions = ["disable", "enable"]

    @admin.display(description="Host")
    def host(self, webhook: Webhook) -> str:
        try:
            return read_url(webhook.url).host
        except BadUrl as error:
            return f"unreadable: {error}"

    @admin.action(description="Disable")
    def disable(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        for webhook in queryset:
            disable_webhook(webhook=webhook, reason="disabled by an operator", actor=actor(request))
        self.message_user(request, f"{len(queryset)} webhooks are disabled.")

    @admin.action(description="Enable")
    def enable(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        for webhook in queryset:
            enable_webhook(webhook=webhook, actor=actor(request))
        self.message_user(request, f"{len(queryset)} webhooks are enabled.")
