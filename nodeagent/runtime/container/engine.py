"""The interface of container engines to the agent and its shims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, NoReturn, Optional, Protocol, Sequence, Tuple

from nodeagent.protocol.messages import EndReason, RegistryLogin
from nodeagent.runtime.container.meeting import Network
from nodeagent.runtime.container.plan import Plan
from nodeagent.runtime.port import Tell, Wanted

LABEL = "muster.agent"


class EngineError(Exception):
    """The engine refused something; the message is its own."""


class EngineUnavailable(EngineError):
    """The engine does not answer; the message says which, where, and what to look at."""


class NameTaken(EngineError):
    """A container of this name is there already."""


class ImageProblem(EngineError):
    """An image cannot be had; `reason` is the class of the problem."""

    def __init__(self, reason: EndReason, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)


@dataclass(frozen=True)
class About:
    """An engine's version and abilities."""

    version: str
    knows_cdi: bool
    """True if it takes devices by the names of the Container Device Interface."""
    root: str = ""
    """The folder of its images and containers; empty where it does not say."""
    has_overlays: bool = False
    """True if its networks may span machines, by an overlay."""


NO_ENGINE = About(version="", knows_cdi=False)
"""Version and abilities assumed of an engine that has not answered yet."""


@dataclass(frozen=True)
class State:
    """An engine's state of one container."""

    id: str
    running: bool
    pid: int = 0
    """The container's init in the eyes of the host; 0 when there is none."""
    exit_code: Optional[int] = None
    """None while it has not been started."""
    oom_killed: bool = False


@dataclass(frozen=True)
class Found:
    """A container that carries our label."""

    name: str
    labels: Mapping[str, str]


class Engine(Protocol):
    """A container engine of this machine. Every call raises `EngineUnavailable` where the engine does not answer."""

    def about(self) -> About:
        """The engine's version and abilities."""

    def has_image(self, image: str) -> bool:
        """True if a container of the image can be made without pulling."""

    def is_made_here(self, image: str) -> bool:
        """True if the image was built or loaded on this machine and came from no registry."""

    def pull(self, image: str, login: Optional[RegistryLogin], tell: Tell, wanted: Wanted) -> None:
        """Pull an image while `wanted`, and tell the progress.

        The registry is asked even if the engine has the image.

        Raises: ImageProblem if the image cannot be pulled or the login has no right to it.
        """

    def network(self, name: str) -> Optional[Network]:
        """A network; None where the engine knows none of this name, or not before a container is in it."""

    def make_network(self, name: str) -> None:
        """Make a network in which containers have names, unless there is one of this name.

        It is an overlay where the engine has them, else a bridge. A worker of a swarm makes none: a manager does.
        """

    def create(self, plan: Plan) -> None:
        """Make the container; `NameTaken` if there is one of its name."""

    def start(self, name: str) -> None:
        """Start a container that was made."""

    def state(self, name: str) -> Optional[State]:
        """The state of a container; None when there is none of this name."""

    def remove(self, name: str) -> None:
        """Kill and remove a container; on return there is none of this name."""

    def containers(self, agent: str) -> Tuple[Found, ...]:
        """Every container that carries the label of this agent, running or not."""

    def become_exec(self, name: str, argv: Sequence[str], *, env: Mapping[str, str], terminal: bool) -> NoReturn:
        """Turn this process into a command in a running container, as the container's user and with its rights.

        Its standard streams are the command's, its exit status is the command's. `OSError` if that cannot be.
        """
