"""The Docker Engine through its API, by the package `docker`."""

from __future__ import annotations

import contextlib
import os
import posixpath
import threading
import time
from typing import Any, Dict, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple

import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from nodeagent.protocol.messages import RegistryLogin
from nodeagent.runtime.container.engine import LABEL, About, EngineError, EngineUnavailable, Found, NameTaken, State
from nodeagent.runtime.container.images import qualified
from nodeagent.runtime.container.meeting import Network
from nodeagent.runtime.container.plan import Plan
from nodeagent.runtime.docker.pull import pull
from nodeagent.runtime.docker.terminal import run_exec
from nodeagent.runtime.port import Tell, Wanted

_CALL_S, _REMOVE_S = 60, 30.0


class DockerEngine:
    """The engine behind a Unix socket. Its methods may be called from any thread."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._local = threading.local()  # a client keeps a connection, which serves one call at a time

    def about(self) -> About:
        """Its version, whether CDI is switched on, where its files are, and whether it is in a swarm."""
        with self._asking() as client:
            info = client.info()
            return About(
                version=str(info.get("ServerVersion", "")),
                knows_cdi=bool(info.get("CDISpecDirs")),
                root=str(info.get("DockerRootDir", "")),
                has_overlays=_is_in_swarm(info),
            )

    def has_image(self, image: str) -> bool:
        with self._asking() as client:
            try:
                client.inspect_image(qualified(image))  # in full: a short one may be the id of any image
            except NotFound:
                return False
            return True

    def is_made_here(self, image: str) -> bool:
        """True if the engine has the image and knows no registry that it came from."""
        with self._asking() as client:
            try:
                return not client.inspect_image(qualified(image)).get("RepoDigests")
            except NotFound:
                return False

    def pull(self, image: str, login: Optional[RegistryLogin], tell: Tell, wanted: Wanted) -> None:
        """Pull; closing the stream, as when it is wanted no more, ends the engine's work too."""
        try:
            # A client of its own reads anew what the operator has stored.
            client = docker.APIClient(base_url="unix://" + self._socket, version="auto", timeout=_CALL_S)
            with contextlib.closing(client):
                pull(client, self._socket, image, login, tell=tell, wanted=wanted)
        except (OSError, ValueError, DockerException) as error:  # those of `requests` are an OSError
            raise self._unavailable(error) from error

    def network(self, name: str) -> Optional[Network]:
        """A network. A worker of a swarm knows an overlay network only once a container is in it."""
        with self._asking() as client:
            try:
                seen = client.inspect_network(name)
            except NotFound:
                return None
            return Network(driver=str(seen["Driver"]), is_local=seen["Scope"] == "local", has_names=True)

    def make_network(self, name: str) -> None:
        """Make an overlay network on a manager of a swarm, nothing on a worker, and a bridge outside of a swarm."""
        if self.network(name) is not None:
            return
        with self._asking() as client:
            info = client.info()
            in_swarm = _is_in_swarm(info)
            if in_swarm and not info["Swarm"]["ControlAvailable"]:
                return
            try:
                client.create_network(name, driver="overlay" if in_swarm else "bridge", attachable=in_swarm)
            except APIError as error:
                if error.status_code != 409:  # another agent has just made it
                    raise

    def create(self, plan: Plan) -> None:
        with self._asking() as client:
            try:
                client.create_container(
                    image=qualified(plan.image),
                    name=plan.name,
                    entrypoint=[plan.entrypoint],
                    command=list(plan.arguments),
                    environment=dict(plan.env),
                    labels=dict(plan.labels),
                    user="{}:{}".format(plan.uid, plan.gids[0]),
                    working_dir=plan.workdir,
                    healthcheck={"test": ["NONE"]},  # what an image runs at times is no part of the job
                    hostname=plan.alias or None,
                    host_config=client.create_host_config(**_host_config(plan, _closed_volumes(client, plan))),
                    networking_config=_networking(client, plan),
                )
            except APIError as error:
                if error.status_code == 409:
                    raise NameTaken(_text_of(error)) from error
                raise

    def start(self, name: str) -> None:
        with self._asking() as client:
            client.start(name)

    def state(self, name: str) -> Optional[State]:
        with self._asking() as client:
            try:
                seen = client.inspect_container(name)
            except NotFound:
                return None
            state = seen["State"]
            return State(
                id=str(seen["Id"]),
                running=bool(state["Running"]),
                pid=int(state["Pid"]),
                exit_code=None if state["Status"] == "created" else int(state["ExitCode"]),
                oom_killed=bool(state["OOMKilled"]),
            )

    def remove(self, name: str) -> None:
        """Remove the container, and see that it is gone."""
        until = time.monotonic() + _REMOVE_S
        while self.state(name) is not None:
            with self._asking() as client:
                try:
                    client.remove_container(name, force=True, v=True)
                except NotFound:
                    return
                except APIError as error:
                    if error.status_code != 409 or time.monotonic() >= until:  # 409: its removal has begun already
                        raise
            if time.monotonic() >= until:
                raise EngineError("container {} cannot be removed".format(name))
            time.sleep(0.01)

    def containers(self, agent: str) -> Tuple[Found, ...]:
        with self._asking() as client:
            listed = client.containers(all=True, filters={"label": "{}={}".format(LABEL, agent)})
            return tuple(Found(str(one["Names"][0]).lstrip("/"), dict(one["Labels"])) for one in listed)

    def become_exec(self, name: str, argv: Sequence[str], *, env: Mapping[str, str], terminal: bool) -> NoReturn:
        """Carry bytes between our standard streams and the command, as there is no program to become."""
        client = docker.APIClient(base_url="unix://" + self._socket, version="auto", timeout=_CALL_S)
        try:
            os._exit(run_exec(client, self._socket, name, argv, env=env, terminal=terminal))
        except (APIError, requests.exceptions.RequestException, DockerException) as error:
            raise OSError(str(error)) from error

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """A client; what goes wrong with it is told in our own words."""
        try:
            client = getattr(self._local, "client", None)
            if client is None:
                client = docker.APIClient(base_url="unix://" + self._socket, version="auto", timeout=_CALL_S)
                self._local.client = client
            yield client
        except APIError as error:
            raise EngineError(_text_of(error)) from error
        except (requests.exceptions.RequestException, DockerException) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> EngineUnavailable:
        return EngineUnavailable(
            "the Docker Engine does not answer at {}: is it running, and may this user open the socket? ({})".format(
                self._socket, str(error)[:300]
            )
        )


