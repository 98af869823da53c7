"""Volumes in containers, of both engines: what a job may do with them, and which it never gets."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cli.main import _parser, _words_of_run
from nodeagent.cli.serving import runtime_options
from nodeagent.protocol.messages import EndReason, VolumeMount
from nodeagent.runtime.container import volumes
from nodeagent.runtime.container.options import Options
from nodeagent.runtime.container.plan import Plan
from nodeagent.runtime.container.volumes import STAGING, VolumeRefused, Volumes, staged
from nodeagent.runtime.port import ExitStatus, LaunchError
from tests import engines
from tests.agent.conftest import KeptForker, RuntimeUnderTest, runtime_under_test, stop_everything
from tests.agent.containers.test_container_plan import planned

JOB_UID = 4321

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder below which volumes may lie, with one, `data`, that belongs to the job's user."""
    folder = tmp_path / "root"
    (folder / "data" / "below").mkdir(parents=True)
    (folder / "data" / "x").write_text("content\n")
    for path in (folder / "data", folder / "data" / "below", folder / "data" / "x"):
        os.chown(path, JOB_UID, JOB_UID)
    return folder


@pytest.fixture(params=["docker", "podman"])
def under_test(
    request: pytest.FixtureRequest, tmp_path: Path, root: Path, forkers: Callable[[str], KeptForker]
) -> Iterator[RuntimeUnderTest]:
    options = Options(network="none", mount_roots=(str(root),))
    made = runtime_under_test(request.param, tmp_path / "state", forkers, options)
    yield made
    stop_everything(made.runtime)
    assert places(f"muster-t{os.getpid()}n") == []


def places(names: str) -> list[str]:
    """Mounts for containers of names that begin so; the folder is one for all agents of a machine."""
    mounted = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [place for place in mounted if place.startswith(f"{STAGING}/{names}")]


def volume(source: Path | str, target: str = "/data", *, read_only: bool = True, **fields: str) -> VolumeMount:
    return VolumeMount("data", str(source), target, read_only, **fields)


def run(under_test: RuntimeUnderTest, command: str, *mounts: VolumeMount, **fields: Any) -> tuple[ExitStatus, str]:
    """The end and the output of a job with these volumes, as its user."""
    roots = fields.pop("mount_roots", under_test.runtime.mount_roots())
    wanted = {"uid": JOB_UID, "gids": (JOB_UID,), "mounts": mounts, "mount_roots": roots, **fields}
    status, output = under_test.run(command, **wanted)
    return status, output.decode()


def test_a_job_reads_a_volume_and_cannot_write_to_it(under_test: RuntimeUnderTest, root: Path) -> None:
    command = "cat /data/x; touch /data/new /data/below/new /data/x; rm /data/x; chmod 777 /data; echo done"
    status, output = run(under_test, command, volume(root / "data"))
    lines = output.splitlines()
    assert (lines[0], lines[-1], status.exit_code) == ("content", "done", 0)
    assert output.count("Read-only file system") == 5
    assert sorted(path.name for path in (root / "data").iterdir()) == ["below", "x"]


def test_what_a_job_writes_to_a_volume_stays(under_test: RuntimeUnderTest, root: Path) -> None:
    _, output = run(under_test, "echo more >> /data/x; cat /data/x; id -u", volume(root / "data", read_only=False))
    assert output == f"content\nmore\n{JOB_UID}\n"
    assert (root / "data" / "x").read_text() == "content\nmore\n"


def test_a_volume_gives_no_rights_that_the_jobs_user_has_not(under_test: RuntimeUnderTest, root: Path) -> None:
    (root / "theirs").mkdir(mode=0o700)
    (root / "theirs" / "x").write_text("secret")
    (root / "theirs").chmod(0o711)
    (root / "theirs" / "x").chmod(0o600)
    _, output = run(under_test, "cat /data/x; touch /data/y", volume(root / "theirs", read_only=False))
    assert output.count("Permission denied") == 2


def test_a_volume_has_neither_devices_nor_foreign_rights(under_test: RuntimeUnderTest, root: Path) -> None:
    read_only, writable = volume(root / "data", "/ro"), volume(root, "/rw", read_only=False)
    _, output = run(under_test, "grep -E ' /(ro|rw) ' /proc/mounts", read_only, writable)
    options = {line.split()[1]: set(line.split()[3].split(",")) for line in output.splitlines()}
    assert {"ro", "nosuid", "nodev"} <= options["/ro"]
    assert {"rw", "nosuid", "nodev"} <= options["/rw"]


@needs_root
def test_what_is_mounted_below_a_volume_stays_outside(under_test: RuntimeUnderTest, root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "hidden").touch()
    below = root / "data" / "below"
    volumes._mount(str(tmp_path / "other"), str(below), volumes._MS_BIND)
    try:
        _, output = run(under_test, "ls /data /data/below", volume(root / "data", read_only=False))
    finally:
        volumes._unmount(str(below))
    assert output.split() == ["/data:", "below", "x", "/data/below:"]


