"""Containers alone: their isolation of a job, their images, and their removal."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import docker
import pytest

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.choose import RuntimeOptions, open_runtime
from nodeagent.runtime.container import runtime as container_runtime
from nodeagent.runtime.container.cdi import Injection
from nodeagent.runtime.container.engine import Engine, EngineError, NameTaken
from nodeagent.runtime.container.options import Options
from nodeagent.runtime.container.plan import Mount, Plan
from nodeagent.runtime.container.runtime import ContainerRuntime
from nodeagent.runtime.docker.engine import DockerEngine
from nodeagent.runtime.podman.engine import PodmanEngine
from nodeagent.runtime.port import ExitStatus, LaunchError, NotYet, Phase, RuntimeUnavailable
from nodeagent.runtime.shim import tree
from tests import engines
from tests.agent.conftest import KeptForker, RuntimeUnderTest, runtime_under_test, stop_everything
from tests.waiting import eventually

_CAP_SYS_RESOURCE = 24


@pytest.fixture(params=["docker", "podman"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def under_test(kind: str, tmp_path: Path, forkers: Callable[[str], KeptForker]) -> Iterator[RuntimeUnderTest]:
    made = runtime_under_test(kind, tmp_path / "state", forkers)
    yield made
    stop_everything(made.runtime)
    assert containers_of(made) == ()


def containers_of(under_test: RuntimeUnderTest) -> tuple[str, ...]:
    return cast(ContainerRuntime, under_test.runtime).containers()


def engine_of(kind: str) -> Engine:
    return DockerEngine(engines.docker_socket()) if kind == "docker" else PodmanEngine(engines.podman_environment())


def plan_of(under_test: RuntimeUnderTest, allocation_id: int) -> Plan:
    launch = json.loads((under_test.folder(allocation_id) / "launch.json").read_text())
    return Plan.from_dict(launch["task"]["job"]["plan"])


def test_a_job_has_no_capability_and_no_way_to_one(under_test: RuntimeUnderTest) -> None:
    _, output = under_test.run("cat /proc/self/status", uid=4321, gids=(7770, 7780))
    status = dict(line.split(":\t", 1) for line in output.decode().splitlines() if ":\t" in line)
    assert {status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Uid"].split() == ["4321"] * 4
    assert status["Gid"].split() == ["7770"] * 4
    assert sorted(status["Groups"].split()) == ["7770", "7780"]


@pytest.mark.parametrize(
    "command",
    [
        "unshare -U true",
        "unshare -m true",
        "unshare -U -r mount -t tmpfs x /tmp",
        "mount -t tmpfs x /tmp",
        "chroot / true",
    ],
)
def test_a_job_makes_no_namespace_and_no_mount(under_test: RuntimeUnderTest, command: str) -> None:
    status, output = under_test.run(command, uid=4321, gids=(4321,))
    assert status.exit_code not in (0, None)
    assert b"Operation not permitted" in output or b"permission denied (are you root?)" in output


_CALLS = """
import ctypes, errno, platform, subprocess, threading
done = []
threads = [threading.Thread(target=done.append, args=(one,)) for one in range(8)]
[one.start() for one in threads], [one.join() for one in threads]
print(len(done), subprocess.run(["/bin/echo", "child"], capture_output=True, text=True).stdout.strip())
call = ctypes.CDLL(None, use_errno=True).syscall
clone, keyctl, bpf = (56, 250, 321) if platform.machine() == "x86_64" else (220, 219, 280)
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    print(call(clone, flag | 17, 0, 0, 0, 0), errno.errorcode[ctypes.get_errno()])
for number in (435, keyctl, bpf):
    print(call(number, 0, 0, 0, 0, 0), errno.errorcode[ctypes.get_errno()])
