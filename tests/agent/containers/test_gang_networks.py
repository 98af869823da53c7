"""Ranks in a network of their own, whose nodes no rank can reach: what real engines make of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.container.options import Options
from nodeagent.runtime.port import LaunchError
from tests import engines
from tests.agent.conftest import KeptForker, RuntimeUnderTest, runtime_under_test, stop_everything
from tests.waiting import eventually

NAME = f"muster-test-{os.getpid()}"  # workers of a run share an engine
POOL = f"pool-{os.getpid()}"
OWN = f"muster-{POOL}"
UNREACHABLE = "192.0.2.77"  # RFC 5737: reserved for documentation
FENCE = 40


def gang(rank: int, addresses: str = f"{UNREACHABLE},{UNREACHABLE}") -> dict[str, object]:
    """The platform's values for one of two ranks."""
    master = {"MASTER_ADDR": UNREACHABLE, "PET_MASTER_ADDR": UNREACHABLE, "MASTER_PORT": "29507"}
    env = {**master, "MUSTER_NODE_ADDRS": addresses}
    return {"nodes": 2, "rank": rank, "fence": FENCE, "gang_network": NAME, "env": env}


@pytest.fixture(params=["bridge", "overlay"])
def docker_network(request: pytest.FixtureRequest) -> Iterator[str]:
    """The socket of a Docker that has such a network; overlay where this machine can."""
    socket = engines.docker_socket_apart()
    client = docker.APIClient(base_url=f"unix://{socket}", version="auto")
    driver = str(request.param)
    try:
        if driver == "overlay":
            client.init_swarm(advertise_addr="127.0.0.1", listen_addr="127.0.0.1")
        client.create_network(NAME, driver=driver, attachable=driver == "overlay")
    except docker.errors.APIError as error:
        client.close()
        pytest.skip(f"no {driver} network can be made here: {error}")
    yield socket
    client.remove_network(NAME)
    if driver == "overlay":
        client.leave_swarm(force=True)
    client.close()


