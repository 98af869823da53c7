"""From the words of `--runtime` to a runtime."""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Collection, Optional, Tuple, Union

from nodeagent.runtime import DOCKER_SOCKET, ENGINES, RUNTIMES
from nodeagent.runtime.auto import AutoRuntime
from nodeagent.runtime.container.options import Options as ContainerOptions
from nodeagent.runtime.port import Listener, Runtime, RuntimeUnavailable
from nodeagent.runtime.process.cgroup import delegated_root
from nodeagent.runtime.process.runtime import ProcessRuntime
from nodeagent.runtime.shim.commands import Platform
from nodeagent.runtime.shim.folders import FolderRuntime, Furnish, JobUser

if TYPE_CHECKING:
    from nodeagent.runtime.container.runtime import ContainerRuntime

_AGENT_NAME_LETTERS = 8


@dataclass(frozen=True)
class RuntimeOptions:
    """The runtime's options from the command line."""

    name: str = "auto"
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
    platform: Optional[Platform] = None,
) -> Runtime:
    """The runtime of this name; `RuntimeUnavailable` says why it cannot be used here.

    `furnish` writes what jobs need of the GPU driver, and batch scripts call the `platform`.
    """
    place = _Place(options, state=state, identity=identity, emulated_gpus=emulated_gpus, listener=listener)
    runtime = place.open()
    if furnish is not None:
        runtime.furnish = furnish
    if platform is not None:
        runtime.platform = platform
    return runtime


class _Place:
    """The surroundings in which an agent opens its runtimes."""

    def __init__(
        self, options: RuntimeOptions, *, state: str, identity: str, emulated_gpus: bool, listener: Listener
    ) -> None:
        self._options = options
        self._state = state
        self._agent = "".join(letter for letter in identity.lower() if letter.isalnum())[:_AGENT_NAME_LETTERS]
        self._emulated_gpus = emulated_gpus
        self._listener = listener

    def open(self) -> Union[FolderRuntime, AutoRuntime]:
        """The runtime that the options name."""
        name = self._options.name
        if name == "process":
            return self._process()
        if name in ENGINES:
            return self._engine(name)
        if name != "auto":
            raise RuntimeUnavailable("{!r} is not a runtime; there are {}".format(name, ", ".join(RUNTIMES)))
        process = self._process(others=ENGINES)
        try:
            return AutoRuntime(process, functools.partial(self._engine, beside=process))
        except BaseException:
            process.close()
            raise

    def _process(self, others: Collection[str] = ()) -> ProcessRuntime:
        return ProcessRuntime(
            self._state,
            self._listener,
            self._options.job_user,
            self._options.log_spool_mib << 20,
            pids=self._options.containers.pids,
            cgroup_root=delegated_root(),
            hide=self._options.hide,
            others=others,
        )

    def _engine(self, name: str, *, waits: bool = False, beside: Optional[FolderRuntime] = None) -> ContainerRuntime:
        if name == "podman" and shutil.which("podman") is None:
            raise RuntimeUnavailable("podman is not installed")
        docker = _docker_module(self._options.docker_socket) if name == "docker" else None
        # Only here, as containers take a tenth of what an agent loads.
        from nodeagent.runtime.container.runtime import Setup  # noqa: PLC0415

        setup = Setup(
            agent=self._agent,
            options=self._options.containers,
            emulated_gpus=self._emulated_gpus,
            job_user=self._options.job_user,
            spool_bytes=self._options.log_spool_mib << 20,
            beside=beside,
            waits=waits,
        )
        if docker is not None:
            runtime: ContainerRuntime = docker.DockerRuntime(
                self._state, self._listener, setup, socket=self._options.docker_socket
            )
            return runtime
        from nodeagent.runtime.podman.runtime import PodmanRuntime  # noqa: PLC0415

        return PodmanRuntime(self._state, self._listener, setup)


def _docker_module(socket: str) -> Any:
    """The module of the runtime `docker`: its Python package is not part of the agent, and takes long to load."""
    if not os.path.exists(socket):
        raise RuntimeUnavailable("docker: there is no socket {}".format(socket))
    importlib.invalidate_caches()  # the package may have been installed since the last look
    try:
        return importlib.import_module("nodeagent.runtime.docker.runtime")
    except ModuleNotFoundError as error:
        detail = (
            "docker needs the Python package docker, and {} has none ({}). "
            "Install it (Debian and Ubuntu: apt install python3-docker), or run muster-agent by a Python that has it"
        )
        raise RuntimeUnavailable(detail.format(sys.executable, error)) from error
