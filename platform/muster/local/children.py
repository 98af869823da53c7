"""The command lines of the platform's processes: the one place to change how they are started."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from muster.local.places import LocalError
from muster.local.supervisor import Child

ROOT = Path(__file__).resolve().parents[3]
HOST = "127.0.0.1"
# What an agent ends with when a newer registration of its node took over, and when its credential is refused.
_AGENT_SUPERSEDED, _AGENT_REFUSED = 3, 4
_STAGE_WEB, _STAGE_WORKER, _STAGE_AGENT = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Site:
    """One installation as its processes see it."""

    home: Path
    port: int
    services: Mapping[str, str]

    @property
    def local_url(self) -> str:
        """The address on this machine, whatever the public one is."""
        return f"http://{HOST}:{self.port}"

    @property
    def public_url(self) -> str:
        return os.environ.get("MUSTER_URL") or self.local_url

    def environment(self) -> dict[str, str]:
        inherited = {**os.environ, **self.services}
        inherited.pop("MUSTER_MIGRATE_DATABASE_URL", None)  # it is for `migrate` alone
        return {
            **inherited,
            "MUSTER_HOME": str(self.home),
            "MUSTER_URL": self.public_url,
            "PORT": str(self.port),
            # What the caller's path adds, such as plug-ins of policies, stays on it.
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT), str(ROOT / "platform"), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "PYTHONUNBUFFERED": "1",
        }


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """An agent on this machine that stands for a GPU server."""

    name: str
    gpus: str
    cpus: int
    memory_mib: int
    join_token: str = ""
    gpu_profiles: str = ""
    """The folder with the speeds of emulated GPUs."""
    runtime: str = "process"
    docker_socket: str = ""
    """The socket of the Docker Engine; empty for the usual path."""


def web(site: Site) -> Child:
    """The web process: pages, REST, streams and the agents' endpoint."""
    # An agent is silent for up to its reports' period: a shorter keep-alive would make it reconnect each time.
    kept = ("--timeout-graceful-shutdown", "2", "--timeout-keep-alive", "75")
    # muster.asgi reads proxies' headers itself, by MUSTER_TRUSTED_PROXIES, and has no WebSockets.
    words = ("--host", HOST, "--port", str(site.port), "--no-access-log", "--no-proxy-headers", "--ws", "none", *kept)
    return _platform_child(site, "web", ("uvicorn", "muster.asgi:application", *words), stage=_STAGE_WEB, ready=True)


def schedule_worker(site: Site) -> Child:
    """The scheduling loop, one task at a time: cycles of a pool exclude each other anyway."""
    return _platform_child(site, "schedule", _worker("schedule", "--pool", "solo"))


def default_worker(site: Site) -> Child:
    """The periodic tasks, by clocks of its own, and what others ask of it by a hint."""
    return _platform_child(site, "default", _worker("default", "--pool", "threads", "--concurrency", "2"))


def links(site: Site) -> Child:
    """The process that keeps the SSH connections to servers without an installed agent."""
    return _platform_child(site, "links", ("manage", "links"))


def agent(site: Site, options: AgentOptions, *, folder: Path) -> Child:
    """An agent with a state folder of its own; it gets nothing of the platform's environment, least of all its keys."""
    words = {
        "--url": site.local_url,
        "--state": str(folder / options.name),
        "--gpus": options.gpus,
        "--cpus": str(options.cpus),
        "--memory-mib": str(options.memory_mib),
        "--address": HOST,
        "--runtime": options.runtime,
        "--hide": str(site.home),
    }
    if options.docker_socket:
        words["--docker-socket"] = options.docker_socket
    if options.gpu_profiles:
        words["--gpu-profiles"] = options.gpu_profiles
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
    if options.join_token:
        token_file = folder / f"{options.name}.join-token"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        token_file.touch(mode=0o600)
        token_file.write_text(options.join_token)
        words["--join-token-file"] = str(token_file)
    return Child(
        name=options.name,
        argv=(sys.executable, "-m", "nodeagent", "run", *(word for pair in words.items() for word in pair)),
        env={**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        cwd=ROOT,
        stage=_STAGE_AGENT,
        final=frozenset({_AGENT_SUPERSEDED, _AGENT_REFUSED}),
    )


def choose_port(wanted: int | None) -> int:
    """The wanted port if it is free; without a wish, $PORT or the first free one from 8000 on."""
    named = wanted or (int(os.environ["PORT"]) if os.environ.get("PORT", "").isdigit() else None)
    for port in (named,) if named else range(8000, 8020):
        if _is_free(port):
            return port
    raise LocalError(f"port {named} is in use; choose another, e.g. PORT={named + 1}" if named else "no port is free")


def _worker(queue: str, *words: str) -> tuple[str, ...]:
    # For fleets of workers: gossip and mingle cost a start a second each, and heartbeats a message every two seconds.
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")
    return ("celery", "--app", "muster", "worker", "--queues", queue, "--hostname", f"{queue}@%h", *quiet, *words)


def _platform_child(
    site: Site, name: str, module: tuple[str, ...], *, stage: int = _STAGE_WORKER, ready: bool = False
) -> Child:
    return Child(
        name=name,
        argv=(sys.executable, "-m", *module),
        env=site.environment(),
        cwd=ROOT,
        stage=stage,
        forked=True,
        umask=0o077,  # logs and code of jobs are for the platform, which looks who may see them
        ready=(lambda: _answers(f"{site.local_url}/readyz")) if ready else None,
    )


def _answers(url: str) -> bool:
    try:
        # Proxies of the environment are for the outside.
        return httpx.get(url, timeout=5, trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
