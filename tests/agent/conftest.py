"""Fixtures of the agent's tests: a platform, agents as real processes, and a runtime of each kind."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from nodeagent.protocol.messages import LaunchSpec
from nodeagent.runtime import ENGINES
from nodeagent.runtime.auto import AutoRuntime
from nodeagent.runtime.container.options import Options
from nodeagent.runtime.container.runtime import ContainerRuntime, Setup
from nodeagent.runtime.docker import runtime as docker_runtime
from nodeagent.runtime.docker.runtime import DockerRuntime
from nodeagent.runtime.podman import runtime as podman_runtime
from nodeagent.runtime.podman.engine import PodmanEngine
from nodeagent.runtime.podman.runtime import PodmanRuntime
from nodeagent.runtime.port import EventKind, ExitStatus, Runtime, RuntimeUnavailable
from nodeagent.runtime.process import runtime as process_runtime
from nodeagent.runtime.process.runtime import ProcessRuntime
from nodeagent.runtime.shim.forker import Forker
from nodeagent.system import clock
from tests import engines
from tests.agent.fake_platform import JOB_IDS, FakePlatform
from tests.waiting import eventually, stretched

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tmp_path(open_folder: Path) -> Path:
    """A folder that the users of jobs pass through. Each session of pytest that begins closes pytest's own to them."""
    return open_folder


@pytest.fixture
def platform() -> Iterator[FakePlatform]:
    """A platform; the test fails if the agent broke the protocol."""
    fake = FakePlatform()
    yield fake
    fake.outage()
    assert fake.violations == []


