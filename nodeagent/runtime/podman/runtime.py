"""The runtime `podman`."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional

from nodeagent.runtime.container.options import Options
from nodeagent.runtime.container.runtime import ContainerRuntime
from nodeagent.runtime.podman.engine import PodmanEngine
from nodeagent.runtime.port import Listener
from nodeagent.runtime.shim.folders import JobUser
from nodeagent.runtime.shim.forker import Forker

JOBS = "nodeagent.runtime.podman.job"
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "REGISTRY_AUTH_FILE", "DBUS_SESSION_BUS_ADDRESS")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class PodmanRuntime(ContainerRuntime):
    """Runs allocations by the Podman of this machine."""

    name = "podman"

    def __init__(
        self,
        state: str,
        listener: Listener,
        *,
        agent: str,
        options: Options,
        environment: Optional[Mapping[str, str]] = None,
        emulated_gpus: bool = False,
        job_user: Optional[JobUser] = None,
        spool_bytes: int = 64 << 20,
        forker: Optional[Forker] = None,
    ) -> None:
        self._environment = podman_environment(os.environ if environment is None else environment)
        super().__init__(
            state,
            listener,
            engine=PodmanEngine(self._environment),
            agent=agent,
            forker=forker or Forker(JOBS),
            options=options,
            emulated_gpus=emulated_gpus,
            job_user=job_user,
            spool_bytes=spool_bytes,
        )

    def _engine_address(self) -> Dict[str, Any]:
        return {"environment": self._environment}


def podman_environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """What of the agent's environment is Podman's business; shims run it with the same."""
    return {
        name: value
        for name, value in environment.items()
        if name in _PASSED_ON or name.startswith("CONTAINERS_") or name.upper() in _PROXIES
    }
