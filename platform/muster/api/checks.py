"""System checks of settings that decide which address counts as the client's, and which one as the platform's."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004

from muster.settings.env import is_loopback


@register(Tags.security)
def check_trusted_proxies(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Explain a MUSTER_TRUSTED_PROXIES with which client addresses would be forged, or would all be the proxy's."""
    messages: list[CheckMessage] = [
        Error(
            f"MUSTER_TRUSTED_PROXIES contains {network}, which trusts every client to name any address as its own.",
            hint="Write the addresses of the proxies in front of the platform, such as 10.0.0.5.",
            id="muster.E001",
        )
        for network in settings.TRUSTED_PROXIES
        if ip_network(network).prefixlen == 0
    ]
    if settings.PUBLIC_URL.startswith("https://") and not settings.TRUSTED_PROXIES:
        messages.append(
            Warning(
                "MUSTER_URL is https, and MUSTER_TRUSTED_PROXIES names no proxy: sign-in limits count all clients as "
                "the proxy, and HSTS is not sent.",
                hint="Set MUSTER_TRUSTED_PROXIES to the address from which the proxy connects, such as 127.0.0.1.",
                id="muster.W001",
            )
        )
    return messages


@register()
def check_public_url(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Explain a MUSTER_URL with which browsers that reach the published port would be refused."""
    if not settings.BIND or is_loopback(settings.BIND) or not is_loopback(urlsplit(settings.PUBLIC_URL).hostname or ""):
        return []
    return [
        Warning(
            f"MUSTER_BIND is {settings.BIND}, but MUSTER_URL is {settings.PUBLIC_URL}: "
            "browsers on other machines are answered 400.",
            hint="Set MUSTER_URL to the address that they use, such as http://muster.example.org:8000.",
            id="muster.W002",
        )
    ]
