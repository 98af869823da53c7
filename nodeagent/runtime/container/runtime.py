"""The agent's side of the runtimes with a container engine."""

from __future__ import annotations

import logging
import os
import select
import signal
import stat
from dataclasses import dataclass, replace
from typing import Any, Dict, Mapping, Optional, Tuple

from nodeagent.protocol.messages import EndReason, LaunchSpec, RegistryLogin
from nodeagent.runtime.container import cdi
from nodeagent.runtime.container.engine import NO_ENGINE, About, Engine, EngineError, ImageProblem
from nodeagent.runtime.container.fetches import Fetches
from nodeagent.runtime.container.images import host_of, registry_of, without_secret
from nodeagent.runtime.container.layer import layer_of
from nodeagent.runtime.container.meeting import meets_by_names, network_problem, own_network
from nodeagent.runtime.container.options import Options
from nodeagent.runtime.container.plan import MODULES, container_name, image_of, network_of, plan_of, volumes_of
from nodeagent.runtime.container.strays import Strays
from nodeagent.runtime.container.volumes import unstage, unstage_all_but
from nodeagent.runtime.port import (
    ExitStatus,
    Holdings,
    LaunchError,
    Listener,
    NotYet,
    Phase,
    RuntimeUnavailable,
    Tell,
    Wanted,
)
from nodeagent.runtime.shim import tree
from nodeagent.runtime.shim.folders import FolderRuntime, JobUser
from nodeagent.runtime.shim.forker import Forker
from nodeagent.runtime.shim.layout import AllocationFolder, read_exit
from nodeagent.system.files import read_json

_log = logging.getLogger("nodeagent.runtime")

INFINIBAND = "/dev/infiniband"
_INFINIBAND_FOR_JOBS = ("uverbs", "rdma_cm")  # the others manage the fabric
_KILL_WAIT_MS = 2_000
_ASKED_WITH = " (asked with the tenant's credentials for {})"
_ASKED_WITHOUT = " (asked without credentials of the tenant for {})"


@dataclass(frozen=True)
class Setup:
    """The options and resources of a container runtime, the same for each engine."""

    agent: str
    """A short name that no other agent of the engine has."""
    options: Options
    emulated_gpus: bool = False
    job_user: Optional[JobUser] = None
    spool_bytes: int = 64 << 20
    beside: Optional[FolderRuntime] = None
    """The runtime of the same agent that has the same folders."""
    waits: bool = False
    """True to open it although the engine does not answer: it starts no job, and answers for those that it has."""


