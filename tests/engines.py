"""Container engines for tests: one private dockerd and one Podman storage for a whole run, shared by its workers.

The first worker that needs them starts them, under a lock, in a folder of the run (`MUSTER_TEST_ENGINES`). They touch
nothing of the machine's own engines. Where they cannot be, the tests that need them are skipped, with the reason, or
fail where `MUSTER_REQUIRE` names the engine.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.needed import skip_without

FOLDER = "MUSTER_TEST_ENGINES"
IMAGE = "muster-test:busybox"
_HINT = "`make engines` installs it where there are apt and root"
_START_S = 30.0
_STOP_S = 20.0
_ADD_BRIDGE, _REMOVE_BRIDGE, _SET_FLAGS = 0x89A0, 0x89A1, 0x8914


def docker_socket() -> str:
    """The socket of the run's dockerd, which has the test image."""
    return _docker("docker", _on_the_machine)


def docker_socket_apart() -> str:
    """The socket of another dockerd, whose networks are in a namespace: on the machine none comes or goes for them."""
    return _docker("docker-apart", _apart)


def _docker(name: str, networks: Callable[[Path], list[str]]) -> str:
    _require("docker", "dockerd", "containerd", "runc", "busybox", "unshare")
    with _locked("docker", name) as folder:
        address = folder / "docker.sock"
        if not (folder / "ready").exists():
            _start_dockerd(folder, address, networks(folder))
            _import_into_docker(address, _rootfs(folder))
            (folder / "ready").touch()
        return str(address)


def _on_the_machine(folder: Path) -> list[str]:
    """A dockerd with a bridge of its own and no rule of the firewall: the machine may have a Docker, too.

    With the bridge `none`, a dockerd removes another dockerd's bridge.
    """
    _change_bridge(_bridge_of(folder), _ADD_BRIDGE)
    firewall = ("--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false")
    return ["dockerd", "--bridge", _bridge_of(folder), *firewall]


def _apart(_folder: Path) -> list[str]:
    """A dockerd in a network namespace that has nothing but loopback."""
    script = 'busybox ip link set lo up && exec dockerd --bridge none --iptables=false --ip6tables=false "$@"'
    return ["unshare", "--net", "sh", "-c", script, "dockerd"]


def bridge() -> str:
    """The network bridge of the run's dockerd."""
    return _bridge_of(Path(os.environ[FOLDER]) / "docker")


def podman_environment() -> dict[str, str]:
    """The environment that leads Podman to the run's storage, which has the test image."""
    _require("podman", "podman", "runc", "busybox")
    with _locked("podman", "podman") as folder:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
        }
        if not (folder / "ready").exists():
            _write_podman_configuration(folder)
            _import_into_podman(environment, _rootfs(folder))
            (folder / "ready").touch()
        return environment


def stop_engines(folder: Path) -> None:
    """End what a run has started in its folder; a folder without engines is fine."""
    for name in ("docker", "docker-apart"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            pid = int((folder / name / "docker.pid").read_text())
            os.kill(pid, signal.SIGTERM)
            until = time.monotonic() + _STOP_S
            while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                time.sleep(0.02)
    with contextlib.suppress(OSError):
        _change_bridge(_bridge_of(folder / "docker"), _REMOVE_BRIDGE)
    # Podman leaves its storage mounted, Docker the namespace of the machine's network.
    for mount in sorted(_mounts_below(folder), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)


def _require(engine: str, *programs: str) -> None:
    if os.geteuid() != 0:
        skip_without(engine, "container engines need root")
    if FOLDER not in os.environ:
        skip_without(engine, "no folder for container engines: the plugin tests.embedded is not loaded")
    absent = [name for name in programs if shutil.which(name) is None]
    if absent:
        skip_without(engine, f"{', '.join(absent)} is not installed; {_HINT}")


@contextlib.contextmanager
def _locked(engine: str, name: str) -> Iterator[Path]:
    """The engine's folder, which no other worker of this run is in; a failed start is remembered for all of them."""
    folder = Path(os.environ[FOLDER]) / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failed = folder / "failed"
        if failed.exists():
            skip_without(engine, failed.read_text())
        try:
            yield folder
        except (OSError, subprocess.SubprocessError) as error:
            failed.write_text(f"{name} cannot be used here: {error}")
            skip_without(engine, failed.read_text())


def _start_dockerd(folder: Path, address: Path, command: list[str]) -> None:
    with (folder / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *command,
                *("--host", f"unix://{address}"),
                *("--data-root", str(folder / "data")),
                *("--exec-root", str(folder / "exec")),
                *("--pidfile", str(folder / "docker.pid")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    until = time.monotonic() + _START_S
    while b"API listen on" not in (folder / "dockerd.log").read_bytes():
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise OSError((folder / "dockerd.log").read_text(errors="replace").strip().rpartition("\n")[2])
        time.sleep(0.02)


def _bridge_of(folder: Path) -> str:
    """A name for the network bridge of a dockerd, which follows from its folder."""
    return f"mt{zlib.crc32(bytes(folder)):08x}"


def _change_bridge(name: str, request: int) -> None:
    """Add or remove a network bridge; one that is removed has to be down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        if request == _REMOVE_BRIDGE:
            fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", name.encode(), 0))
        fcntl.ioctl(control, request, struct.pack("16s", name.encode()))
    # Each address that comes or goes on this machine makes the tests' Chromium break off what it loads.
    without_ipv6 = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
    if without_ipv6.exists():
        without_ipv6.write_text("1")


def _write_podman_configuration(folder: Path) -> None:
    (folder / "containers.conf").write_text(
        "[containers]\n"
        'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
        "[engine]\n"
        'runtime = "runc"\n'
        'cgroup_manager = "cgroupfs"\n'
        'events_logger = "file"\n'
        'lock_type = "file"\n'
        f'tmp_dir = "{folder / "tmp"}"\n'
        f'static_dir = "{folder / "static"}"\n'
        f'volume_path = "{folder / "volumes"}"\n'
        "[network]\n"
        f'network_config_dir = "{folder / "networks"}"\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "{folder / "run"}"\ngraphroot = "{folder / "graph"}"\n'
    )
    (folder / "registries.conf").write_text(
        "".join(
            f'[[registry]]\nlocation = "{host}"\ninsecure = true\n' for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3")
        )
    )


def _rootfs(folder: Path) -> Path:
    """A tar of a root with nothing but busybox, under each of its names."""
    busybox = shutil.which("busybox") or ""
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    target = folder / "rootfs.tar"
    with tarfile.open(target, "w") as tar:
        tar.add(busybox, "bin/busybox")
        for name in names:
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return target


def _import_into_docker(address: Path, rootfs: Path) -> None:
    import docker  # this module is part of a plugin, and loading the package takes half a second

    try:
        client = docker.APIClient(base_url=f"unix://{address}", version="auto")
        client.import_image_from_file(str(rootfs), *IMAGE.split(":"))
        client.close()
    except docker.errors.DockerException as error:
        raise OSError(str(error)) from error


def _import_into_podman(environment: dict[str, str], rootfs: Path) -> None:
    command = ["podman", "import", str(rootfs), IMAGE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise OSError(f"podman: {done.stderr.strip()}")


def _mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [point for line in lines if (point := line.split()[1]).startswith(f"{folder}/")]
