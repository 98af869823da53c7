"""The runtime `auto`: jobs that need a container run in the engine of this machine, all others as processes.

Both runtimes share the folders of allocations. The folder of an allocation names its runtime, so a job stays in it
whichever engine answers when the agent restarts. A node has one engine: the one with unfinished jobs, else the first
that answers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Dict, Mapping, Optional, Protocol, Tuple

from nodeagent.protocol.messages import EndReason, LaunchSpec, MetricPoint, RegistryLogin
from nodeagent.runtime import ENGINES
from nodeagent.runtime.port import (
    ExitStatus,
    Holdings,
    LaunchError,
    LogSource,
    Observation,
    RuntimeUnavailable,
    Shell,
    ShellRequest,
    StopCause,
    Tell,
    Usage,
    Wanted,
    WorkFolder,
)
from nodeagent.runtime.process.runtime import ProcessRuntime
from nodeagent.runtime.shim import tree
from nodeagent.runtime.shim.commands import Platform
from nodeagent.runtime.shim.folders import FolderRuntime, Furnish

if TYPE_CHECKING:
    from nodeagent.runtime.container.runtime import ContainerRuntime

_MISSES_UNTIL_GONE = 2
"""Failed looks in a row until the node stops offering containers: a restart of an engine is shorter."""
_MAX_LABEL = 250

_log = logging.getLogger("nodeagent.runtime")


class OpenEngine(Protocol):
    """Opens the runtime of an engine by name, for the folders of the process runtime; see `ContainerRuntime`."""

    def __call__(self, name: str, *, waits: bool) -> ContainerRuntime:
        """Raises `RuntimeUnavailable`."""


class AutoRuntime:
    """Hands each allocation to the process runtime or to that of an engine; its calls are those of `Runtime`."""

    name = "auto"

    def __init__(self, process: ProcessRuntime, open_engine: OpenEngine) -> None:
        self._process = process
        self._open_engine = open_engine
        self._of_allocation: Dict[int, FolderRuntime] = {}
        self._misses = 0
        in_use = [name for name in ENGINES if name in process.runtimes_in_use()]
        if len(in_use) > 1:
            raise RuntimeUnavailable("jobs of {} run here: drain the node".format(" and ".join(in_use)))
        self._names = tuple(in_use) or ENGINES
        self._engine: Optional[ContainerRuntime] = None
        self._no_containers = ""
        """The reason that the node offers no containers; empty if it offers them."""
        if in_use:
            self._engine = open_engine(in_use[0], waits=True)
            self._no_containers = self._engine.silent_because
        else:
            self._engine, self._no_containers = self._first_that_answers()
        if self._no_containers:
            _log.warning("this node offers no containers: %s", self._no_containers)
        elif self._engine is not None:
            _log.info("this node offers containers, by %s %s", self._engine.name, self._engine.about.version)

    def _first_that_answers(self) -> Tuple[Optional[ContainerRuntime], str]:
        """The runtime of an engine that answers, or why there is none."""
        problems = []
        for name in self._names:
            try:
                return self._open_engine(name, waits=False), ""
            except RuntimeUnavailable as error:
                problems.append(str(error))
        return None, "; ".join(problems)

    @property
    def furnish(self) -> Furnish:
        """The function that writes the files which jobs need of the GPU driver."""
        return self._process.furnish

    @furnish.setter
    def furnish(self, furnish: Furnish) -> None:
        for runtime in self._runtimes():
            runtime.furnish = furnish

    @property
    def platform(self) -> Platform:
        """The platform as the programs of batch scripts reach it."""
        return self._process.platform

    @platform.setter
    def platform(self, platform: Platform) -> None:
        for runtime in self._runtimes():
            runtime.platform = platform

    def _runtimes(self) -> Tuple[FolderRuntime, ...]:
        return (self._process,) if self._engine is None else (self._process, self._engine)

    def offers(self) -> Tuple[str, ...]:
        """Processes, and containers while an engine answers."""
        if self._engine is None or self._no_containers:
            return (self._process.name,)
        return (self._process.name, self._engine.name)

    def change(self) -> str:
        """The change of an engine: it answers now, no longer answers, or has another version; empty for none."""
        if self._engine is not None and not self._no_containers:
            return self._change_of(self._engine)
        found, _ = self._first_that_answers()
        if found is None:
            return ""
        found.close()
        return "{} answers now".format(found.name)

    def _change_of(self, engine: ContainerRuntime) -> str:
        try:
            about = engine.ask_engine()
        except RuntimeUnavailable as error:
            self._misses += 1
            return "" if self._misses < _MISSES_UNTIL_GONE else str(error)
        self._misses = 0
        return "" if about == engine.about else "{} has changed".format(engine.name)

    @property
    def single_user(self) -> bool:
        """True if jobs without a container run as the agent's own account."""
        return self._process.single_user

    def labels(self) -> Mapping[str, str]:
        """Labels of jobs with and without a container; where the two differ, the weaker one: they share the machine."""
        if self._engine is None or self._no_containers:
            return {**self._process.labels(), "containers": _short(self._no_containers)}
        return {**self._engine.labels(), **self._process.labels(), "containers": ""}

    def mount_roots(self) -> Tuple[str, ...]:
        """Those of containers."""
        return () if self._engine is None or self._no_containers else self._engine.mount_roots()

    def prepare(self, spec: LaunchSpec) -> str:
        """Choose the runtime, and prepare there."""
        wish = container_wish(spec)
        if wish and (self._engine is None or self._no_containers):
            raise LaunchError(
                EndReason.LAUNCH_FAILED, "{}: this node offers no containers: {}".format(wish, self._no_containers)
            )
        runtime = self._engine if wish and self._engine is not None else self._process
        self._of_allocation[spec.allocation_id] = runtime
        return runtime.prepare(spec)

    def lacks(self, spec: LaunchSpec) -> str:
        return self._of(spec.allocation_id).lacks(spec)

    def fetch(self, spec: LaunchSpec, login: Optional[RegistryLogin], tell: Tell, wanted: Wanted) -> None:
        self._of(spec.allocation_id).fetch(spec, login, tell, wanted)

    def give_up_fetches(self, device: int, why: str) -> bool:
        """Cancel the pulls of the engine, if that is its disk."""
        return self._engine is not None and self._engine.give_up_fetches(device, why)

    def launch(self, spec: LaunchSpec) -> None:
        self._of(spec.allocation_id).launch(spec)

    def observe(self, allocation_id: int) -> Observation:
        return self._process.observe(allocation_id)

    def allocations(self) -> Tuple[int, ...]:
        return self._process.allocations()

    def spec(self, allocation_id: int) -> Optional[LaunchSpec]:
        return self._process.spec(allocation_id)

    def adopt(self, allocation_id: int) -> Optional[Tuple[str, float]]:
        """Take it up in the runtime that it was launched in."""
        return self._of(allocation_id).adopt(allocation_id)

    def stop(self, allocation_id: int, signal: str, grace_s: float, cause: Optional[StopCause] = None) -> None:
        self._of(allocation_id).stop(allocation_id, signal, grace_s, cause)

    def limit(self, allocation_id: int, time_left_s: float) -> None:
        self._of(allocation_id).limit(allocation_id, time_left_s)

    def settle(self, allocation_id: int, fallback: ExitStatus) -> ExitStatus:
        return self._of(allocation_id).settle(allocation_id, fallback)

    def usage(self) -> Mapping[int, Usage]:
        """Usage by the allocations of both runtimes; the processes of the machine are read once."""
        processes = tree.all_processes()
        of = {allocation_id: self._of(allocation_id) for allocation_id in self.allocations()}
        found: Dict[int, Usage] = {}
        for runtime in self._runtimes():
            found.update(runtime.usage_of([one for one, its in of.items() if its is runtime], processes))
        return found

    def reported(self, allocation_id: int) -> Tuple[MetricPoint, ...]:
        return self._of(allocation_id).reported(allocation_id)

    def log(self, allocation_id: int) -> LogSource:
        return self._process.log(allocation_id)

    def shell(self, allocation_id: int, request: ShellRequest) -> Shell:
        return self._of(allocation_id).shell(allocation_id, request)

    def work(self, spec: LaunchSpec) -> Optional[WorkFolder]:
        return self._of(spec.allocation_id).work(spec)

    def disks(self) -> Tuple[str, ...]:
        """The disk of the agent's folders, and that of the engine."""
        return (self._process if self._engine is None else self._engine).disks()

    def holdings(self, allocation_id: int) -> Holdings:
        return self._of(allocation_id).holdings(allocation_id)

    def remove(self, allocation_id: int) -> None:
        self._of(allocation_id).remove(allocation_id)
        self._of_allocation.pop(allocation_id, None)

    def clear(self) -> None:
        self._process.clear()

    def renew(self, sent_at: float, stop_after_s: float) -> None:
        self._process.renew(sent_at, stop_after_s)

    def containers(self) -> Tuple[str, ...]:
        """The names of all containers of this agent that the engine has."""
        return () if self._engine is None else self._engine.containers()

    def close(self) -> None:
        """Let go of both runtimes; jobs go on."""
        for runtime in reversed(self._runtimes()):
            runtime.close()

    def _of(self, allocation_id: int) -> FolderRuntime:
        """The runtime of an allocation: where it was prepared, or launched by an earlier run of the agent."""
        runtime = self._of_allocation.get(allocation_id)
        if runtime is None:
            name = self._process.runtime_of(allocation_id)
            runtime = next((one for one in self._runtimes() if one.name == name), self._process)
            if name:
                self._of_allocation[allocation_id] = runtime
        return runtime


def container_wish(spec: LaunchSpec) -> str:
    """The field by which a job asks for a container; empty where it is a process."""
    wishes = {"image": spec.image, "mounts": spec.mounts, "shm": spec.shm_mib}
    return next((name for name, value in wishes.items() if value), "")


def _short(text: str) -> str:
    """The text, cut to the length of a label."""
    return text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…"
