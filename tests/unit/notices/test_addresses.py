"""Destinations of webhooks: URLs, and addresses that are refused."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.notices.addresses import BadUrl, Rules, read_networks, read_ports, read_url

STRICT = Rules(networks=(), ports=((80, 80), (443, 443), (1024, 65_535)))

NOT_PUBLIC = {
    "127.0.0.1": "loopback",
    "127.8.9.1": "loopback, another of its addresses",
    "::1": "loopback of IPv6",
    "0.0.0.0": "unspecified",
    "::": "unspecified of IPv6",
    "10.1.2.3": "private",
    "172.16.0.1": "private",
    "192.168.1.1": "private",
    "fd12:3456::1": "private of IPv6",
    "fec0::1": "private of IPv6, as it was once",
    "100.64.0.1": "shared by a provider's customers",
    "169.254.1.1": "link-local",
    "fe80::1": "link-local of IPv6",
    "fe80::1%eth0": "link-local with a zone",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast of IPv6",
    "255.255.255.255": "broadcast",
    "240.0.0.1": "reserved",
    "192.0.2.1": "for documents",
    "2001:db8::1": "for documents",
    "::ffff:127.0.0.1": "loopback, mapped",
    "::ffff:10.0.0.1": "private, mapped",
    "::127.0.0.1": "loopback, compatible",
    "2002:7f00:1::": "loopback by 6to4",
    "2002:a00:1::": "private by 6to4",
    "64:ff9b::7f00:1": "loopback by NAT64",
    "64:ff9b::a9fe:a9fe": "metadata by NAT64",
    "64:ff9b:1::808:808": "NAT64 of one network",
    "2001:0:5ef5:79fd::1": "Teredo",
    "169.254.169.254": "metadata",
    "fd00:ec2::254": "metadata of IPv6",
    "168.63.129.16": "metadata at a public address",
    "100.100.100.200": "metadata",
}


@pytest.mark.parametrize("text", NOT_PUBLIC, ids=NOT_PUBLIC.values())
def test_an_address_that_is_not_public_is_refused(text: str) -> None:
    assert STRICT.objection_to(ip_address(text))


@pytest.mark.parametrize("text", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_a_public_address_passes(text: str) -> None:
    assert STRICT.objection_to(ip_address(text)) == ""


@given(st.ip_addresses(v=4))
def test_what_an_address_carries_within_is_judged_as_it_is_itself(address) -> None:  # type: ignore[no-untyped-def]
    if not STRICT.objection_to(address):
        return
    number = int(address)
    for carrier in (0xFFFF << 32 | number, 0x2002 << 112 | number << 80 | 1, 0x64_FF9B << 96 | number, number):
        assert STRICT.objection_to(ip_address(carrier.to_bytes(16, "big")))


def test_operators_let_networks_of_theirs_pass_and_no_others() -> None:
    rules = Rules(networks=read_networks("10.1.0.0/16, ::1/128"), ports=STRICT.ports)
    assert rules.objection_to(ip_address("10.1.2.3")) == ""
    assert rules.objection_to(ip_address("::1")) == ""
    assert rules.objection_to(ip_address("10.2.2.3"))
    assert rules.objection_to(ip_address("127.0.0.1"))


def test_metadata_of_a_cloud_is_refused_even_in_a_network_that_passes() -> None:
    rules = Rules(networks=read_networks("0.0.0.0/0"), ports=STRICT.ports)
    assert rules.objection_to(ip_address("10.0.0.1")) == ""
    assert "metadata" in rules.objection_to(ip_address("169.254.169.254"))


def test_ports_are_single_or_ranges() -> None:
    rules = Rules(networks=(), ports=read_ports("443, 8000-8999"))
    assert [bool(rules.objection_to_port(port)) for port in (443, 8000, 8999, 25, 444, 9000)] == [
        False,
        False,
        False,
        True,
        True,
        True,
    ]


READ = {
    "https://hooks.example.org/T1/B2?x=1": ("https", "hooks.example.org", 443, "/T1/B2?x=1"),
    "http://Example.ORG": ("http", "example.org", 80, "/"),
    "http://example.org:8080/a": ("http", "example.org", 8080, "/a"),
    "http://[2606:4700::1111]:8443/": ("http", "2606:4700::1111", 8443, "/"),
    "https://xn--bcher-kva.example/": ("https", "xn--bcher-kva.example", 443, "/"),
    "http://8.8.8.8/x": ("http", "8.8.8.8", 80, "/x"),
    "http://example.org./": ("http", "example.org.", 80, "/"),
}


@pytest.mark.parametrize(("text", "parts"), READ.items())
def test_a_url_is_read_into_its_parts(text: str, parts: tuple[str, str, int, str]) -> None:
    target = read_url(text)
    assert (target.scheme, target.host, target.port, target.path) == parts


BAD = {
    "ftp://example.org/": "another scheme",
    "file:///etc/passwd": "a file",
    "gopher://example.org/": "another scheme",
    "//example.org/": "no scheme",
    "https:///path": "no host",
    "https://": "nothing",
    "example.org/path": "no scheme",
    "https://user@example.org/": "a user",
    "https://user:password@example.org/": "a password",
    "https://example.org@127.0.0.1/": "a host that looks like another",
    "https://example.org/#part": "a fragment",
    "http://2130706433/": "a decimal address",
    "http://0x7f000001/": "a hexadecimal address",
    "http://0177.0.0.1/": "an octal address",
    "http://127.1/": "an address with parts left out",
    "http://0x7f.0.0.1/": "a hexadecimal part",
    "http://127.0.0.1.5/": "too many parts",
    "http://127.0.0.01/": "a zero in front",
    "http://[fe80::1%25eth0]/": "a zone",
    "http://[::1": "half a bracket",
    "http://[localhost]/": "a name in brackets",
    "http://exa mple.org/": "a space",
    "http://example.org\\@127.0.0.1/": "a backslash",
    "http://example.org/\r\nX: y": "a line break",
    "http://ex%61mple.org/": "a percent sign in the host",
    "http://①②⑦.0.0.1/": "digits of another alphabet",
    "http://127。0。0。1/": "dots of another alphabet",
    "http://-example.org/": "a dash in front",
    "http://example..org/": "an empty label",
    "http://example.org:0/": "port 0",
    "http://example.org:99999/": "no port",
    "http://example.org:x/": "no number",
}


@pytest.mark.parametrize("text", BAD, ids=BAD.values())
def test_a_url_that_can_be_read_in_two_ways_or_goes_nowhere_is_refused(text: str) -> None:
    with pytest.raises(BadUrl):
        read_url(text)


@given(st.text(max_size=60))
def test_whatever_the_text_is_it_is_read_or_refused(text: str) -> None:
    for url in (text, f"http://{text}/", f"https://example.org:{text}"):
        try:
            target = read_url(url)
        except BadUrl:
            continue
        assert target.host.isascii()
        assert 0 < target.port < 65_536
        assert target.path.startswith("/")
