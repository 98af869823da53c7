"""The client's address, and the proxies that may name it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.api.checks import check_public_url, check_trusted_proxies
from muster.asgi import behind_proxies
from muster.common.client_address import parse_address
from muster.settings.env import BadSetting, default_gateway, trusted_proxies


def seen(proxies: list[str], peer: str, **headers: str) -> tuple[str, str]:
    """The address and the scheme that the application sees of a request from this peer."""
    found: list[tuple[str, str]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append((scope["client"][0], scope["scheme"]))

    scope = {
        "type": "http",
        "client": (peer, 1234),
        "scheme": "http",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    nothing: Any = None
    asyncio.run(behind_proxies(app, proxies)(scope, nothing, nothing))
    return found[0]


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "10.0.0.5"])
def test_without_trusted_proxies_forwarded_headers_are_ignored(peer: str) -> None:
    assert seen([], peer, x_forwarded_for="1.2.3.4", x_forwarded_proto="https") == (peer, "http")


@pytest.mark.parametrize("peer", ["10.0.0.5", "192.168.7.9"])
def test_a_trusted_proxy_names_the_client_and_the_scheme(peer: str) -> None:
    proxies = ["10.0.0.5", "192.168.7.0/24"]
    assert seen(proxies, peer, x_forwarded_for="1.2.3.4", x_forwarded_proto="https") == ("1.2.3.4", "https")


def test_what_a_client_claims_before_a_trusted_proxy_does_not_count() -> None:
    assert seen(["10.0.0.5"], "10.0.0.5", x_forwarded_for="9.9.9.9, 1.2.3.4") == ("1.2.3.4", "http")


def test_another_peer_is_not_believed() -> None:
    assert seen(["10.0.0.5"], "10.0.0.6", x_forwarded_for="1.2.3.4", x_forwarded_proto="https") == ("10.0.0.6", "http")


@pytest.mark.parametrize("value", ["*", "proxy.example.org", "10.0.0.0/33", "10.0.0.5/24"])
def test_a_value_that_names_no_network_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TRUSTED_PROXIES", value)
    with pytest.raises(BadSetting, match="MUSTER_TRUSTED_PROXIES"):
        trusted_proxies("")


@pytest.mark.parametrize(
    ("url", "proxies", "ids"),
    [
        ("http://127.0.0.1:8000", [], []),
        ("https://muster.test", ["10.0.0.5"], []),
        ("https://muster.test", [], ["muster.W001"]),
        ("https://muster.test", ["0.0.0.0/0", "::/0"], ["muster.E001", "muster.E001"]),
    ],
)
def test_the_system_check_explains_the_value(url: str, proxies: list[str], ids: list[str], settings: Any) -> None:
    settings.PUBLIC_URL, settings.TRUSTED_PROXIES = url, proxies
    assert [message.id for message in check_trusted_proxies(None)] == ids


ROUTES = """Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth1	000012AC	00000000	0001	0	0	0	0000FFFF	0	0	0
eth0	00000000	010013AC	0003	0	0	0	00000000	0	0	0
"""


def test_the_gateway_is_that_of_the_default_route() -> None:
    assert default_gateway(ROUTES) == "172.19.0.1"
    assert default_gateway(ROUTES.rpartition("eth0")[0]) is None


@pytest.mark.parametrize(
    ("bind", "named", "trusted"),
    [
        ("127.0.0.1", "", ["172.19.0.1"]),
        ("127.0.0.1", "10.0.0.5", ["10.0.0.5"]),
        ("0.0.0.0", "", []),
        ("192.0.2.7", "", []),
        ("", "", []),
    ],
)
def test_the_gateway_is_trusted_only_where_no_other_machine_comes_from_it(
    bind: str, named: str, trusted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_TRUSTED_PROXIES", named)
    monkeypatch.setattr(Path, "read_text", lambda path: ROUTES)
    assert trusted_proxies(bind) == trusted


@pytest.mark.parametrize(
    ("bind", "url", "ids"),
    [
        ("", "http://127.0.0.1:8000", []),
        ("127.0.0.1", "http://127.0.0.1:8000", []),
        ("0.0.0.0", "http://127.0.0.1:8000", ["muster.W002"]),
        ("::", "http://localhost:8000", ["muster.W002"]),
        ("0.0.0.0", "http://gpu.example.org:8000", []),
    ],
)
def test_a_published_port_without_a_public_address_is_explained(
    bind: str, url: str, ids: list[str], settings: Any
) -> None:
    settings.BIND, settings.PUBLIC_URL = bind, url
    assert [message.id for message in check_public_url(None)] == ids


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("", None),
        (None, None),
        ("testclient", None),
    ],
)
def test_an_address_has_one_form(text: str | None, address: str | None) -> None:
    assert parse_address(text) == address