"""


def test_threads_and_processes_are_made_and_namespaces_by_no_call(
    under_test: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("the machine has no python3 of its own")
    # The image has no Python, so the machine's is put into it.
    plan, folders = container_runtime.plan_of, [one for one in ("/usr", "/lib", "/lib64") if Path(one).exists()]
    machine = tuple(Mount(folder, folder) for folder in folders)
    monkeypatch.setattr(
        container_runtime, "plan_of", lambda *a, **k: replace(made := plan(*a, **k), mounts=(*made.mounts, *machine))
    )
    _, output = under_test.run('/usr/bin/python3 -I -c "$CALLS"', uid=4321, gids=(4321,), env={"CALLS": _CALLS})
    lines = output.decode().splitlines()
    assert lines[0] == "8 child"
    assert lines[1:8] == ["-1 EPERM"] * 7
    assert lines[8:] == ["-1 ENOSYS", "-1 EPERM", "-1 EPERM"]


def test_a_job_sees_its_own_processes_and_folders_only(under_test: RuntimeUnderTest) -> None:
    _, output = under_test.run("echo /proc/[0-9]*; cat /proc/mounts; touch /tmp/x ~/x ./x && echo done")
    lines = output.decode().splitlines()
    assert len(lines[0].split()) <= 3
    assert lines[-1] == "done"
    # A mounted folder shows as what it lies on; nothing of the machine is mounted but these.
    own = {"/workspace", "/muster/home", "/muster/out", "/muster/status", "/tmp"}
    engines_own = {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/run/.containerenv", "/"}
    points = {line.split()[1] for line in lines[1:-1]}
    strange = {point for point in points if not point.startswith(("/proc", "/sys", "/dev"))} - own - engines_own
    assert strange == set()
    assert own <= points


def test_memory_processors_processes_and_shared_memory_are_bounded(kind: str, under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo ready; df -m /dev/shm | tail -n 1; sleep 60", memory_mib=64, cpus=2, shm_mib=8)
    output = under_test.printed(number, b"/dev/shm")
    assert output.split()[2] == b"8"
    plan = plan_of(under_test, number)
    assert (plan.memory_mib, plan.cpus, plan.pids) == (64, 2, 4096)
    state = engine_of(kind).state(plan.name)
    assert state is not None
    names = {"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpu": "cpu.cfs_quota_us"}
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        names = {"memory": "memory.max", "pids": "pids.max", "cpu": "cpu.max"}
    limits = [(group_of(state.pid, one) / name).read_text().split()[0] for one, name in names.items()]
    assert limits == [str(64 << 20), "4096", "200000"]


def group_of(pid: int, controller: str) -> Path:
    """The folder of a process's control group."""
    groups = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return Path("/sys/fs/cgroup" + groups[""])
    paths = {one: path for joined, path in groups.items() for one in joined.split(",")}
    return Path(f"/sys/fs/cgroup/{controller}{paths[controller]}")


def processes_of(uid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError):
            found += [int(path.name)] if path.stat().st_uid == uid else []
    return found


# The first shell forks nothing more, and so outlives what cannot be forked; of the others there is always one that can.
_BOMB = """
mkfifo wait; exec 9<>wait
bomb() { while true; do bomb & done; }
bomb &
echo ready; read x <&9
"""