class ContainerRuntime(FolderRuntime):
    """Runs each allocation in a container of its own."""

    has_groups = True
    passes_terminals_on = True
    has_nvidia_hook = False
    """True if the engine can be given GPUs by UUID without CDI."""

    def __init__(self, state: str, listener: Listener, setup: Setup, *, engine: Engine, forker: Forker) -> None:
        """Raises `RuntimeUnavailable` where the engine does not answer, unless the runtime `waits` for it."""
        if os.geteuid() != 0:
            raise RuntimeUnavailable(
                "{} would be rootless, which is not supported: the agent needs root for containers".format(self.name)
            )
        self._engine = engine
        self.silent_because = ""
        """The reason that the engine could not be asked at the start; empty if it answered."""
        try:
            self.about = self.ask_engine()
        except RuntimeUnavailable as error:
            if not setup.waits:
                raise
            self.about, self.silent_because = NO_ENGINE, str(error)
        super().__init__(
            state, listener, forker=forker, job_user=setup.job_user, spool_bytes=setup.spool_bytes, beside=setup.beside
        )
        self._agent = setup.agent
        self._options = setup.options
        self._emulated_gpus = setup.emulated_gpus
        self._state = state
        self._strays = Strays(engine)
        self._fetches = Fetches()
        if self.silent_because:
            return
        try:
            self._remove_strays()
        except EngineError as error:
            self.close()
            raise RuntimeUnavailable("the runtime {}: {}".format(self.name, error)) from error

    def labels(self) -> Mapping[str, str]:
        """The device control group keeps jobs from each other's GPUs; each runs as its member."""
        return {
            "isolation": "enforced",
            "limits": "enforced",
            "default-image": self._options.default_image,
            "gang-network": self._options.gang_network or ("own overlay" if self.about.has_overlays else "own bridge"),
            self.name: self.about.version,
        }

    def ask_engine(self) -> About:
        """The engine's present version and abilities; `RuntimeUnavailable` if it does not answer."""
        try:
            return self._engine.about()
        except EngineError as error:
            raise RuntimeUnavailable("the runtime {}: {}".format(self.name, error)) from error

    def mount_roots(self) -> Tuple[str, ...]:
        """As the operator of the node says."""
        return self._options.mount_roots

    def prepare(self, spec: LaunchSpec) -> str:
        """Make the folder, with the FIFOs for the output of the container and for how its command failed."""
        image_of(spec, self._options)
        volumes_of(spec, self._options)
        self._require_network(spec)
        work = super().prepare(spec)
        try:
            folder = self._folder(spec.allocation_id)
            os.mkfifo(folder.out, 0o600)
            os.mkfifo(folder.status, 0o600)
        except OSError as error:
            raise LaunchError(EndReason.LAUNCH_FAILED, "cannot make its folder: {}".format(error.strerror)) from error
        return work

    def _require_network(self, spec: LaunchSpec) -> None:
        """Check that the ranks of a gang can find each other; otherwise they would wait for each other silently."""
        name = network_of(spec, self._options)
        if not meets_by_names(spec, name):
            return
        try:
            if name == own_network(spec.pool):
                self._engine.make_network(name)
            network = self._engine.network(name)
        except EngineError as error:
            raise LaunchError(EndReason.LAUNCH_FAILED, str(error)) from error
        problem = "" if network is None else network_problem(name, network, spec.env)
        if problem:
            raise LaunchError(EndReason.SPEC_REFUSED, "nodes: " + problem)

    def lacks(self, spec: LaunchSpec) -> str:
        """The registry's host, where the image must be pulled or the registry asked for it again."""
        image = image_of(spec, self._options)
        try:
            asks = bool(spec.image and spec.ask_registry)
            has = self._engine.is_made_here(image) if asks else self._engine.has_image(image)
        except EngineError as error:
            raise LaunchError(EndReason.LAUNCH_FAILED, str(error)) from error
        return "" if has else host_of(image)

    def fetch(self, spec: LaunchSpec, login: Optional[RegistryLogin], tell: Tell, wanted: Wanted) -> None:
        """Pull the image. A login is sent only to the registry that it belongs to."""
        image = image_of(spec, self._options)
        if login is not None and (not spec.image or login.registry != registry_of(image)):
            raise LaunchError(EndReason.SPEC_REFUSED, "registry_login: it is not for the registry of {}".format(image))
        with self._fetches.one() as fetch:
            try:
                self._pull(image, login, tell, lambda: wanted() and not fetch.given_up)
            except LaunchError:
                if fetch.given_up and wanted():
                    raise LaunchError(EndReason.IMAGE_NO_SPACE, "image {}: {}".format(image, fetch.given_up)) from None
                raise

    def _pull(self, image: str, login: Optional[RegistryLogin], tell: Tell, wanted: Wanted) -> None:
        try:
            self._engine.pull(image, login, tell, wanted)
        except ImageProblem as problem:
            said = "image {}: {}".format(image, without_secret(str(problem), login))
            if problem.reason is EndReason.IMAGE_DENIED:
                said += (_ASKED_WITH if login else _ASKED_WITHOUT).format(registry_of(image))
            # Not from the problem: it may hold more than may be told.
            raise LaunchError(problem.reason, said) from None
        except EngineError as error:
            raise LaunchError(EndReason.LAUNCH_FAILED, without_secret(str(error), login)) from None

    def give_up_fetches(self, device: int, why: str) -> bool:
        """End all pulls where that is the engine's disk."""
        try:
            is_engines = os.stat(self.about.root).st_dev == device
        except OSError:  # the engine is elsewhere
            return False
        return is_engines and self._fetches.give_up(why)

    def settle(self, allocation_id: int, fallback: ExitStatus) -> ExitStatus:
        """Kill and remove the container; `NotYet` while the engine is down or refuses."""
        try:
            return super().settle(allocation_id, fallback)
        except EngineError as error:
            raise NotYet(str(error)) from error

    def remove(self, allocation_id: int) -> None:
        """Remove the folder, and the container too if its shim may have failed to.

        A shim fails to if it did not learn of the container's end or start: the engine may answer after the shim has
        stopped waiting.
        """
        folder = self._folder(allocation_id)
        status = read_exit(folder.exit)
        if status is not None and status.reason in (EndReason.UNKNOWN, EndReason.LAUNCH_FAILED):
            name = self._forsaken(folder)
            if name:
                self._strays.remove_also_late(name)
        super().remove(allocation_id)

    def close(self) -> None:
        """Let go of the engine too; what it would not remove is found by the next run of the agent."""
        self._strays.close()
        super().close()

    def disks(self) -> Tuple[str, ...]:
        """The one of the allocations' folders, and the engine's."""
        own = super().disks()
        return (*own, self.about.root) if os.path.isdir(self.about.root) else own

    def holdings(self, allocation_id: int) -> Holdings:
        """The folders, and what the container has written over its image, where that is a folder of its own."""
        found = super().holdings(allocation_id)
        layer = layer_of(found.pids[0]) if found.pids else None
        if layer is None:
            return found
        return replace(found, folders=(*found.folders, ("the layer over its image", layer.path)), devices=(layer.seen,))

    def containers(self) -> Tuple[str, ...]:
        """The names of all containers of this agent that the engine has."""
        return tuple(found.name for found in self._engine.containers(self._agent))

    def _commands(self, _folder: AllocationFolder) -> Tuple[str, str]:
        return MODULES, "python3"

    def _job(
        self, spec: LaunchSpec, folder: AllocationFolder, uid: Optional[int], gids: Tuple[int, ...]
    ) -> Dict[str, Any]:
        gpus = cdi.injection(
            spec.gpu_uuids,
            cdi.read_devices() if spec.gpu_uuids else {},
            knows_cdi=self.about.knows_cdi,
            has_nvidia_hook=self.has_nvidia_hook,
            emulated=self._emulated_gpus,
        )
        plan = plan_of(
            spec,
            folder,
            agent=self._agent,
            options=self._options,
            uid=uid,
            gids=gids,
            gpus=gpus,
            infiniband=_infiniband() if spec.infiniband and self._options.infiniband else (),
            keep_out=(os.path.abspath(self._state), *self._engine_sockets()),
            seccomp=self._seccomp(),
        )
        os.chown(folder.out, plan.uid, plan.gids[0])
        os.chown(folder.status, plan.uid, plan.gids[0])
        return {"plan": plan.to_dict(), "engine": self._engine_address()}

    def _engine_address(self) -> Dict[str, Any]:
        """The engine's address for a shim, in plain JSON types."""
        raise NotImplementedError

    def _engine_sockets(self) -> Tuple[str, ...]:
        """The sockets by which who has them commands the engine."""
        return ()

    def _seccomp(self) -> str:
        """The file with the filter of system calls of containers; empty where the engine's own is closed enough."""
        return ""

    def _sweep(self, folder: AllocationFolder) -> None:
        """Kill by the kernel, which needs no engine, and then have the engine remove what it knows."""
        marker = read_json(folder.shim) or {}
        root = marker.get("root")
        if root is not None and marker.get("boot_id") == self._boot_id:
            _kill_and_wait(int(root[0]), int(root[1]))
        name = self._forsaken(folder)
        try:
            if name:
                self._engine.remove(name)
        except EngineError as error:
            if root is None:
                raise
            _log.warning("a container is removed later: %s", error)

    def _forsaken(self, folder: AllocationFolder) -> str:
        """The name of the container whose shim is gone, empty if none came so far as to make it."""
        launch = read_json(folder.launch)
        if launch is None or not os.path.exists(folder.shim):
            return ""
        name = str(launch["task"]["job"]["plan"]["name"])
        unstage(name)  # no shim does it any more
        return name

    def _remove_strays(self) -> None:
        """Remove containers that no shim answers for: of superseded attempts, or left while the engine was down."""
        live = set()
        for allocation_id in self.allocations():
            spec = self.spec(allocation_id)
            if spec is not None and self.observe(allocation_id).phase not in (Phase.ABSENT, Phase.EXITED):
                live.add(container_name(self._agent, allocation_id, spec.fence))
        unstage_all_but(live, container_name(self._agent, 0, 0).rpartition("-0-0")[0] + "-")
        strays = [name for name in self.containers() if name not in live]
        for name in strays:
            _log.warning("container %s belongs to no allocation: removing it", name)
        self._strays.remove(strays)


def _infiniband() -> Tuple[str, ...]:
    """The device nodes by which programs reach the InfiniBand adapters; none where there is no adapter."""
    try:
        names = sorted(os.listdir(INFINIBAND))
    except FileNotFoundError:
        return ()
    paths = [os.path.join(INFINIBAND, name) for name in names if name.startswith(_INFINIBAND_FOR_JOBS)]
    return tuple(path for path in paths if stat.S_ISCHR(os.stat(path).st_mode))


def _kill_and_wait(pid: int, started_ticks: int) -> None:
    """Kill a container's first process, if it is still that one, and wait until the kernel has ended all of it.

    One that hangs in the kernel may end later, or never: `NotYet`.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if tree.identity(pid) != (pid, started_ticks):
            return
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        if not poller.poll(_KILL_WAIT_MS):
            raise NotYet("process {} of its container cannot be killed".format(pid))
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)