class AgentProcess:
    """A real agent; `kill` and `start` again keep its state folder."""

    def __init__(self, platform: FakePlatform, state: Path) -> None:
        self.platform = platform
        self.state = state
        self.process: subprocess.Popen[bytes] | None = None
        self.program = [sys.executable, "-m", "nodeagent"]
        # A test that wants the engine of this machine says so.
        self.options = ["--gpus", "emulated:A100:2,V100:1", "--cpus", "4", "--memory-mib", "1000", "--runtime=process"]
        self.environment: dict[str, str] = {}
        self.join_token = platform.join_token
        self.output = state.parent / "agent.log"

    def start(self) -> AgentProcess:
        before = self.platform.epoch
        self.launch()
        eventually(lambda: self.platform.epoch > before, "a registration")
        return self

    def launch(self) -> None:
        """Start without waiting for the registration."""
        with self.output.open("ab") as output:
            command = [*self.program, "run", "--url", self.platform.url, "--state", str(self.state)]
            if self.join_token:
                token_file = self.state.parent / "join-token"
                token_file.write_text(self.join_token)
                command += ["--join-token-file", str(token_file)]
            environment = {"PATH": os.environ["PATH"], **self.environment}
            self.process = subprocess.Popen(
                command + self.options, cwd=ROOT, env=environment, stdout=output, stderr=output
            )

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(stretched(10))

    def end(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.wait()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.wait()

    def allocation_folder(self, allocation_id: int) -> Path:
        return self.state / "allocations" / str(allocation_id)


@pytest.fixture
def agent(platform: FakePlatform, tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that is not started yet. What its jobs leave is stopped in the end."""
    made = AgentProcess(platform, tmp_path / "state")
    made.program = [sys.executable, "-m", "tests.agent.with_timers"]
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()
    runtime = ProcessRuntime(str(made.state), lambda _id, _kind: None)
    stop_everything(runtime)


class KeptForker(Forker):
    """A zygote that outlives the runtime that it was made for: to start one for each test takes a second."""

    def close(self) -> None:
        """The session ends it."""

    def end(self) -> None:
        super().close()


Listener = Callable[[int, EventKind], None]


class RuntimeUnderTest:
    """A runtime with what tests ask of it again and again."""

    def __init__(self, make: Callable[[Listener], Runtime], state: Path, image: str, name: str) -> None:
        self.name = name
        self._make = make
        self.state = state
        self.image = image
        self.events: queue.SimpleQueue[tuple[int, EventKind]] = queue.SimpleQueue()
        self.runtime = make(self._heard)
        self._next_id = 0

    def _heard(self, allocation_id: int, kind: EventKind) -> None:
        self.events.put((allocation_id, kind))

    def restart(self) -> None:
        """Start a new run of the agent: the same state, nothing in memory."""
        self.runtime.close()
        self.runtime = self._make(self._heard)

    def spec(self, command: str, **fields: object) -> LaunchSpec:
        self._next_id += 1
        values: dict[str, object] = {
            "allocation_id": self._next_id,
            "job_id": 1,
            "attempt": 1,
            "rank": 0,
            "fence": 1,
            "name": "test",
            "owner": "alice",
            "grace_s": 2.0,
            "command": command,
            "image": self.image,
            **JOB_IDS,
        }
        return LaunchSpec(**{**values, **fields})  # type: ignore[arg-type]

    def start(self, command: str, files: Mapping[str, bytes] | None = None, **fields: object) -> int:
        """Start a command with these files in its working folder."""
        spec = self.spec(command, **fields)
        folder = Path(self.runtime.prepare(spec))
        for name, content in (files or {}).items():
            (folder / name).write_bytes(content)
        self.runtime.launch(spec)
        return spec.allocation_id

    def renewing(self, look: Callable[[], T], what: str, stop_after_s: float) -> T:
        """The first true value of `look`; the lease is renewed as an agent does it until then, and not after that."""

        def renew_and_look() -> T:
            self.runtime.renew(clock.boottime(), stop_after_s)
            return look()

        return eventually(renew_and_look, what, 30.0)

    @property
    def in_containers(self) -> bool:
        return bool(self.image)

    def work(self, allocation_id: int) -> str:
        """The working folder as the job sees it."""
        return "/workspace" if self.in_containers else str(self.folder(allocation_id) / "work")

    def shim(self, allocation_id: int) -> int:
        """The process number of the allocation's shim."""
        return int(json.loads((self.folder(allocation_id) / "shim.json").read_text())["identity"][0])

    def folder(self, allocation_id: int) -> Path:
        return self.state / "allocations" / str(allocation_id)

    def exit(self, allocation_id: int, within_s: float = 20.0) -> ExitStatus:
        """The exit status, once there is one."""
        return eventually(lambda: self.runtime.observe(allocation_id).exit, "an exit", within_s)

    def run(self, command: str, **fields: object) -> tuple[ExitStatus, bytes]:
        """Run a command to its end; its status and its output."""
        allocation_id = self.start(command, **fields)
        return self.exit(allocation_id), self.output(allocation_id)

    def output(self, allocation_id: int) -> bytes:
        """Everything that the spool keeps."""
        source = self.runtime.log(allocation_id)
        position, kept = 0, b""
        while True:
            start, data = source.read(position, 1 << 20)
            if not data:
                source.close()
                return kept
            position, kept = start + len(data), kept + data

    def printed(self, allocation_id: int, text: bytes) -> bytes:
        """The output, once it has `text`."""
        return eventually(lambda: text in self.output(allocation_id) and self.output(allocation_id), repr(text))


@pytest.fixture(scope="session")
def forkers() -> Iterator[Callable[[str], KeptForker]]:
    """One zygote of each kind for the session."""
    kept: dict[str, KeptForker] = {}

    def forker(jobs: str) -> KeptForker:
        return kept.setdefault(jobs, KeptForker(jobs, docker_runtime.package_paths()))

    yield forker
    for one in kept.values():
        one.end()


@pytest.fixture(scope="session", autouse=True)
def _podman_tells_of_itself_once() -> Iterator[None]:
    """Asks `podman info` once for the session: it starts a package manager for the versions of all its programs.

    This is most of what a test of Podman computes. Podmen that are no real one are asked each time.
    """
    ask, told = PodmanEngine._ask, dict[tuple[str, ...], str]()

    def ask_once(self: PodmanEngine, *words: str) -> str:
        if words[0] != "info" or self._environment.get("PATH") != os.environ["PATH"]:
            return ask(self, *words)
        if words not in told:
            told[words] = ask(self, *words)
        return told[words]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PodmanEngine, "_ask", ask_once)
        yield


def is_alive(word: str) -> bool:
    """True if any process of the machine, in whatever container, has this word on its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if word.encode() in path.read_bytes().split(b"\0"):
                return True
    return False


@pytest.fixture
def seconds() -> str:
    """A long time that no other process sleeps for, so that a sleeper can be found by it."""
    return f"{random.randrange(10**8, 10**9)}"


PROCESS_BY_AUTO, DOCKER_BY_AUTO = "process by auto", "docker by auto"


# The runtime `auto` hands jobs to those of processes and of Docker, which are so tried with it.
@pytest.fixture(params=[PROCESS_BY_AUTO, DOCKER_BY_AUTO, "podman"])
def under_test(
    request: pytest.FixtureRequest, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> Iterator[RuntimeUnderTest]:
    """A runtime of each kind."""
    made = runtime_under_test(str(request.param), tmp_path / "state", forkers)
    yield made
    stop_everything(made.runtime)
    assert _containers_of(made.runtime) == ()


def runtime_under_test(
    kind: str,
    state: Path,
    forkers: Callable[[str], KeptForker],
    options: Options | None = None,
    *,
    socket: str = "",
) -> RuntimeUnderTest:
    """A runtime of one kind; the test is skipped where there is no engine for it."""
    agent = f"t{os.getpid()}n{next(_NUMBERS)}"
    # The tests' dockerd has no bridge, and loopback is all that a test may use anyway.
    options = options or Options(network="none", gang_network="none")
    spool_bytes = 1 << 20
    setup = Setup(agent, options, emulated_gpus=True, spool_bytes=spool_bytes)
    if kind == "docker":
        socket, forker = socket or engines.docker_socket(), forkers(docker_runtime.JOBS)

        def make(heard: Listener) -> Runtime:
            return DockerRuntime(str(state), heard, setup, socket=socket, forker=forker)
    elif kind == "podman":
        environment, forker = engines.podman_environment(), forkers(podman_runtime.JOBS)

        def make(heard: Listener) -> Runtime:
            return PodmanRuntime(str(state), heard, setup, environment=environment, forker=forker)
    elif kind == "process":
        forker = forkers(process_runtime.JOBS)

        def make(heard: Listener) -> Runtime:
            return ProcessRuntime(str(state), heard, spool_bytes=spool_bytes, forker=forker)
    else:
        socket = socket or (engines.docker_socket() if kind == DOCKER_BY_AUTO else "")

        def make(heard: Listener) -> Runtime:
            return auto_runtime(state, heard, forkers, socket, agent=agent, options=options)

    image = "" if kind in ("process", PROCESS_BY_AUTO) else engines.IMAGE
    return RuntimeUnderTest(make, state, image, agent)


def auto_runtime(
    state: Path, heard: Listener, forkers: Callable[[str], KeptForker], socket: str, *, agent: str, options: Options
) -> AutoRuntime:
    """The runtime `auto` with the Docker of this socket, or with no engine where the path is empty."""
    process = ProcessRuntime(
        str(state), heard, spool_bytes=1 << 20, forker=forkers(process_runtime.JOBS), others=ENGINES
    )

    def open_engine(name: str, *, waits: bool) -> ContainerRuntime:
        if not socket or name != "docker":
            raise RuntimeUnavailable(f"{name} is not installed")
        setup = Setup(agent, options, emulated_gpus=True, spool_bytes=1 << 20, beside=process, waits=waits)
        return DockerRuntime(str(state), heard, setup, socket=socket, forker=forkers(docker_runtime.JOBS))

    try:
        return AutoRuntime(process, open_engine)
    except BaseException:
        process.close()
        raise


_NUMBERS = itertools.count()


def _containers_of(runtime: Runtime) -> tuple[str, ...]:
    """Containers of this runtime's jobs that the engine still has."""
    return runtime.containers() if isinstance(runtime, (ContainerRuntime, AutoRuntime)) else ()


def stop_everything(runtime: Runtime) -> None:
    for allocation_id in runtime.allocations():
        runtime.adopt(allocation_id)
        runtime.stop(allocation_id, "KILL", 0.0)
    for allocation_id in runtime.allocations():
        eventually(
            lambda number=allocation_id: runtime.observe(number).phase.name not in ("STARTING", "RUNNING"), "the end"
        )
    runtime.close()