def test_several_volumes_lie_where_the_job_wants_them(under_test: RuntimeUnderTest, root: Path) -> None:
    (root / "two").mkdir()
    (root / "two" / "y").write_text("two\n")
    mounts = (volume(root / "data", "/data/one"), volume(root / "two", "/mnt/two"), volume(root / "data", "/usr/x"))
    assert run(under_test, "cat /data/one/x /mnt/two/y /usr/x/x", *mounts)[1] == "content\ntwo\ncontent\n"


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_a_read_only_image_can_have_volumes(
    kind: str, root: Path, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    options = Options(network="none", mount_roots=(str(root),), read_only_root=True)
    made = runtime_under_test(kind, tmp_path / "state", forkers, options)
    assert run(made, "cat /data/x", volume(root / "data"))[1] == "content\n"
    stop_everything(made.runtime)


def test_a_link_out_of_the_root_leads_nowhere(under_test: RuntimeUnderTest, root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for number, leads_to in enumerate((tmp_path / "elsewhere", Path("/"), Path("/etc"))):
        link = root / f"link{number}"
        link.symlink_to(leads_to)
        status, output = run(under_test, "ls /data", volume(link))
        assert (status.reason, status.started, output) == (EndReason.SPEC_REFUSED, False, "")
        assert status.detail == "mounts: volume data: its folder is really outside of what this pool mounts"


def test_a_link_within_the_root_is_followed(under_test: RuntimeUnderTest, root: Path) -> None:
    (root / "latest").symlink_to("data")
    assert run(under_test, "cat /data/x", volume(root / "latest"))[1] == "content\n"


def test_a_node_may_allow_less_than_its_pool(under_test: RuntimeUnderTest, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    status, _ = run(under_test, "true", volume(other), mount_roots=(str(root), str(other)))
    assert (status.reason, status.detail) == (
        EndReason.SPEC_REFUSED,
        "mounts: volume data: its folder is really outside of what this node mounts",
    )


def test_a_folder_that_is_not_there_is_the_nodes_failure(under_test: RuntimeUnderTest, root: Path) -> None:
    for source, why in ((root / "none", "No such file or directory"), (root / "data" / "x", "Not a directory")):
        status, _ = run(under_test, "true", volume(source))
        assert (status.reason, status.started) == (EndReason.LAUNCH_FAILED, False)
        assert status.detail == f"mounts: volume data: its folder cannot be opened on this node: {why}"


def test_a_folder_with_an_engines_socket_is_refused(under_test: RuntimeUnderTest, root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "data" / "docker.sock"))
        status, _ = run(under_test, "true", volume(root / "data"))
    assert status.reason is EndReason.SPEC_REFUSED
    assert "has the socket of a container engine" in status.detail


def test_neither_the_agents_folder_nor_the_engines_own_socket_is_in_a_volume(
    root: Path, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> None:
    engine = Path(engines.docker_socket()).parent  # such as /run/docker for an engine of a machine
    options = Options(network="none", mount_roots=(str(tmp_path), str(engine.parent)))
    made = runtime_under_test("docker", tmp_path / "state", forkers, options)
    for source in (tmp_path, tmp_path / "state", tmp_path / "state" / "allocations", engine, engine.parent):
        status, _ = run(made, "true", volume(source))
        assert status.reason is EndReason.SPEC_REFUSED
        assert "is the agent's or its engine's own" in status.detail
    stop_everything(made.runtime)


def test_what_a_node_of_processes_cannot_mount_it_refuses(tmp_path: Path, forkers: Callable[[str], KeptForker]) -> None:
    made = runtime_under_test("process", tmp_path / "state", forkers)
    with pytest.raises(LaunchError, match=r"^mounts: this node runs jobs as processes") as caught:
        made.start("true", mounts=(volume("/data"),), mount_roots=("/data",))
    assert caught.value.reason is EndReason.SPEC_REFUSED
    assert made.runtime.mount_roots() == ()
    stop_everything(made.runtime)


def test_an_engine_that_mounts_something_else_is_found_out(
    under_test: RuntimeUnderTest, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As an engine does that has a view of its own of the machine's mounts: the place is an empty folder to it.
    plan = under_test.spec("true", mounts=(volume(root / "data"),), mount_roots=(str(root),))
    with staged(Volumes(plan.mounts, (str(root),), (str(root),)), "t-view") as (one,):
        assert volumes.missing([one], os.getpid()) is None
        assert volumes.missing([replace(one, mounted=("0:1", "/nothing"))], os.getpid()) is not None
        loose = replace(one, volume=replace(one.volume, read_only=False))
        assert volumes.missing([loose], os.getpid()) is None
    assert volumes.missing([one], os.getpid()) == one


@needs_root
def test_a_link_that_is_put_in_the_way_after_the_look_gains_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").touch()
    mount = volumes._mount

    def swap_and_mount(source: str | None, place: str, flags: int) -> None:
        if not (root / "data").is_symlink():
            (root / "data").rename(root / "moved")
            (root / "data").symlink_to(tmp_path / "elsewhere")
        mount(source, place, flags)

    monkeypatch.setattr(volumes, "_mount", swap_and_mount)
    with staged(Volumes((volume(root / "data"),), (str(root),), (str(root),)), "t-swap") as (one,):
        assert sorted(os.listdir(one.place)) == ["below", "x"]
    assert sorted(os.listdir(root / "moved")) == ["below", "x"]
    assert places("t-swap") == []


@needs_root
def test_what_a_shim_left_half_done_is_taken_away_and_nothing_else(root: Path) -> None:
    kept = staged(Volumes((volume(root / "data"),), (str(root),), (str(root),)), "muster-a-1-1")
    left = staged(Volumes((volume(root / "data"),), (str(root),), (str(root),)), "muster-a-2-1")
    kept.__enter__()
    left.__enter__()
    volumes.unstage_all_but({"muster-a-1-1"}, "muster-a-")
    assert places("muster-a-") == [f"{STAGING}/muster-a-1-1/0"]
    volumes.unstage_all_but(set(), "muster-b-")
    assert places("muster-a-") == [f"{STAGING}/muster-a-1-1/0"]
    volumes.unstage("muster-a-1-1")
    assert (places("muster-a-"), (root / "data" / "x").read_text()) == ([], "content\n")


MACHINES = ["/etc", "/proc/1", "/run/user", "/var/lib/docker/volumes", "/root"]


@pytest.mark.parametrize("source", [path for path in MACHINES if Path(path).is_dir()])
@needs_root
def test_what_is_the_machines_own_is_in_no_volume_whatever_the_roots(source: str) -> None:
    with (
        pytest.raises(VolumeRefused, match="is the machine's own") as caught,
        staged(Volumes((volume(source),), ("/",), ("/",)), "t-own"),
    ):
        pass
    assert caught.value.reason is EndReason.SPEC_REFUSED


NODE = Options(mount_roots=("/data",))


def with_volumes(*targets: str, options: Options = NODE, **fields: Any) -> Plan:
    mounts = tuple(volume("/data/x", target) for target in targets)
    return planned(options, **{"mounts": mounts, "mount_roots": ("/data",), **fields})


@pytest.mark.parametrize(
    "target",
    [
        *("", "data", "/", "//x", "/a/../etc", "/./a", "/proc/x", "/sys", "/dev/shm", "/etc/ssl", "/run/x"),
        *("/var/run/x", "/muster", "/muster/home/x", "/tmp", "/tmp/x", "/a,source=/etc"),
        *("/a:rw", "/a b", "/a\nb", "/" + "x" * 500),
    ],
)  # fmt: skip
def test_a_target_that_is_the_containers_own_or_no_plain_path_is_refused(target: str) -> None:
    with pytest.raises(LaunchError, match=r"^mounts: ") as caught:
        with_volumes(target)
    assert caught.value.reason is EndReason.SPEC_REFUSED


@pytest.mark.parametrize(
    ("workdir", "targets", "detail"),
    [
        ("/workspace", ("/workspace",), "/workspace overlaps /workspace"),
        ("/workspace", ("/workspace/data",), "overlaps"),
        ("a", ("/workspace/a",), "overlaps"),
        ("/opt/src", ("/opt",), "/opt overlaps /opt/src"),
        ("/w", ("/data", "/data"), "/data overlaps /data"),
        ("/w", ("/data/x", "/data"), "overlaps"),
        ("/w", tuple(f"/m/{number}" for number in range(17)), "17 volumes: at most 16"),
    ],
)
def test_volumes_lie_beside_the_working_folder_and_each_other(
    workdir: str, targets: tuple[str, ...], detail: str
) -> None:
    with pytest.raises(LaunchError, match=r"^mounts: ") as caught:
        with_volumes(*targets, workdir=workdir)
    assert detail in caught.value.detail


def test_nothing_is_mounted_where_pool_or_node_allow_nothing() -> None:
    with pytest.raises(LaunchError, match="this node mounts no volumes"):
        with_volumes("/data", options=Options())
    with pytest.raises(LaunchError, match="this pool mounts no volumes"):
        with_volumes("/data", mount_roots=())
    assert with_volumes("/data").volumes.node_roots == ("/data",)
    assert planned(Options()).volumes == Volumes()


def test_a_volume_that_the_platform_takes_back_is_refused_with_its_reason() -> None:
    gone = volume("", "/data", refused="it is not there any more")
    with pytest.raises(LaunchError, match="mounts: volume data: it is not there any more"):
        planned(NODE, mounts=(gone,), mount_roots=("/data",))


def test_the_roots_of_a_node_are_options_of_its_agent(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--mount-root=/data", "--mount-root=/mnt/nfs"]
    options = _parser().parse_args(["run", "--url=http://x", "--state=/s", *words])
    assert runtime_options(options).containers.mount_roots == ("/data", "/mnt/nfs")
    joined = _parser().parse_args(["join", "http://x", "-", *words])
    assert _words_of_run(joined) == words
    for root in ("/", "data", "/proc", "/var", "/run/docker.sock", "/data/.."):
        with pytest.raises(SystemExit):
            _parser().parse_args(["run", "--url=http://x", "--state=/s", "--mount-root", root])
    assert "the machine's own" in capsys.readouterr().err
