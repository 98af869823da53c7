"""The networks of gangs' containers, from the pool's setting and the label `gang-network` of its nodes.

An agent that runs containers labels its node with its option `--gang-network`. Without the option the label is the
kind of network that the agent makes for its pool: `own bridge`, which is of one machine, or `own overlay`. The label is
empty where the agent runs processes.
"""

from __future__ import annotations

from muster.fleet.models import Node, Pool
from muster.fleet.runtimes import PROCESS
from scheduler.model.lifecycle import NodeAdmin

_LABEL = "gang-network"
_OWN_BRIDGE, _OWN_OVERLAY = "own bridge", "own overlay"


def host_network_reason(node: Node) -> str:
    """The setting that gives gangs in containers the network of the node's machine; empty if they have another one."""
    said = node.labels.get(_LABEL, "")
    if node.pool.gang_network == "host" and said in ("host", _OWN_BRIDGE, _OWN_OVERLAY):
        return f"the gang network of pool {node.pool.name} is host"
    if node.pool.gang_network == "" and said == "host":
        return f"the agent of {node.name} runs with --gang-network host"
    return ""


def lacks_gang_network(pool: Pool, *, in_containers: bool) -> bool:
    """Whether no gang can start in containers of the pool, as the containers of two nodes would not reach each other.

    That is so where neither the pool nor an agent names a network and no agent makes an overlay, unless agents have
    the same address: a bridge is enough on one machine.
    """
    if pool.gang_network:
        return False
    nodes = Node.objects.filter(pool=pool).exclude(admin=NodeAdmin.RETIRED)
    if not in_containers and nodes.filter(inventory__runtimes__contains=PROCESS).exists():
        return False
    said = [one for one in nodes.values_list(f"labels__{_LABEL}", "address") if one[0] != ""]
    addresses = {address for _, address in said if address}
    return len(said) > 1 and len(addresses) == len(said) and all(network == _OWN_BRIDGE for network, _ in said)
