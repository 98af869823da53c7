"""An image for a job of the demonstration, made of this machine's own programs, so that no registry is asked."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

IMAGE = "muster-demo:1"
_PROGRAMS = ("sh", "cat", "id", "ls", "sleep", "uname", "wc")
_OS_RELEASE = b'ID=muster-demo\nPRETTY_NAME="the image of the Muster demonstration"\n'
_CALL_S = 60.0


class NoContainers(Exception):
    """No job can run in a container; the message says why."""


def prepare_image(engine: str) -> None:
    """Give the image to `docker` or `podman`, and start a container of it once; `NoContainers` if none starts."""
    try:
        with tempfile.TemporaryDirectory(prefix="muster-image-") as folder:
            rootfs = Path(folder) / "rootfs.tar"
            _write_rootfs(rootfs)
            (_prepare_in_docker if engine == "docker" else _prepare_in_podman)(rootfs)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoContainers(f"{engine} answers, but runs no container: {_last_line(error)}") from error


def docker_socket() -> str:
    """The socket that DOCKER_HOST names; empty for the usual one."""
    return os.environ.get("DOCKER_HOST", "").removeprefix("unix://")


def _write_rootfs(target: Path) -> None:
    """Write a tar with a shell, a few programs, and the libraries that they load."""
    files: dict[str, str] = {}
    for name in _PROGRAMS:
        path = shutil.which(name)
        if path is None:
            raise OSError(f"this machine has no program {name}")
        files[f"bin/{name}"] = path
        # A program that is linked statically has none, which ldd takes for an error.
        said = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=_CALL_S, check=False).stdout
        files |= {library.lstrip("/"): library for library in re.findall(r"(/\S+) \(0x", said)}
    with tarfile.open(target, "w", dereference=True) as tar:
        for inside, path in files.items():
            tar.add(os.path.realpath(path), inside)
        release = tarfile.TarInfo("etc/os-release")
        release.size = len(_OS_RELEASE)
        tar.addfile(release, io.BytesIO(_OS_RELEASE))


def _prepare_in_podman(rootfs: Path) -> None:
    if subprocess.run(["podman", "image", "exists", IMAGE], timeout=_CALL_S, check=False).returncode != 0:
        _podman("import", str(rootfs), IMAGE)
    _podman("run", "--rm", "--network=none", IMAGE, "/bin/sh", "-c", "true")


def _podman(*words: str) -> None:
    done = subprocess.run(["podman", *words], capture_output=True, text=True, timeout=_CALL_S, check=False)
    if done.returncode != 0:
        raise OSError(done.stderr)


def _prepare_in_docker(rootfs: Path) -> None:
    import docker  # noqa: PLC0415 (where an agent offers Docker, its Python has the package, and so has this one)

    address = f"unix://{docker_socket() or '/var/run/docker.sock'}"
    try:
        with contextlib.closing(docker.DockerClient(base_url=address, version="auto", timeout=_CALL_S)) as client:
            if not client.images.list(name=IMAGE):
                client.api.import_image_from_file(str(rootfs), *IMAGE.split(":"))
            client.containers.run(IMAGE, ["/bin/sh", "-c", "true"], network_mode="none", remove=True)
    except docker.errors.DockerException as error:
        raise OSError(str(error)) from error


def _last_line(error: Exception) -> str:
    """The last line of an engine's output, which names the error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
