"""System checks of settings that decide which address counts as the client's."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004


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
