"""Allowed targets of webhooks: the reading of a URL, and the judgement of an address, for each connection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PLAIN = re.compile(r"[!-~]+")

# Addresses at which clouds serve the credentials of a machine. Most of them are link-local; the others look public.
_METADATA: frozenset[Address] = frozenset(
    ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")
)
_NAT64 = ip_network("64:ff9b::/96")
_NAT64_LOCAL = ip_network("64:ff9b:1::/48")
_COMPATIBLE = ip_network("::/96")
_TRANSLATED = ip_network("::ffff:0:0:0/96")


class BadUrl(ValueError):
    """The URL cannot be a webhook's; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL; the connection uses them, so that the text is parsed only once."""

    scheme: str
    host: str
    port: int
    path: str
    """With the query."""

    @property
    def literal(self) -> Address | None:
        """The address, if the host is one and no name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's exceptions: networks that are not public, and ports as pairs of the first and the last."""

    networks: tuple[Network, ...]
    ports: tuple[tuple[int, int], ...]

    def objection_to_port(self, port: int) -> str:
        """The reason why the port may not be used; empty if it may."""
        return "" if any(first <= port <= last for first, last in self.ports) else f"port {port} is not allowed here"

    def objection_to(self, address: Address) -> str:
        """The reason why nothing may be sent to the address; empty if it may.

        An address that carries another one within it is judged by both. Networks that the operator allows pass,
        except where clouds give away the credentials of a machine.
        """
        for one in (address, *_within(address)):
            if one in _METADATA:
                return f"{address} is an address of a cloud's metadata"
            if not _is_public(one) and not self._allows(address):
                return f"{address} is not a public address"
        return ""

    def _allows(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.networks)


def read_url(text: str) -> Target:
    """The parts of a webhook's URL; raises `BadUrl` for all that two programs might read in two ways."""
    if not _PLAIN.fullmatch(text) or "\\" in text:
        raise BadUrl("write it in printable ASCII without spaces and backslashes; names of other alphabets as xn--…")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadUrl(f"it is not a URL: {error}") from error
    if parts.scheme not in PORTS:
        raise BadUrl("it must start with https:// or http://")
    if "@" in parts.netloc:
        raise BadUrl("leave out a name or password: it would show wherever the URL shows")
    if parts.fragment or text.endswith("#"):
        raise BadUrl("leave out the part behind #: it is never sent")
    if port == 0:
        raise BadUrl("port 0 is no port")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, _host(parts), port or PORTS[parts.scheme], path)


def read_networks(text: str) -> tuple[Network, ...]:
    """The networks of a list with commas; raises `ValueError` for one that is none."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def read_ports(text: str) -> tuple[tuple[int, int], ...]:
    """The ports and ranges of a list with commas, such as `80,443,8000-8999`; raises `ValueError`."""
    found = []
    for part in (part.strip() for part in text.split(",")):
        first, dash, last = part.partition("-")
        pair = int(first), int(last if dash else first)
        if not 0 < pair[0] <= pair[1] < 65_536:
            raise ValueError(f"{part!r} are no ports")
        found.append(pair)
    return tuple(found)


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if parts.netloc.startswith("["):
        if "%" in host:
            raise BadUrl("an address with a zone is of one machine only")
        try:
            return str(IPv6Address(host))
        except ValueError as error:
            raise BadUrl(f"{host[:60]!r} is not an IPv6 address") from error
    labels = host.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # 2130706433, 0x7f.1, 0177.0.0.1 and 127.1 are ways to write 127.0.0.1 that not every program knows.
        try:
            return str(IPv4Address(host))
        except ValueError as error:
            raise BadUrl("write an IPv4 address as four decimal numbers") from error
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadUrl(f"{host[:60]!r} is not a host name")
    return host


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address in _NAT64:
        return True  # as public as the IPv4 address within it, which is judged beside it
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    )


def _within(address: Address) -> list[Address]:
    """IPv4 addresses that packets to this IPv6 address may end up at."""
    if isinstance(address, IPv4Address):
        return []
    found: list[Address | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in (_NAT64, _COMPATIBLE, _TRANSLATED)):
        found.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address in _NAT64_LOCAL:
        # The position of the address depends on the prefix length, which is unknown: refuse it.
        found.append(IPv4Address("0.0.0.0"))  # noqa: S104 (an address to be refused)
    return [one for one in found if one is not None]
