"""A gang's network interface on this node, by which the other ranks reach this one."""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import socket
import struct
from typing import Dict, Iterator, Optional, Tuple

from nodeagent.protocol.messages import LaunchSpec

_SIOCGIFCONF = 0x8912
_BUFFER_BYTES = 1 << 16
_NAME_BYTES = 16
_ENTRY_BYTES = _NAME_BYTES + struct.calcsize("PPP")  # an interface's name, and room for the longest kind of address


def gang_environment(spec: LaunchSpec) -> Dict[str, str]:
    """Variables of a rank that uses the node's own network; none for a job on one node or an unknown address.

    Gloo asks which address the host's name has, and that is loopback on many hosts: no other node could reach the rank.
    """
    addresses = spec.env.get("MUSTER_NODE_ADDRS", "").split(",")
    if spec.nodes <= 1 or spec.rank >= len(addresses):
        return {}
    interface = interface_of(addresses[spec.rank])
    return {"GLOO_SOCKET_IFNAME": interface} if interface else {}


def interface_of(address: str) -> Optional[str]:
    """The network interface of this machine that has the address; None for a name, or an address that is not ours."""
    try:
        wanted = ipaddress.ip_address(address)
        return next((name for name, known in (*_ipv4(), *_ipv6()) if known == wanted), None)
    except (ValueError, OSError):
        return None


def _ipv4() -> Iterator[Tuple[str, ipaddress.IPv4Address]]:
    """Every address of every interface that is up, from the kernel (netdevice(7))."""
    room = bytearray(_BUFFER_BYTES)
    where = (ctypes.c_char * len(room)).from_buffer(room)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, _SIOCGIFCONF, struct.pack("iP", len(room), ctypes.addressof(where)))
    (used,) = struct.unpack_from("i", answer)
    for begin in range(0, used, _ENTRY_BYTES):
        name = bytes(room[begin : begin + _NAME_BYTES]).split(b"\0", 1)[0].decode()
        raw = bytes(room[begin + _NAME_BYTES + 4 : begin + _NAME_BYTES + 8])
        yield name.partition(":")[0], ipaddress.IPv4Address(raw)


def _ipv6() -> Iterator[Tuple[str, ipaddress.IPv6Address]]:
    """The same of the other family, where the kernel has it."""
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as lines:
            for line in lines:
                address, *_, name = line.split()
                yield name, ipaddress.IPv6Address(bytes.fromhex(address))
    except FileNotFoundError:
        return
