"""The runtime `docker`."""

from __future__ import annotations

import importlib.util
import os
from typing import Any, Dict, Optional, Tuple

from nodeagent.runtime.container.runtime import ContainerRuntime, Setup
from nodeagent.runtime.docker.engine import DockerEngine
from nodeagent.runtime.port import Listener
from nodeagent.runtime.shim.forker import Forker

JOBS = "nodeagent.runtime.docker.job"


class DockerRuntime(ContainerRuntime):
    """Runs allocations by a Docker Engine of this machine."""

    name = "docker"
    has_nvidia_hook = True

    def __init__(
        self, state: str, listener: Listener, setup: Setup, *, socket: str, forker: Optional[Forker] = None
    ) -> None:
        self._socket = socket
        forker = forker or Forker(JOBS, package_paths())
        super().__init__(state, listener, setup, engine=DockerEngine(socket), forker=forker)

    def _engine_address(self) -> Dict[str, Any]:
        return {"socket": self._socket}

    def _engine_sockets(self) -> Tuple[str, ...]:
        return (self._socket,)


def package_paths() -> Tuple[str, ...]:
    """Folders of the package `docker` and its dependencies: the fork server searches no other."""
    found = [importlib.util.find_spec(name) for name in ("docker", "requests", "urllib3")]
    folders = [os.path.dirname(os.path.dirname(spec.origin)) for spec in found if spec is not None and spec.origin]
    return tuple(dict.fromkeys(folders))
