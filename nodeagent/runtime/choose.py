"""From the words of `--runtime` to a runtime."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from typing import Optional, Tuple

from nodeagent.runtime import DOCKER_SOCKET, RUNTIMES
from nodeagent.runtime.container.options import Options as ContainerOptions
from nodeagent.runtime.port import Listener, Runtime, RuntimeUnavailable
from nodeagent.runtime.process.cgroup import delegated_root
from nodeagent.runtime.process.runtime import ProcessRuntime
from nodeagent.runtime.shim.folders import FolderRuntime, Furnish, JobUser

_AGENT_NAME_LETTERS = 8


@dataclass(frozen=True)
class RuntimeOptions:
    """What the command line says of the runtime."""

    name: str = "process"
    docker_socket: str = DOCKER_SOCKET
    containers: ContainerOptions = field(default_factory=ContainerOptions)
    job_user: Optional[JobUser] = None
    log_spool_mib: int = 64
    hide: Tuple[str, ...] = ()
    """Folders that jobs of the runtime `process` do not see, where they have namespaces of their own."""


def open_runtime(
    options: RuntimeOptions,
    *,
    state: str,
    identity: str,
    emulated_gpus: bool,
    listener: Listener,
    furnish: Optional[Furnish] = None,
) -> Runtime:
    """The runtime of this name; `RuntimeUnavailable` says why it cannot be used here.

    `furnish` writes what jobs need of the GPU driver.
    """
    runtime = _runtime_of(options, state=state, identity=identity, emulated_gpus=emulated_gpus, listener=listener)
    if furnish is not None:
        runtime.furnish = furnish
    return runtime


def _runtime_of(
    options: RuntimeOptions, *, state: str, identity: str, emulated_gpus: bool, listener: Listener
) -> FolderRuntime:
    spool_bytes = options.log_spool_mib << 20
    agent = "".join(letter for letter in identity.lower() if letter.isalnum())[:_AGENT_NAME_LETTERS]
    if options.name == "process":
        return ProcessRuntime(
            state,
            listener,
            options.job_user,
            spool_bytes,
            pids=options.containers.pids,
            cgroup_root=delegated_root(),
            hide=options.hide,
        )
    if options.name == "podman":
        # Only here, as containers take a tenth of what an agent loads.
        from nodeagent.runtime.podman.runtime import PodmanRuntime  # noqa: PLC0415

        return PodmanRuntime(
            state,
            listener,
            agent=agent,
            options=options.containers,
            emulated_gpus=emulated_gpus,
            job_user=options.job_user,
            spool_bytes=spool_bytes,
        )
    if options.name != "docker":
        raise RuntimeUnavailable("{!r} is not a runtime; there are {}".format(options.name, ", ".join(RUNTIMES)))
    try:
        # Only here: the package `docker` is not part of the agent, and takes long to load.
        module = importlib.import_module("nodeagent.runtime.docker.runtime")
    except ModuleNotFoundError as error:
        detail = (
            "--runtime docker needs the Python package docker, and {} has none ({}). "
            "Install it (Debian and Ubuntu: apt install python3-docker), or run muster-agent by a Python that has it"
        )
        raise RuntimeUnavailable(detail.format(sys.executable, error)) from error
    runtime: FolderRuntime = module.DockerRuntime(
        state,
        listener,
        agent=agent,
        options=options.containers,
        socket=options.docker_socket,
        emulated_gpus=emulated_gpus,
        job_user=options.job_user,
        spool_bytes=spool_bytes,
    )
    return runtime