def test_a_job_that_forks_without_end_takes_its_own_processes_only(
    kind: str, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    made = runtime_under_test(kind, tmp_path / "state", forkers, Options(network="none", pids=64))
    uid = random.randrange(10**5, 10**6)  # of no other test, that of the other engine included
    try:
        neighbour = made.start("while true; do echo x; sleep 0.05; done", uid=4321, gids=(4321,))
        bomb = made.start(_BOMB, uid=uid, gids=(uid,))
        made.printed(bomb, b"ready")
        state = engine_of(kind).state(plan_of(made, bomb).name)
        assert state is not None
        events = group_of(state.pid, "pids") / "pids.events"
        eventually(lambda: int(events.read_text().split()[1]) > 100, "many forks that are refused", 30.0)
        assert len(processes_of(uid)) <= 64
        before = len(made.output(neighbour))
        eventually(lambda: len(made.output(neighbour)) > before + 10, "the neighbour going on", 30.0)
        made.runtime.stop(bomb, "TERM", 0.5)
        made.exit(bomb)
        assert processes_of(uid) == []
        assert not events.exists()
        assert containers_of(made) == (plan_of(made, neighbour).name,)
    finally:
        stop_everything(made.runtime)


def test_a_job_that_needs_more_memory_than_it_has_is_told_so(under_test: RuntimeUnderTest) -> None:
    command = "x=0123456789abcdef; while true; do x=$x$x; done"
    status, _ = under_test.run(command, memory_mib=32)
    assert (status.reason, status.detail) == (EndReason.OUT_OF_MEMORY, "out of memory: the limit is 32 MiB")


def test_the_layer_over_its_image_is_found_where_it_is_a_folder(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo ready; sleep 60")
    under_test.printed(number, b"ready")
    held = under_test.runtime.holdings(number)
    layers = [path for name, path in held.folders if name == "the layer over its image"]
    roots = [line for line in Path(f"/proc/{held.pids[0]}/mountinfo").read_text().splitlines() if " / / " in line]
    if " - overlay " not in roots[-1]:
        assert layers == []
        pytest.skip(f"this engine's storage is no overlay: {roots[-1]}")
    # What the engine made for the mounts lies there.
    assert (Path(layers[0]) / "muster" / "home").is_dir()
    assert held.devices == (os.stat(f"/proc/{held.pids[0]}/root").st_dev,)
    assert Path(under_test.runtime.disks()[1]) in Path(layers[0]).parents


def test_a_gpu_that_is_not_the_jobs_cannot_be_opened(kind: str, under_test: RuntimeUnderTest, tmp_path: Path) -> None:
    # Two devices of a major number without a driver. A device that the control group lets through is not there
    # (ENXIO); one that it does not is forbidden (EPERM).
    mine, other = "GPU-mine-" + under_test.name, "GPU-other-" + under_test.name
    nodes = {uuid: tmp_path / uuid for uuid in (mine, other)}
    for minor, path in enumerate(nodes.values()):
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(234, minor))
        path.chmod(0o666)
    devices = [
        {"name": uuid, "containerEdits": {"deviceNodes": [{"path": str(path), "type": "c", "permissions": "rw"}]}}
        for uuid, path in nodes.items()
    ]
    spec = Path(f"/etc/cdi/muster-{under_test.name}.json")
    spec.parent.mkdir(exist_ok=True)
    kind_name = f"muster-{under_test.name}.test/gpu"
    spec.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": kind_name, "devices": devices}))
    command = f"cat {nodes[mine]}; cat ./stolen; env"
    try:
        prepared = under_test.spec(command, gpu_uuids=(mine,), env={"NVIDIA_VISIBLE_DEVICES": "all"})
        work = Path(under_test.runtime.prepare(prepared))
        os.mknod(work / "stolen", 0o666 | stat.S_IFCHR, os.makedev(234, 1))
        (work / "stolen").chmod(0o666)
        under_test.runtime.launch(prepared)
        under_test.exit(prepared.allocation_id)
    finally:
        spec.unlink()
    lines = under_test.output(prepared.allocation_id).decode().splitlines()
    assert lines[0] == f"cat: can't open '{nodes[mine]}': No such device or address"
    assert lines[1] == "cat: can't open './stolen': Operation not permitted"
    assert f"NVIDIA_VISIBLE_DEVICES={mine}" in lines


def test_docker_is_asked_for_gpus_by_their_uuids(tmp_path: Path, forkers: Callable[[str], KeptForker]) -> None:
    made = runtime_under_test("docker", tmp_path / "state", forkers)
    plan = plan_of(made, made.start("true"))
    engine = engine_of("docker")
    asking = replace(plan, name=plan.name + "-gpus", gpus=Injection(nvidia=("GPU-1", "GPU-2")))
    engine.create(asking)
    client = docker.APIClient(base_url=f"unix://{engines.docker_socket()}", version="auto")
    (request,) = client.inspect_container(asking.name)["HostConfig"]["DeviceRequests"]
    client.close()
    assert (request["Driver"], request["DeviceIDs"], request["Capabilities"]) == (
        "nvidia",
        ["GPU-1", "GPU-2"],
        [["gpu"]],
    )
    # Nothing starts without them: this machine has no such hook, or no such GPUs.
    with pytest.raises(EngineError):
        engine.start(asking.name)
    engine.remove(asking.name)
    stop_everything(made.runtime)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"image": ""}, "image"),
        ({"uid": 0, "gids": (0,)}, "uid"),
        ({"workdir": "/"}, "workdir"),
        ({"workdir": "/proc/self"}, "workdir"),
    ],
)
def test_what_a_container_cannot_do_is_refused_by_field(
    under_test: RuntimeUnderTest, fields: dict[str, object], field: str
) -> None:
    spec = under_test.spec("true", **fields)

    def prepare_and_launch() -> None:
        under_test.runtime.prepare(spec)
        under_test.runtime.launch(spec)

    with pytest.raises(LaunchError, match=f"^{field}") as caught:
        prepare_and_launch()
    assert caught.value.reason is EndReason.SPEC_REFUSED