def test_ranks_meet_at_the_first_of_them_though_it_comes_last(
    docker_network: str, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    made = runtime_under_test("docker", tmp_path / "state", forkers, Options(network="none"), socket=docker_network)
    meet = 'until said=$(wget -q -O - "http://$MASTER_ADDR:$MASTER_PORT/hello"); do sleep 0.1; done 2>/dev/null'
    # What Gloo listens at is what the host's name leads to, and has to be what the others are told.
    same = 'nslookup "$MASTER_ADDR" | grep -c "Address: ${said##* }$"'
    second = made.start(f"{meet}; echo ${{said% *}}; hostname; {same}", **gang(1))
    eventually((made.folder(second) / "shim.json").exists, "the second rank")
    hello = 'echo "hello from $PET_MASTER_ADDR $(hostname -i)" >hello; httpd -p "$MASTER_PORT"'
    # The first one has its name until it ends, so it waits for the other to have looked.
    first = made.start(f'{hello}; until [ -e met ]; do sleep 0.1; done; echo "$MUSTER_NODE_ADDRS"', **gang(0))
    assert made.exit(second, 60).reason is EndReason.COMPLETED
    assert made.output(second) == f"hello from muster-{FENCE}-0\nmuster-{FENCE}-1\n1\n".encode()
    (made.folder(first) / "work" / "met").touch()
    assert made.exit(first).reason is EndReason.COMPLETED
    assert made.output(first) == f"muster-{FENCE}-0,muster-{FENCE}-1\n".encode()
    stop_everything(made.runtime)


@pytest.mark.parametrize("docker_network", ["bridge"], indirect=True)
def test_a_rank_that_waits_for_the_first_can_be_stopped(
    docker_network: str, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    made = runtime_under_test("docker", tmp_path / "state", forkers, Options(network="none"), socket=docker_network)
    number = made.start("echo ran", **gang(1))
    eventually(lambda: made.runtime.observe(number).phase.name == "RUNNING", "its container")
    made.runtime.stop(number, "TERM", 20.0)
    assert made.exit(number).signal == 15
    assert made.output(number) == b""
    stop_everything(made.runtime)


@pytest.mark.parametrize("docker_network", ["bridge"], indirect=True)
def test_a_network_of_one_machine_is_refused_for_nodes_on_several(
    docker_network: str, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    made = runtime_under_test("docker", tmp_path / "state", forkers, Options(network="none"), socket=docker_network)
    refused_with(made, "is a bridge, in which other nodes do not know", addresses=f"{UNREACHABLE},192.0.2.78")
    stop_everything(made.runtime)


@pytest.fixture(params=["bridge", "overlay"])
def own_network(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The socket of a Docker without a network for the pool, and the kind that its agents make; overlay in a swarm."""
    socket, driver = engines.docker_socket_apart(), str(request.param)
    client = docker.APIClient(base_url=f"unix://{socket}", version="auto")
    if driver == "overlay":
        client.init_swarm(advertise_addr="127.0.0.1", listen_addr="127.0.0.1")
    yield socket, driver
    if client.networks(names=[OWN]):
        client.remove_network(OWN)
    if driver == "overlay":
        client.leave_swarm(force=True)
    client.close()


def unset(rank: int, addresses: str) -> dict[str, object]:
    """The values of a rank in a pool whose operator has chosen no network."""
    return {**gang(rank, addresses), "gang_network": "", "pool": POOL}


def test_a_gang_of_one_machine_meets_in_a_network_of_its_pool_and_not_in_the_machines(
    own_network: tuple[str, str], tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    socket, driver = own_network
    made = runtime_under_test("docker", tmp_path / "state", forkers, Options(network="none"), socket=socket)
    assert made.runtime.labels()["gang-network"] == f"own {driver}"
    one_machine = f"{UNREACHABLE},{UNREACHABLE}"
    serve = 'echo hello >hello; httpd -p "$MASTER_PORT"; until [ -e met ]; do sleep 0.1; done; cat /proc/net/dev'
    first = made.start(serve, **unset(0, one_machine))
    meet = 'until wget -q -O - "http://$MASTER_ADDR:$MASTER_PORT/hello"; do sleep 0.1; done 2>/dev/null'
    second = made.start(meet, **unset(1, one_machine))
    assert made.exit(second, 60).reason is EndReason.COMPLETED
    assert made.output(second) == b"hello\n"
    (made.folder(first) / "work" / "met").touch()
    assert made.exit(first).reason is EndReason.COMPLETED
    assert b"eth0:" in made.output(first)
    assert b"br-" not in made.output(first)  # the bridge is an interface of the machine
    stop_everything(made.runtime)


@pytest.mark.parametrize("own_network", ["bridge"], indirect=True)
def test_a_gang_of_several_machines_is_refused_where_no_operator_has_chosen_a_network(
    own_network: tuple[str, str], tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    made = runtime_under_test("docker", tmp_path / "state", forkers, Options(network="none"), socket=own_network[0])
    several = unset(0, f"{UNREACHABLE},192.0.2.78")
    with pytest.raises(
        LaunchError, match="an operator has to set the gang network of the pool to an overlay"
    ) as caught:
        made.start("true", **several)
    assert caught.value.reason is EndReason.SPEC_REFUSED
    _, output = made.run("cat /proc/net/dev", **{**several, "gang_network": "host"})
    assert b"br-" in output
    stop_everything(made.runtime)


def refused_with(made: RuntimeUnderTest, detail: str, **fields: str) -> None:
    with pytest.raises(LaunchError, match=f"^nodes: .*{detail}") as caught:
        made.start("true", **gang(0, **fields))
    assert caught.value.reason is EndReason.SPEC_REFUSED


@pytest.fixture
def podman_network() -> Iterator[bool]:
    """A network of Podman's: whether containers have names in it."""
    environment = engines.podman_environment()

    def podman(*arguments: str) -> str:
        command = ["podman", "network", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    podman("create", NAME)
    yield bool(json.loads(podman("inspect", NAME))[0]["dns_enabled"])
    podman("rm", NAME)


def test_podman_runs_a_gang_in_a_network_with_names_and_refuses_it_in_one_without(
    podman_network: bool, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    made = runtime_under_test("podman", tmp_path / "state", forkers, Options(network="none"))
    if podman_network:
        _, output = made.run('hostname; nslookup "$MASTER_ADDR" >/dev/null && echo found', **gang(0))
        assert output == f"muster-{FENCE}-0\nfound\n".encode()
    else:
        refused_with(made, "containers have no names")
    stop_everything(made.runtime)
