"""Names by which the ranks of a gang find each other in a named container network. Pure.

In the host's network ranks have the addresses of their nodes. In a container network the engine chooses an address
when the container starts, and other nodes do not know it; but the engine resolves container names. So each rank's
container gets a name that all ranks can compute from the attempt's fence and the rank. These names replace the
addresses that the platform sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Mapping

from nodeagent.protocol.messages import LaunchSpec

# Networks in which an engine gives containers no names: those that it has by itself, and ways to do without one.
_NAMELESS = frozenset(
    {"host", "none", "bridge", "default", "private", "slirp4netns", "pasta", "container", "ns", "podman", "nat"}
)
_OF_ONE_MACHINE = frozenset({"bridge", "macvlan", "ipvlan"})
# Beside an overlay network Docker gives a container another one, which NCCL would use as well and which leads nowhere.
INTERFACE = {"NCCL_SOCKET_IFNAME": "eth0"}
"""The interface for a rank that names no other. Gloo goes by the host's name, which leads to the right address."""
MASTERS = ("MASTER_ADDR", "PET_MASTER_ADDR")
"""The variables with the address at which the ranks of a gang meet."""
_LISTS = ("MUSTER_NODE_ADDRS", "SLURM_JOB_NODELIST", "SLURM_NODELIST")


@dataclass(frozen=True)
class Network:
    """An engine's view of one of its networks."""

    driver: str
    is_local: bool
    """True if the network exists on this machine alone."""
    has_names: bool
    """True if containers in it find each other by their names."""


def meets_by_names(spec: LaunchSpec, network: str) -> bool:
    """True if the ranks of a job are to find each other by names in this network."""
    return spec.nodes > 1 and network.partition(":")[0] not in _NAMELESS


def own_network(pool: str) -> str:
    """The name of a pool's own network, for its gangs where no operator has chosen another one."""
    return "muster-" + pool


def rank_name(fence: int, rank: int) -> str:
    """The name of a rank's container in the network of its gang."""
    return "muster-{}-{}".format(fence, rank)


def named_environment(spec: LaunchSpec) -> Dict[str, str]:
    """The variables that tell addresses, with names; a place to meet that the job itself has set stays as it is."""
    names = [rank_name(spec.fence, rank) for rank in range(spec.nodes)]
    told = spec.env.get("MASTER_ADDR")
    changed = {name: names[0] for name in MASTERS if told is not None and spec.env.get(name) == told}
    changed.update({name: ",".join(names) for name in _LISTS if name in spec.env})
    if "SLURMD_NODENAME" in spec.env:
        changed["SLURMD_NODENAME"] = names[spec.rank]
    return changed


def network_problem(name: str, network: Network, env: Mapping[str, str]) -> str:
    """The reason that ranks would not find each other in a network; empty if they would.

    No other machine hears an engine's answers in a network of this machine alone; agents with one address share a
    machine.
    """
    if not network.has_names:
        return "in the network {} of this node containers have no names, so ranks would not find each other".format(
            name
        )
    if network.driver not in _OF_ONE_MACHINE or not network.is_local:
        return ""
    if len(set(env.get("MUSTER_NODE_ADDRS", "").split(","))) == 1:
        return ""
    return (
        "the network {} of this node is a {}, in which other nodes do not know the names of its containers: "
        "an operator has to set the gang network of the pool to an overlay network, or to host"
    ).format(name, network.driver)
