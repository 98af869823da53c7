"""Podman through its command line."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple

from nodeagent.protocol.messages import RegistryLogin
from nodeagent.runtime.container.engine import (
    LABEL,
    About,
    EngineError,
    EngineUnavailable,
    Found,
    ImageProblem,
    NameTaken,
    State,
)
from nodeagent.runtime.container.images import Progress, basic, problem_of, qualified
from nodeagent.runtime.container.meeting import Network
from nodeagent.runtime.container.plan import Mount, Plan
from nodeagent.runtime.container.pulling import pieces_of
from nodeagent.runtime.port import Tell, Wanted
from nodeagent.system.files import write_all

_CALL_S, _REMOVE_S = 120.0, 30.0
_END_PULL_S = 10.0
"""So long a pull that is given up may take to leave the images in order, which SIGKILL would not let it."""
_NOT_STARTED = ("created", "configured", "initialized")


class PodmanEngine:
    """The Podman that `environment` (its PATH and CONTAINERS_… variables) leads to."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._root = ""

    def about(self) -> About:
        """Its version, and where its files are; every one since 4.1 knows CDI.

        `info` is asked once, since it has the package manager look up all its programs each time.
        """
        if not self._root:
            said = self._ask("info", "--format", "{{.Version.Version}}\n{{.Store.GraphRoot}}")
            version, self._root = said.strip().split("\n")
            return About(version=version, knows_cdi=True, root=self._root)
        self._ask("ps", "--quiet", "--last=1")  # its storage answers
        version = self._ask("version", "--format", "{{.Client.Version}}").strip()
        return About(version=version, knows_cdi=True, root=self._root)

    def seccomp_profile(self) -> str:
        """The file with the filter of system calls that containers get; empty where they get none from a file."""
        said = self._ask("info", "--format", "json")
        try:
            security: Dict[str, Any] = json.loads(said)["host"]["security"]
            return str(security.get("seccompProfilePath") or "") if security.get("seccompEnabled") else ""
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EngineError("podman info does not tell of its seccomp profile: {!r}".format(error)) from error

    def has_image(self, image: str) -> bool:
        return self._whole_name(image) is not None

    def is_made_here(self, image: str) -> bool:
        """True if Podman files the image under `localhost`."""
        return (self._whole_name(image) or "").startswith("localhost/")

    def pull(self, image: str, login: Optional[RegistryLogin], tell: Tell, wanted: Wanted) -> None:
        """Pull; Podman tells of a layer when it begins to copy it. It asks the registry every time."""
        progress = Progress(image, time.monotonic())
        tell(progress.begun())
        with _auth_file(login) as (options, descriptors):
            command = ["podman", "pull", *options, qualified(image)]
            try:
                process = subprocess.Popen(
                    command, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, cwd="/", pass_fds=descriptors,
                )  # fmt: skip
            except OSError as error:
                raise _unavailable(error) from error
            self._watch_pull(process, image, tell, wanted)
        tell(progress.ended(time.monotonic()))

    def _watch_pull(self, process: "subprocess.Popen[bytes]", image: str, tell: Tell, wanted: Wanted) -> None:
        """Return when the pull is done; `ImageProblem` if it has failed."""
        said, layers = b"", 0
        with process:
            descriptor = process.stderr.fileno() if process.stderr is not None else -1
            try:
                # Podman says nothing while it copies a layer, which may take long.
                for data in pieces_of(descriptor, wanted, moved=lambda: _bytes_moved(process.pid)):
                    said = (said + data)[-65536:]
                    if said.count(b"Copying blob") > layers:
                        layers = said.count(b"Copying blob")
                        tell("pulling {}: layer {}".format(image, layers))
            except BaseException:
                _end(process)
                raise
        if process.returncode != 0:
            text = _text_of(said)
            raise ImageProblem(problem_of(text, image), text)

    def network(self, name: str) -> Optional[Network]:
        """A network of this machine, as all of Podman's are; names in it need Aardvark or the plug-in dnsname."""
        done = self._run("network", "inspect", name)
        if done.returncode != 0:
            text = _text_of(done.stderr)
            if "not found" in text:
                return None
            raise EngineError(text)
        seen: Dict[str, Any] = json.loads(done.stdout)[0]
        return Network(driver=str(seen["driver"]), is_local=True, has_names=bool(seen.get("dns_enabled")))

    def make_network(self, name: str) -> None:
        """Make a bridge, as Podman has no overlays."""
        if self.network(name) is not None:
            return
        done = self._run("network", "create", name)
        if done.returncode != 0 and self.network(name) is None:  # else another agent has just made it
            raise EngineError(_text_of(done.stderr))

    def create(self, plan: Plan) -> None:
        image = self._whole_name(plan.image)
        if image is None:
            raise EngineError("the image {} is not there any more".format(plan.image))
        with _env_file(plan.env) as (path, others):
            arguments = _create_arguments(plan, image, path, others)
            done = self._run("create", *arguments)
        if done.returncode != 0:
            text = _text_of(done.stderr)
            raise NameTaken(text) if "already in use" in text else EngineError(text)

    def start(self, name: str) -> None:
        self._ask("start", name)

    def state(self, name: str) -> Optional[State]:
        done = self._run("container", "inspect", name)
        if done.returncode != 0:
            text = _text_of(done.stderr)
            if "no such" in text.lower():
                return None
            raise EngineError(text)
        seen: Dict[str, Any] = json.loads(done.stdout)[0]
        state = seen["State"]
        return State(
            id=str(seen["Id"]),
            running=bool(state["Running"]),
            pid=int(state["Pid"]),
            exit_code=None if state["Status"] in _NOT_STARTED else int(state["ExitCode"]),
            oom_killed=bool(state["OOMKilled"]),
        )

    def remove(self, name: str) -> None:
        """Remove the container, and see that it is gone."""
        until = time.monotonic() + _REMOVE_S
        while True:
            done = self._run("rm", "--force", "--time", "0", "--volumes", "--ignore", name)
            if done.returncode == 0 and self._run("container", "exists", name).returncode == 1:
                return
            if time.monotonic() >= until:
                raise EngineError("container {} cannot be removed: {}".format(name, _text_of(done.stderr)))
            time.sleep(0.1)

    def containers(self, agent: str) -> Tuple[Found, ...]:
        listed = json.loads(
            self._ask("ps", "--all", "--filter", "label={}={}".format(LABEL, agent), "--format", "json") or "[]"
        )
        return tuple(Found(str(one["Names"][0]), dict(one.get("Labels") or {})) for one in listed)

    def _whole_name(self, image: str) -> Optional[str]:
        """The whole name under which Podman has the image, if it has it.

        Podman itself resolves a short name to any image whose name ends so, from any registry and tenant, and to an id
        that begins so.
        """
        whole = qualified(image)
        for name in (whole,) if whole == image else ("localhost/" + image, whole):
            done = self._run("image", "exists", name)
            if done.returncode > 1:
                raise EngineError(_text_of(done.stderr))
            if done.returncode == 0:
                return name
        return None

    def become_exec(self, name: str, argv: Sequence[str], *, env: Mapping[str, str], terminal: bool) -> NoReturn:
        """Become `podman exec`, which passes on the size of the terminal and the exit status."""
        command = [
            "podman",
            "exec",
            "--interactive",
            *(["--tty", "--detach-keys="] if terminal else []),  # no key leaves the command running and unseen
            *("--env={}={}".format(key, value) for key, value in env.items()),
            name,
            *argv,
        ]
        os.execvpe(command[0], command, self._environment)  # noqa: S606 - the process is there for this alone

    def _ask(self, *arguments: str) -> str:
        done = self._run(*arguments)
        if done.returncode != 0:
            raise EngineError(_text_of(done.stderr))
        return done.stdout.decode(errors="replace")

    def _run(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        try:
            return subprocess.run(
                ["podman", *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_CALL_S,
                cwd="/",
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _unavailable(error) from error


def _create_arguments(plan: Plan, image: str, env_file: str, other_env: List[str]) -> List[str]:
    """The arguments of `podman create`. Options that they lack keep Podman's default, the closed one."""
    arguments = [
        "--name={}".format(plan.name),
        "--pull=never",
        "--entrypoint={}".format(plan.entrypoint),
        "--user={}:{}".format(plan.uid, plan.gids[0]),
        *("--group-add={}".format(gid) for gid in plan.gids[1:]),
        "--workdir={}".format(plan.workdir),
        "--env-file={}".format(env_file),
        *("--env={}".format(entry) for entry in other_env),
        "--http-proxy=false",  # else the agent's own proxies would be in the job's environment
        *("--label={}={}".format(name, value) for name, value in plan.labels.items()),
        *(_mount_argument(mount) for mount in plan.mounts),
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        *(["--security-opt=seccomp={}".format(plan.seccomp)] if plan.seccomp else []),
        "--pids-limit={}".format(plan.pids),
        "--cpus={}".format(plan.cpus),
        "--shm-size={}m".format(plan.shm_mib),
        "--ipc=private",
        "--network={}".format(plan.network),
        *(["--network-alias={}".format(plan.alias), "--hostname={}".format(plan.alias)] if plan.alias else []),
        "--restart=no",
        "--log-driver=none",
        "--systemd=false",
        "--sdnotify=ignore",
        "--no-healthcheck",  # what an image runs at times is no part of the job
        *("--device={}".format(name) for name in plan.gpus.cdi),
        *("--device={0}:{0}:rw".format(node) for node in plan.gpus.nodes + plan.devices),
        *(["--ulimit=memlock=-1:-1"] if plan.locks_memory else []),
    ]
    if plan.read_only_root:
        arguments += ["--read-only", "--read-only-tmpfs=false", "--image-volume=ignore"]
    if plan.memory_mib:
        # The same limit with and without swap: a job that is too large ends, instead of slowing its neighbours.
        arguments += ["--memory={}m".format(plan.memory_mib), "--memory-swap={}m".format(plan.memory_mib)]
    return [*arguments, image, *plan.arguments]


def _mount_argument(mount: Mount) -> str:
    """The option for one mount. A comma in a path would begin another option, such as another source."""
    if "," in mount.source + mount.target:
        raise EngineError("podman cannot mount {!r} at {!r}: a comma".format(mount.source, mount.target))
    options = "--mount=type=bind,source={},target={}".format(mount.source, mount.target)
    if mount.volume:  # they have these already, but Podman mounts anew and would take them off
        options += ",bind-propagation=rprivate,nosuid,nodev" + (",ro" if mount.read_only else "")
    return options


@contextlib.contextmanager
def _env_file(env: Mapping[str, str]) -> Iterator[Tuple[str, List[str]]]:
    """A file with the environment, which others could read on a command line, and the entries that no line can hold."""
    lines = ["{}={}".format(name, value) for name, value in env.items()]
    with tempfile.NamedTemporaryFile("w", prefix="muster-env-", encoding="utf-8", errors="surrogateescape") as file:
        file.write("".join(line + "\n" for line in lines if "\n" not in line))
        file.flush()
        yield file.name, [line for line in lines if "\n" in line]


@contextlib.contextmanager
def _auth_file(login: Optional[RegistryLogin]) -> Iterator[Tuple[List[str], Tuple[int, ...]]]:
    """The options that give Podman a login, and the descriptors that it needs for them: a file in memory, which has no
    name that anybody else could open, and which is gone with the pull. Without a login, what the operator has stored
    counts."""
    if login is None:
        yield [], ()
        return
    descriptor = os.memfd_create("muster-registry-login")
    try:
        write_all(descriptor, json.dumps({"auths": {login.registry: {"auth": basic(login)}}}).encode())
        yield ["--authfile=/proc/self/fd/{}".format(descriptor)], (descriptor,)
    finally:
        os.close(descriptor)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Have a pull end; what it still says is read, so that it cannot hang on that."""
    process.terminate()
    try:
        process.communicate(timeout=_END_PULL_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _bytes_moved(pid: int) -> int:
    """Bytes that a process has read and written, also by sockets and pipes; 0 if they cannot be told.

    By whole blocks of 64 KiB, as the threads of a Podman that waits wake each other by some bytes each second.
    """
    try:
        with open("/proc/{}/io".format(pid), encoding="ascii") as file:
            counts = dict(line.split(": ") for line in file)
        return (int(counts["rchar"]) + int(counts["wchar"])) & ~0xFFFF
    except (OSError, ValueError, KeyError):
        return 0


def _text_of(output: bytes) -> str:
    """Podman's error message: the last line of its output names the error, those before it warn."""
    lines = output.decode(errors="replace").strip().splitlines()
    return (lines[-1] if lines else "podman failed without a word")[:1000]


def _unavailable(error: Exception) -> EngineUnavailable:
    return EngineUnavailable("podman cannot be run: is it installed? ({})".format(error))
