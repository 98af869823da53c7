"""The plan of a container, decided without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.protocol.messages import EndReason, LaunchSpec
from nodeagent.protocol.volumes import CLOSED_TARGETS
from nodeagent.runtime.container.cdi import Device, Injection, injection, read_devices
from nodeagent.runtime.container.images import Doing, Progress, problem_of, qualified
from nodeagent.runtime.container.job import ending_of
from nodeagent.runtime.container.meeting import Network, network_problem
from nodeagent.runtime.container.options import Options
from nodeagent.runtime.container.plan import Plan, plan_of
from nodeagent.runtime.port import LaunchError
from nodeagent.runtime.shim.layout import AllocationFolder

SPEC = LaunchSpec(
    allocation_id=12, job_id=3, attempt=2, rank=1, fence=40, name="x", owner="ada", command="true", image="busybox"
)
UUID = "GPU-1b2c"


def planned(options: Options | None = None, **fields: Any) -> Plan:
    spec = LaunchSpec(**{**SPEC.__dict__, **fields})
    return plan_of(
        spec,
        AllocationFolder("/state/allocations/12"),
        agent="node1",
        options=options or Options(),
        uid=4321,
        gids=(777, 778),
        gpus=Injection(cdi=("nvidia.com/gpu=" + UUID,)),
    )


def test_a_plan_reads_back_as_it_was_written() -> None:
    plan = planned()
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_a_container_is_named_and_labelled_by_its_fence() -> None:
    plan = planned()
    assert plan.name == "muster-node1-12-40"
    assert plan.labels == {
        "muster.agent": "node1",
        "muster.job": "3",
        "muster.attempt": "2",
        "muster.rank": "1",
        "muster.allocation": "12",
        "muster.fence": "40",
    }


def test_nothing_of_the_host_is_mounted_but_the_allocations_own() -> None:
    assert all(mount.source.startswith("/state/allocations/12/") for mount in planned().mounts)


@pytest.mark.parametrize(
    ("pool", "node", "network"),
    [
        ("", "", "muster-main"),
        ("", "host", "host"),
        ("", "overlay1", "overlay1"),
        ("host", "", "host"),
        ("host", "host", "host"),
        ("host", "overlay1", "overlay1"),
        ("overlay1", "", "overlay1"),
        ("overlay1", "host", "overlay1"),
        ("overlay1", "overlay1", "overlay1"),
    ],
)
def test_a_gang_has_the_network_of_its_pool_where_the_node_allows_no_less(pool: str, node: str, network: str) -> None:
    assert planned(Options(gang_network=node), nodes=2, gang_network=pool, pool="main").network == network
    assert planned(Options(gang_network=node), nodes=1, gang_network=pool).network == "bridge"


@pytest.mark.parametrize(
    ("pool", "node", "detail"),
    [
        ("refuse", "host", "this pool runs no containers of jobs on several nodes"),
        ("refuse", "overlay1", "this pool"),
        ("host", "refuse", "this node runs no containers of jobs on several nodes"),
        ("overlay1", "refuse", "this node"),
        ("overlay1", "overlay2", "use the network overlay1, and this node allows overlay2 only"),
    ],
)
def test_a_gang_is_refused_where_pool_or_node_allows_none_of_its_networks(pool: str, node: str, detail: str) -> None:
    with pytest.raises(LaunchError, match=r"^nodes: ") as caught:
        planned(Options(gang_network=node), nodes=2, gang_network=pool)
    assert caught.value.reason is EndReason.SPEC_REFUSED
    assert detail in caught.value.detail
    assert planned(Options(gang_network=node), nodes=1, gang_network=pool).network == "bridge"


def test_the_agent_has_the_last_word_on_gpus() -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "7", "MUSTER_WORKDIR": "/etc", "LR": "0.1"}
    found = planned(env=env, gpu_uuids=(UUID,)).env
    assert (found["NVIDIA_VISIBLE_DEVICES"], found["CUDA_VISIBLE_DEVICES"]) == (UUID, UUID)
    assert (found["MUSTER_WORKDIR"], found["LR"]) == ("/workspace", "0.1")
    assert found["MUSTER_PROGRESS"] == found["HOME"] + "/.muster-progress" == "/muster/home/.muster-progress"
    assert planned(env=env).env["NVIDIA_VISIBLE_DEVICES"] == "void"


@pytest.mark.parametrize(
    ("workdir", "mounted", "starts_in"),
    [
        ("/workspace", "/workspace", "/workspace"),
        ("/opt//src/./", "/opt/src", "/opt/src"),
        ("a/b", "/workspace", "/workspace/a/b"),
    ],
)
def test_the_working_folder_is_where_the_spec_wants_it(workdir: str, mounted: str, starts_in: str) -> None:
    plan = planned(workdir=workdir)
    assert (plan.mounts[0].target, plan.workdir) == (mounted, starts_in)


@pytest.mark.parametrize(
    "workdir",
    [
        *("/", "//.", "/proc", "/sys/fs", "/dev", "/muster/x", "/tmp/x", "/a/../etc", "../x"),
        *("/etc", "/etc/ld.so.conf.d", "/run/x", "//run/./x", "/var//run/nvidia-container-devices/all"),
    ],
)
def test_a_working_folder_that_a_container_needs_is_refused(workdir: str) -> None:
    with pytest.raises(LaunchError, match=r"^workdir") as caught:
        planned(workdir=workdir)
    assert caught.value.reason is EndReason.SPEC_REFUSED


@pytest.mark.parametrize("closed", CLOSED_TARGETS)
def test_no_working_folder_lies_where_no_volume_may(closed: str) -> None:
    for workdir in (closed, closed + "/x"):
        with pytest.raises(LaunchError, match=f"{closed} is the container's own$"):
            planned(workdir=workdir)
    assert planned(workdir=closed + "-x").mounts[0].target == closed + "-x"


@pytest.mark.parametrize("workdir", ["/w,source=/etc", "/w:ro", '/w"x', "/w\\x"])
def test_a_working_folder_that_would_read_as_options_of_its_mount_is_refused(workdir: str) -> None:
    with pytest.raises(LaunchError, match=r"^workdir") as caught:
        planned(workdir=workdir)
    assert caught.value.reason is EndReason.SPEC_REFUSED


@pytest.mark.parametrize(
    ("nodes", "options", "network"),
    [
        (1, Options(), "bridge"),
        (1, Options(network="none"), "none"),
        (2, Options(), "muster-main"),
        (2, Options(gang_network="overlay1"), "overlay1"),
    ],
)
def test_the_network_follows_from_the_size_of_the_gang(nodes: int, options: Options, network: str) -> None:
    assert planned(options, nodes=nodes, pool="main").network == network


def test_a_rank_reaches_itself_in_its_own_network_and_others_by_their_address() -> None:
    env = {"MASTER_ADDR": "10.0.0.7", "PET_MASTER_ADDR": "10.0.0.7"}
    for name in env:
        assert planned(env=env).env[name] == "127.0.0.1"
        assert planned(Options(gang_network="host"), env=env, nodes=2).env[name] == "10.0.0.7"
        assert name not in planned().env


def test_a_rank_in_the_nodes_own_network_is_told_the_interface_of_its_address() -> None:
    gang = {"nodes": 2, "rank": 1, "env": {"MUSTER_NODE_ADDRS": "10.0.0.7,127.0.0.1"}}
    assert planned(Options(gang_network="host"), **gang).env["GLOO_SOCKET_IFNAME"] == "lo"
    assert "GLOO_SOCKET_IFNAME" not in planned(Options(gang_network="overlay1"), **gang).env


GANG = {
    "MASTER_ADDR": "10.0.0.7",
    "PET_MASTER_ADDR": "10.0.0.7",
    "MASTER_PORT": "29500",
    "MUSTER_NODE_ADDRS": "10.0.0.7,10.0.0.8",
}


@pytest.mark.parametrize(("pool", "node"), [("overlay1", "host"), ("", "overlay1")])
def test_ranks_in_a_network_of_its_own_meet_by_names_that_all_of_them_can_tell(pool: str, node: str) -> None:
    slurm = {"SLURM_NODELIST": "gpu1,gpu2", "SLURMD_NODENAME": "gpu2"}
    plans = [
        planned(
            Options(gang_network=node), nodes=2, rank=rank, allocation_id=rank, gang_network=pool, env={**GANG, **slurm}
        )
        for rank in range(2)
    ]
    assert [plan.alias for plan in plans] == ["muster-40-0", "muster-40-1"]
    for plan in plans:
        assert (plan.env["MASTER_ADDR"], plan.env["PET_MASTER_ADDR"]) == ("muster-40-0", "muster-40-0")
        assert plan.env["MUSTER_NODE_ADDRS"] == plan.env["SLURM_NODELIST"] == "muster-40-0,muster-40-1"
        assert (plan.env["MASTER_PORT"], plan.env["NCCL_SOCKET_IFNAME"]) == ("29500", "eth0")
    assert plans[1].env["SLURMD_NODENAME"] == "muster-40-1"
    # The first is there when it is there; the others wait for it.
    assert [plan.arguments[-1] for plan in plans] == ["", "muster-40-0"]


@pytest.mark.parametrize("network", ["host", "none", "bridge"])
def test_where_containers_have_no_names_addresses_stay_as_they_are(network: str) -> None:
    plan = planned(Options(gang_network=network), nodes=2, env=GANG)
    assert (plan.alias, plan.arguments[-1], "NCCL_SOCKET_IFNAME" in plan.env) == ("", "", False)
    assert {name: plan.env[name] for name in GANG} == GANG


def test_what_a_job_has_set_itself_stays() -> None:
    own = {"PET_MASTER_ADDR": "etcd.example.org", "NCCL_SOCKET_IFNAME": "ethwe"}
    env = planned(Options(gang_network="overlay1"), nodes=2, env={**GANG, **own}).env
    assert {name: env[name] for name in own} == own


@pytest.mark.parametrize(
    ("network", "addresses", "problem"),
    [
        (Network("overlay", is_local=False, has_names=True), "10.0.0.7,10.0.0.8", ""),
        (Network("weave", is_local=True, has_names=True), "10.0.0.7,10.0.0.8", ""),
        (Network("bridge", is_local=True, has_names=True), "10.0.0.7,10.0.0.7", ""),
        (Network("bridge", is_local=True, has_names=True), "10.0.0.7,10.0.0.8", "is a bridge, in which other nodes"),
        (Network("macvlan", is_local=True, has_names=True), "10.0.0.7,10.0.0.8", "is a macvlan, in which other nodes"),
        (Network("bridge", is_local=True, has_names=False), "10.0.0.7,10.0.0.7", "containers have no names"),
    ],
)
def test_a_network_in_which_ranks_cannot_find_each_other_is_named(
    network: Network, addresses: str, problem: str
) -> None:
    said = network_problem("net1", network, {"MUSTER_NODE_ADDRS": addresses})
    assert problem in said
    assert bool(problem) == said.startswith(("the network net1", "in the network net1"))


def test_a_gang_is_refused_where_the_operator_says_so() -> None:
    with pytest.raises(LaunchError, match=r"^nodes"):
        planned(Options(gang_network="refuse"), nodes=2)


NVIDIA = {UUID: Device("nvidia.com/gpu", UUID)}
OTHER = {UUID: Device("test.org/gpu", UUID, ("/dev/fake0",))}


@pytest.mark.parametrize(
    ("devices", "flags", "found"),
    [
        pytest.param(NVIDIA, "cdi hook", Injection(cdi=(f"nvidia.com/gpu={UUID}",)), id="by name where both know it"),
        pytest.param(NVIDIA, "hook", Injection(nvidia=(UUID,)), id="by the hook where the engine knows no names"),
        pytest.param({}, "cdi hook", Injection(nvidia=(UUID,)), id="by the hook where there is no spec"),
        pytest.param({}, "cdi hook emulated", Injection(), id="emulated ones have no device"),
        pytest.param(OTHER, "cdi emulated", Injection(cdi=(f"test.org/gpu={UUID}",)), id="unless a spec names it"),
        pytest.param(OTHER, "hook", Injection(nodes=("/dev/fake0",)), id="by its nodes where nothing else is known"),
    ],
)
def test_a_gpu_comes_in_by_the_best_way_there_is(devices: dict[str, Device], flags: str, found: Injection) -> None:
    words = flags.split()
    assert found == injection(
        (UUID,), devices, knows_cdi="cdi" in words, has_nvidia_hook="hook" in words, emulated="emulated" in words
    )


def test_a_gpu_without_a_way_in_is_refused() -> None:
    with pytest.raises(LaunchError, match="nvidia-ctk cdi generate"):
        injection((UUID,), {}, knows_cdi=True, has_nvidia_hook=False, emulated=False)


def test_cdi_specs_are_read_as_json_and_as_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        json.dumps(
            {
                "kind": "test.org/gpu",
                "devices": [
                    {"name": "one", "containerEdits": {"deviceNodes": [{"path": "/dev/one"}]}},
                    {"name": "two"},
                ],
            }
        )
    )
    (tmp_path / "nvidia.yaml").write_text(
        "---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
        f'- name: "0"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia0\n- name: {UUID}\n'
    )
    (tmp_path / "net.json").write_text('{"kind": "test.org/net", "devices": [{"name": "eth9"}]}')
    (tmp_path / "broken.json").write_text('{"kind": "test.org/gpu", "devices": [7]}')
    (tmp_path / "notes.txt").write_text("kind: nvidia.com/gpu\n- name: three\n")
    found = read_devices([str(tmp_path), str(tmp_path / "absent")])
    assert found["one"] == Device("test.org/gpu", "one", ("/dev/one",))
    assert found[UUID].kind == "nvidia.com/gpu"
    assert set(found) == {"one", "two", "0", UUID}


NOT_FOUND, DENIED = EndReason.IMAGE_NOT_FOUND, EndReason.IMAGE_DENIED
UNREACHABLE, NO_SPACE = EndReason.IMAGE_UNREACHABLE, EndReason.IMAGE_NO_SPACE
DIGEST = "sha256:40404" + "404" * 19 + "ab"


@pytest.mark.parametrize(
    ("image", "said", "reason"),
    [
        ("x:1", "manifest for x:1 not found: manifest unknown: manifest unknown", NOT_FOUND),
        (
            "x",
            'failed to resolve reference "docker.io/library/x:latest": docker.io/library/x:latest: not found',
            NOT_FOUND,
        ),
        ("h/x:1", "initializing source docker://h/x:1: reading manifest 1 in h/x: manifest unknown", NOT_FOUND),
        ("h/x:1", "reading manifest 1 in h/x: received unexpected HTTP status: 404 Not Found", NOT_FOUND),
        ("h/x:1", 'reading manifest 1 in h/x: StatusCode: 404, ""', NOT_FOUND),
        ("h/x:1", "error parsing HTTP 404 response body: invalid character '<'", NOT_FOUND),
        ("x", "pull access denied for x, repository does not exist or may require 'docker login'", DENIED),
        ("denied/x", "pull access denied for denied/x, repository does not exist or may require ...", DENIED),
        ("x", "unauthorized: authentication required", DENIED),
        ("h/x", "denied: requested access to the resource is denied", DENIED),
        ("h/x", 'denied: Permission denied for "latest" from request "/v2/x/manifests/latest"', DENIED),
        ("h/x", "unable to retrieve auth token: invalid username/password: unauthorized", DENIED),
        ("h/x", 'reading manifest latest in h/x: StatusCode: 403, ""', DENIED),
        ("h/x", 'Get "https://h/v2/": dial tcp: lookup h on 10.0.0.2:53: no such host', UNREACHABLE),
        ("h/x", "Get http://127.0.0.1:1/v2/: dial tcp 127.0.0.1:1: connect: connection refused", UNREACHABLE),
        ("h/x", "proxyconnect: host not found", UNREACHABLE),
        ("h/x", "write /var/lib/docker/tmp/x: no space left on device", NO_SPACE),
        ("no/space", "unexpected EOF", UNREACHABLE),
        (f"h/x@{DIGEST}", f"h/x@{DIGEST}: unexpected EOF", UNREACHABLE),
        (f"h/x@{DIGEST}", f"reading manifest {DIGEST} in h/x: received unexpected HTTP status: 500", UNREACHABLE),
        ("h/x", f'Get "https://h/v2/x/blobs/{DIGEST}?not-found": EOF', UNREACHABLE),
        ("h/x", "copying blob 404ab404ab404: read: connection reset by peer", UNREACHABLE),
        ("h:404/x", 'Get "https://h:404/v2/": net/http: TLS handshake timeout', UNREACHABLE),
        ("h/access-denied-net/x", "reading manifest latest in h/access-denied-net/x: EOF", UNREACHABLE),
        ("access-denied-net", "reading manifest latest in docker.io/library/access-denied-net: EOF", UNREACHABLE),
        ("access-denied-net", "access-denied-net: unexpected EOF", UNREACHABLE),
        ("denied.example.org/x", "Get denied.example.org/v2/: context deadline exceeded", UNREACHABLE),
        ("h/unauthorized:forbidden", "reading manifest forbidden in h/unauthorized: EOF", UNREACHABLE),
        ("h/x", "open /var/lib/docker/tmp/GetImageBlob1: permission denied", UNREACHABLE),
        ("h/x", "writing blob: storing blob: mkdir /var/lib/denied/x: permission denied", UNREACHABLE),
        ("h/x", 'exec: "newuidmap": executable file not found in $PATH', UNREACHABLE),
        ("h/x", "unexpected EOF", UNREACHABLE),
    ],
)
def test_a_failed_pull_is_classed_by_what_the_engine_says(image: str, said: str, reason: EndReason) -> None:
    assert problem_of(said, image) is reason


@pytest.mark.parametrize(
    ("image", "whole"),
    [
        ("busybox", "docker.io/library/busybox"),
        ("pytorch/pytorch:2.9", "docker.io/pytorch/pytorch:2.9"),
        ("nvcr.io/nvidia/pytorch", "nvcr.io/nvidia/pytorch"),
        ("localhost/x", "localhost/x"),
        ("host:5000/x", "host:5000/x"),
    ],
)
def test_a_short_name_means_what_docker_means(image: str, whole: str) -> None:
    assert qualified(image) == whole


def test_progress_is_told_every_ten_percent_and_not_too_often() -> None:
    progress = Progress("torch", 0.0)

    def downloading(current: int, at: float) -> str | None:
        detail = {"current": current << 20, "total": 1000 << 20}
        return progress.take({"status": "Downloading", "id": "a", "progressDetail": detail}, at)

    assert progress.begun() == "pulling torch"
    assert downloading(900, 1.0) is None
    assert downloading(950, 6.0) == "pulling torch: 95 % of 1000.0 MiB"
    assert downloading(990, 60.0) is None
    assert progress.take({"status": "Extracting", "id": "a", "progressDetail": {"current": 1}}, 70.0) is None
    assert progress.ended(80.4) == "pulled torch in 80 s"


def test_what_an_engine_is_about_is_seen_by_its_layers() -> None:
    progress = Progress("torch", 0.0)
    seen = [progress.doing]
    for layer, status in (
        ("latest", "Pulling from team/torch"),
        ("a", "Already exists"),
        ("b", "Pulling fs layer"),
        ("b", "Waiting"),
        ("c", "Pulling fs layer"),
        ("c", "Waiting"),
        ("c", "Downloading"),
        ("c", "Download complete"),
        ("b", "Downloading"),
        ("b", "Verifying Checksum"),
        ("b", "Download complete"),
        ("b", "Extracting"),
        ("b", "Pull complete"),
    ):
        progress.take({"id": layer, "status": status}, 1.0)
        seen.append(progress.doing)
    fetching, unpacking, held_up = Doing.FETCHING, Doing.UNPACKING, Doing.HELD_UP
    before = [fetching, fetching, unpacking, fetching, held_up, fetching, held_up, fetching, held_up]
    assert seen == [*before, fetching, fetching, unpacking, unpacking, unpacking]


def test_what_an_engine_has_moved_is_added_up_and_counts_once() -> None:
    progress = Progress("torch", 0.0)
    moved = []
    for layer, status, current in (
        ("a", "Downloading", 100),
        ("b", "Downloading", 10),
        ("a", "Downloading", 150),
        ("a", "Downloading", 20),  # it has begun again
        ("a", "Downloading", 160),
        ("a", "Extracting", 30),
        ("a", "Pull complete", None),
    ):
        progress.take({"id": layer, "status": status, "progressDetail": current and {"current": current}}, 1.0)
        moved.append(progress.moved)
    assert moved == [100, 110, 160, 160, 170, 200, 200]


@pytest.mark.parametrize(
    ("status", "oom", "code", "signal", "reason"),
    [
        (0, False, 0, None, None),
        (1, False, 1, None, None),
        (128, False, 128, None, None),
        (137, False, None, 9, None),
        (143, False, None, 15, None),
        (255, False, 255, None, None),
        (137, True, None, 9, EndReason.OUT_OF_MEMORY),
        (1, True, 1, None, EndReason.OUT_OF_MEMORY),
        (0, True, 0, None, None),
    ],
)
def test_the_status_of_a_container_is_read_as_shells_write_it(
    status: int, oom: bool, code: int | None, signal: int | None, reason: EndReason | None
) -> None:
    ending = ending_of(status, oom, 64)
    assert (ending.exit_code, ending.signal, ending.reason) == (code, signal, reason)