def test_podman_is_told_no_mount_that_reads_as_another(tmp_path: Path, forkers: Callable[[str], KeptForker]) -> None:
    # An image that has such a folder could else have any folder of the machine in its place.
    made = runtime_under_test("podman", tmp_path / "state", forkers)
    plan = plan_of(made, made.start("true"))
    with pytest.raises(EngineError, match="comma"):
        engine_of("podman").create(replace(plan, name=plan.name + "-2", mounts=(Mount("/a", "/w,source=/etc"),)))
    stop_everything(made.runtime)


def test_a_read_only_image_leaves_a_job_its_own_folders(
    kind: str, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    options = Options(network="none", read_only_root=True)
    made = runtime_under_test(kind, tmp_path / "state", forkers, options)
    _, output = made.run("touch /bin/x || touch /x || touch ~/x /tmp/x ./x && echo done", uid=4321, gids=(4321,))
    assert b"Read-only file system" in output
    assert output.endswith(b"done\n")
    stop_everything(made.runtime)


@pytest.mark.parametrize(("nodes", "is_the_machines"), [(1, False), (2, True)])
def test_only_gangs_have_the_machines_network_where_an_operator_says_host(
    nodes: int, is_the_machines: bool, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    made = runtime_under_test("docker", tmp_path / "state", forkers, Options(gang_network="host"))
    _, output = made.run("cat /proc/net/dev", nodes=nodes)
    interfaces = {line.split(":")[0].strip() for line in output.decode().splitlines()[2:]}
    assert "lo" in interfaces
    # The engine's own bridge is an interface of the machine.
    assert (engines.bridge() in interfaces) == is_the_machines
    stop_everything(made.runtime)


@pytest.fixture
def infiniband(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with an adapter: a device for jobs, and one for those who manage the fabric."""
    folder = tmp_path / "infiniband"
    folder.mkdir()
    for name, minor in (("uverbs0", 0), ("umad0", 1)):
        os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(234, minor))
        (folder / name).chmod(0o666)
    monkeypatch.setattr(container_runtime, "INFINIBAND", str(folder))
    return folder


def may_raise_limits() -> bool:
    """True if a process may get a higher limit than this one has: where it may not, nor may an engine's."""
    status = Path("/proc/self/status").read_text()
    return bool(int(status.split("CapEff:")[1].split()[0], 16) >> _CAP_SYS_RESOURCE & 1)


def test_a_pool_with_infiniband_gives_containers_its_devices_and_locked_memory(
    under_test: RuntimeUnderTest, infiniband: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = f"cat {infiniband}/uverbs0; ls {infiniband}; grep 'Max locked' /proc/self/limits"
    if not may_raise_limits():
        plan = container_runtime.plan_of
        monkeypatch.setattr(container_runtime, "plan_of", lambda *a, **k: replace(plan(*a, **k), locks_memory=False))
    _, output = under_test.run(look, infiniband=True)
    # A device that may be opened and has no driver is not there; one that may not be opened is forbidden.
    assert b"uverbs0': No such device or address" in output
    assert b"umad0" not in output
    assert (b"unlimited" in output.splitlines()[-1]) == may_raise_limits()
    _, output = under_test.run(look)
    assert b"uverbs0': No such file or directory" in output
    assert b"unlimited" not in output.splitlines()[-1]


def test_an_engine_is_asked_for_locked_memory_without_limit(
    kind: str, under_test: RuntimeUnderTest, infiniband: Path
) -> None:
    engine, plan = engine_of(kind), plan_of(under_test, under_test.start("true"))
    asking = replace(plan, name=plan.name + "-locks", locks_memory=True)
    engine.create(asking)
    if kind == "docker":
        client = docker.APIClient(base_url=f"unix://{engines.docker_socket()}", version="auto")
        limits = client.inspect_container(asking.name)["HostConfig"]["Ulimits"]
        client.close()
    else:
        command = ["podman", "container", "inspect", asking.name]
        said = subprocess.run(command, env=engines.podman_environment(), capture_output=True, check=True).stdout
        limits = json.loads(said)[0]["HostConfig"]["Ulimits"]
    engine.remove(asking.name)
    found = {one["Name"].lower().removeprefix("rlimit_"): (one["Soft"], one["Hard"]) for one in limits}
    assert found["memlock"] == (-1, -1)


def test_a_node_can_keep_its_infiniband_from_containers(
    kind: str, tmp_path: Path, forkers: Callable[[str], KeptForker], infiniband: Path
) -> None:
    made = runtime_under_test(kind, tmp_path / "state", forkers, Options(network="none", infiniband=False))
    plan = plan_of(made, made.start("true", infiniband=True))
    assert (plan.devices, plan.locks_memory) == ((), False)
    stop_everything(made.runtime)


def test_a_gang_gets_the_network_that_its_pool_names(
    kind: str, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    made = runtime_under_test(kind, tmp_path / "state", forkers, Options(network="none"))
    _, output = made.run("cat /proc/net/dev", nodes=2, gang_network="none")
    assert {line.split(":")[0].strip() for line in output.decode().splitlines()[2:]} == {"lo"}
    with pytest.raises(LaunchError, match="this pool runs no containers"):
        made.start("true", nodes=2, gang_network="refuse")
    stop_everything(made.runtime)


def test_a_default_image_stands_in(kind: str, tmp_path: Path, forkers: Callable[[str], KeptForker]) -> None:
    options = Options(network="none", default_image=engines.IMAGE)
    made = runtime_under_test(kind, tmp_path / "state", forkers, options)
    assert made.run("echo here", image="")[1] == b"here\n"
    assert made.runtime.labels()["default-image"] == engines.IMAGE
    stop_everything(made.runtime)


def test_a_variable_of_several_lines_arrives_whole(under_test: RuntimeUnderTest) -> None:
    _, output = under_test.run('printf %s "$TEXT"', env={"TEXT": "one\n two = #3\n", "HASH": "#x"})
    assert output == b"one\n two = #3\n"


def test_nothing_is_started_twice_under_one_fence(kind: str, under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo ready; sleep 60")
    under_test.printed(number, b"ready")
    with pytest.raises(NameTaken):
        engine_of(kind).create(plan_of(under_test, number))
    assert under_test.runtime.observe(number).exit is None


def test_a_container_that_nobody_answers_for_is_removed_at_the_next_start(
    kind: str, under_test: RuntimeUnderTest
) -> None:
    number = under_test.start("echo ready; sleep 60")
    under_test.printed(number, b"ready")
    engine, plan = engine_of(kind), plan_of(under_test, number)
    old = replace(plan, name=plan.name + "-0", labels={**plan.labels, "muster.fence": "0"})
    engine.create(old)
    engine.start(old.name)
    state = engine.state(old.name)
    assert state is not None
    assert state.running
    under_test.restart()
    assert containers_of(under_test) == (plan.name,)
    assert not Path(f"/proc/{state.pid}").exists()


def test_a_container_that_cannot_be_removed_keeps_no_agent_from_starting_and_goes_later(
    kind: str, under_test: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = under_test.start("echo ready; sleep 60")
    under_test.printed(number, b"ready")
    engine, plan = engine_of(kind), plan_of(under_test, number)
    strays = [
        replace(plan, name=f"{plan.name}-{fence}", labels={**plan.labels, "muster.fence": fence}) for fence in "89"
    ]
    for stray in strays:
        engine.create(stray)
    asked: list[str] = []

    def refuse(_: object, name: str) -> None:
        asked.append(name)
        raise EngineError(f"container {name} cannot be removed")

    with monkeypatch.context() as stubborn:
        stubborn.setattr(type(engine), "remove", refuse)
        under_test.restart()
        assert under_test.runtime.observe(number).phase is Phase.RUNNING
        names = {stray.name for stray in strays}
        eventually(lambda: set(asked) == names, "it goes on for the others")
        assert {plan.name} | names == set(containers_of(under_test))
    eventually(lambda: containers_of(under_test) == (plan.name,), "they are removed after all")


def test_what_an_engine_will_not_remove_is_not_settled_yet(
    kind: str, under_test: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = under_test.spec("true")
    under_test.runtime.prepare(spec)
    folder = under_test.folder(spec.allocation_id)
    # As a shim leaves it that dies between the making of its container and its start.
    task = {"job": {"plan": {"name": f"muster-{under_test.name}-{spec.allocation_id}-1"}}}
    (folder / "launch.json").write_text(json.dumps({"runtime": kind, "spec": spec.to_dict(), "task": task}))
    (folder / "shim.json").write_text("{}")

    def refuse(_: object, name: str) -> None:
        raise EngineError(f"container {name} cannot be removed")

    fallback = ExitStatus(EndReason.UNKNOWN, detail="gone")
    with monkeypatch.context() as stubborn:
        stubborn.setattr(type(engine_of(kind)), "remove", refuse)
        with pytest.raises(NotYet, match="cannot be removed"):
            under_test.runtime.settle(spec.allocation_id, fallback)
        assert under_test.runtime.observe(spec.allocation_id).phase is Phase.GONE
    assert under_test.runtime.settle(spec.allocation_id, fallback).reason is EndReason.UNKNOWN


def test_a_first_process_that_cannot_be_killed_is_not_over_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        identity = tree.identity(sleeper.pid)
        assert identity is not None
        with monkeypatch.context() as stubborn:
            stubborn.setattr(container_runtime.signal, "pidfd_send_signal", lambda *_: None)
            stubborn.setattr(container_runtime, "_KILL_WAIT_MS", 10)
            with pytest.raises(NotYet, match="cannot be killed"):
                container_runtime._kill_and_wait(*identity)
        container_runtime._kill_and_wait(*identity)
        assert sleeper.wait() == -signal.SIGKILL


def test_without_its_watcher_a_container_ends_though_no_agent_looks(kind: str, under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo ready; sleep 60")
    under_test.printed(number, b"ready")
    state = engine_of(kind).state(plan_of(under_test, number).name)
    assert state is not None
    under_test.runtime.close()
    os.kill(under_test.shim(number), signal.SIGKILL)
    eventually(lambda: not _has_words(state.pid), "the end")
    under_test.restart()
    assert under_test.runtime.observe(number).phase is Phase.GONE
    under_test.runtime.settle(number, ExitStatus(EndReason.UNKNOWN))


def _has_words(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_removed_allocation_leaves_no_container_and_no_process(kind: str, under_test: RuntimeUnderTest) -> None:
    number = under_test.start("sleep 60 & echo ready; exit 3")
    name = eventually(
        lambda: under_test.folder(number).joinpath("launch.json").exists() and plan_of(under_test, number).name
    )
    assert under_test.exit(number).exit_code == 3
    assert engine_of(kind).state(name) is None
    assert containers_of(under_test) == ()


def test_an_engine_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root, root is what is missing")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, words in (("docker", f"there is no socket {tmp_path}/no.sock"), ("podman", "podman is not installed")):
        options = RuntimeOptions(name=name, docker_socket=f"{tmp_path}/no.sock")
        with pytest.raises(RuntimeUnavailable, match=words):
            open_runtime(
                options, state=str(tmp_path), identity="x" * 16, emulated_gpus=False, listener=lambda _id, _kind: None
            )


def test_a_node_whose_jobs_run_by_another_runtime_does_not_start(kind: str, under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo ready; sleep 60")
    under_test.printed(number, b"ready")
    with pytest.raises(RuntimeUnavailable, match=f"allocation {number} still runs by the runtime {kind}"):
        open_runtime(
            RuntimeOptions(name="process"),
            state=str(under_test.state),
            identity="x" * 16,
            emulated_gpus=False,
            listener=lambda _id, _kind: None,
        )
