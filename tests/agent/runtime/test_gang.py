"""The network of its node in a rank's environment."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from nodeagent.protocol.messages import LaunchSpec
from nodeagent.runtime.process.runtime import job_environment
from nodeagent.runtime.shim.gang import gang_environment, interface_of
from nodeagent.runtime.shim.layout import AllocationFolder

ADDRESSES = {"MUSTER_NODE_ADDRS": "127.0.0.1,192.0.2.77,gpu3"}
SPEC = LaunchSpec(
    allocation_id=1, job_id=3, attempt=1, rank=0, fence=4, name="x", owner="ada", command="true", nodes=3, env=ADDRESSES
)
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_of_this_machine_has_an_interface(address: str) -> None:
    if address == "::1" and not _has_ipv6():
        pytest.skip("this kernel has no IPv6")
    assert interface_of(address) == "lo"


@pytest.mark.parametrize("address", ["192.0.2.77", "2001:db8::77", "localhost", "", "127.0.0.1.5"])
def test_what_is_no_address_of_this_machine_has_none(address: str) -> None:
    assert interface_of(address) is None


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(SPEC, LOOPBACK, id="its address is that of an interface"),
        pytest.param(replace(SPEC, rank=1), {}, id="its address is another machine's"),
        pytest.param(replace(SPEC, rank=2), {}, id="its address is a name"),
        pytest.param(replace(SPEC, rank=3), {}, id="it is not in the list"),
        pytest.param(replace(SPEC, env={}), {}, id="there is no list"),
        pytest.param(replace(SPEC, nodes=1), {}, id="it is alone"),
    ],
)
def test_a_rank_of_a_gang_is_told_its_interface(spec: LaunchSpec, expected: dict[str, str]) -> None:
    assert gang_environment(spec) == expected


def test_a_job_may_choose_another_interface() -> None:
    folder = AllocationFolder("/state/allocations/1")
    assert job_environment(SPEC, folder, "/w")["GLOO_SOCKET_IFNAME"] == "lo"
    chosen = replace(SPEC, env={**ADDRESSES, "GLOO_SOCKET_IFNAME": "ib0"})
    assert job_environment(chosen, folder, "/w")["GLOO_SOCKET_IFNAME"] == "ib0"
