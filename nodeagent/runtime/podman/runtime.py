"""The runtime `podman`."""

from __future__ import annotations

import errno
import json
import os
from typing import Any, Dict, Mapping, Optional

from nodeagent.runtime.container.engine import EngineError
from nodeagent.runtime.container.runtime import ContainerRuntime, Setup
from nodeagent.runtime.podman.engine import PodmanEngine
from nodeagent.runtime.podman.seccomp import without_ways_up
from nodeagent.runtime.port import Listener, RuntimeUnavailable
from nodeagent.runtime.shim.forker import Forker
from nodeagent.system.files import keep_json

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
        setup: Setup,
        *,
        environment: Optional[Mapping[str, str]] = None,
        forker: Optional[Forker] = None,
    ) -> None:
        self._environment = podman_environment(os.environ if environment is None else environment)
        engine = PodmanEngine(self._environment)
        super().__init__(state, listener, setup, engine=engine, forker=forker or Forker(JOBS))
        self._filter = ""
        if self.silent_because:
            return
        try:
            self._filter = self._write_filter(engine, os.path.join(os.path.abspath(state), "seccomp.json"))
        except BaseException:
            self.close()
            raise

    def _seccomp(self) -> str:
        return self._filter

    def _write_filter(self, engine: PodmanEngine, path: str) -> str:
        """Write the filter of system calls for containers, made of Podman's own, and return its path."""
        source = ""
        try:
            source = engine.seccomp_profile()
            with open(source, encoding="utf-8") as file:
                profile = without_ways_up(json.load(file))
            try:
                keep_json(path, profile)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self.clear()  # what jobs left may be what fills the disk
                keep_json(path, profile)
        except EngineError as error:
            raise RuntimeUnavailable("the runtime podman: {}".format(error)) from error
        except (OSError, ValueError, AttributeError) as error:
            detail = "the runtime podman: containers need its seccomp profile, and {!r} cannot be used: {}"
            raise RuntimeUnavailable(detail.format(source, error)) from error
        return path

    def _engine_address(self) -> Dict[str, Any]:
        return {"environment": self._environment}


def podman_environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """The part of the agent's environment that Podman uses; shims run it with the same."""
    return {
        name: value
        for name, value in environment.items()
        if name in _PASSED_ON or name.startswith("CONTAINERS_") or name.upper() in _PROXIES
    }