def _closed_volumes(client: Any, plan: Plan) -> List[Mount]:
    """The folders that an image declares as volumes, which the engine else makes writable beside a root that is not.

    They can neither be left out nor be read-only, so something read-only and empty lies over them.
    """
    if not plan.read_only_root:
        return []
    declared = (client.inspect_image(qualified(plan.image)).get("Config") or {}).get("Volumes") or {}
    taken = {mount.target for mount in plan.mounts}
    targets = {posixpath.normpath(path) for path in declared} - taken
    return [Mount(target=target, source=None, type="tmpfs", read_only=True) for target in sorted(targets)]


def _host_config(plan: Plan, volumes: Sequence[Mount]) -> Dict[str, Any]:
    """The `HostConfig` of a container. Settings that it lacks keep the engine's default, the closed one."""
    requests_for: List[DeviceRequest] = []
    if plan.gpus.cdi:
        requests_for.append(DeviceRequest(driver="cdi", device_ids=list(plan.gpus.cdi)))
    if plan.gpus.nvidia:
        requests_for.append(DeviceRequest(driver="nvidia", device_ids=list(plan.gpus.nvidia), capabilities=[["gpu"]]))
    config: Dict[str, Any] = {
        # A volume's source has its restrictions already, and its mounts inherit them. An engine that is asked for
        # read-only mounts them anew, with that and nothing else.
        "mounts": [
            Mount(target=mount.target, source=mount.source, type="bind", propagation="rprivate")
            for mount in plan.mounts
        ]
        + list(volumes),
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "group_add": [str(gid) for gid in plan.gids[1:]],
        "pids_limit": plan.pids,
        "nano_cpus": plan.cpus * 1_000_000_000,
        "shm_size": plan.shm_mib << 20,
        "ipc_mode": "private",
        "network_mode": plan.network,
        "read_only": plan.read_only_root,
        "restart_policy": {"Name": "no"},
        "log_config": LogConfig(type="none"),
        "devices": ["{0}:{0}:rw".format(node) for node in plan.gpus.nodes + plan.devices],
        "device_requests": requests_for,
    }
    if plan.locks_memory:
        config["ulimits"] = [Ulimit(name="memlock", soft=-1, hard=-1)]
    if plan.memory_mib:
        # The same limit with and without swap: a job that is too large ends, instead of slowing its neighbours.
        config.update(mem_limit=plan.memory_mib << 20, memswap_limit=plan.memory_mib << 20)
    return config


def _networking(client: Any, plan: Plan) -> Optional[Dict[str, Any]]:
    """The container's second name, in its network."""
    if not plan.alias:
        return None
    endpoint = client.create_endpoint_config(aliases=[plan.alias])
    named: Dict[str, Any] = client.create_networking_config({plan.network: endpoint})
    return named


def _is_in_swarm(info: Mapping[str, Any]) -> bool:
    return bool((info.get("Swarm") or {}).get("LocalNodeState") == "active")


def _text_of(error: APIError) -> str:
    return str(error.explanation or error)
