"""Times jobs in containers of a Docker Engine, beside containers that are started without Muster."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bench.figures import Series
from bench.live.jobs import first_line, spec_of
from bench.live.stack import ACTOR, Stack, grant, start_node
from bench.plan import Plan
from muster.fleet.services import create_pool
from muster_client.client import Client

SOCKET, IMAGE = "MUSTER_BENCH_DOCKER", "MUSTER_BENCH_IMAGE"
_NAME = "containers"


class NoEngine(RuntimeError):
    """There is no Docker Engine to measure with; the message says what to do."""


def measure(stack: Stack, plan: Plan) -> Series:
    """Milliseconds of `docker run` of an image, and of jobs in the same image from submit to first line, in turns."""
    socket, image = _engine()
    pool = create_pool(name=_NAME, actor=ACTOR)
    options = ("--runtime", "docker", "--docker-socket", socket)
    start_node(stack, pool, name=_NAME, gpus=1, change=lambda child: replace(child, argv=(*child.argv, *options)))
    grant(pool, _NAME, gpus=1)
    series: Series = {"docker_engine_ms": [], "docker_job_ms": []}
    with Client(stack.url, stack.token) as client:
        for number in range(plan.warm_ups + plan.containers):
            engine_ms = _run(socket, image) * 1000
            job_ms = first_line(client, spec_of("echo hello", vc=_NAME, image=image)) * 1000
            if number >= plan.warm_ups:
                series["docker_engine_ms"].append(engine_ms)
                series["docker_job_ms"].append(job_ms)
    pairs = zip(series["docker_job_ms"], series["docker_engine_ms"], strict=True)
    return series | {"docker_over_ms": [job - engine for job, engine in pairs]}


def _engine() -> tuple[str, str]:
    """The socket of an engine that answers, and an image that it has."""
    socket, image = os.environ.get(SOCKET, "/var/run/docker.sock"), os.environ.get(IMAGE, "busybox:latest")
    if shutil.which("docker") is None or os.geteuid() != 0:
        raise NoEngine("containers need root and the command `docker`")
    if not Path(socket).is_socket():
        raise NoEngine(f"no Docker Engine listens at {socket}; {SOCKET} names another place")
    known = subprocess.run(_docker(socket, "image", "inspect", image), capture_output=True, check=False)
    if known.returncode != 0:
        raise NoEngine(f"the engine has no image {image}; {IMAGE} names another one, which has a shell")
    return socket, image


def _run(socket: str, image: str) -> float:
    """Seconds until a container has said something, as the engine's own command starts it."""
    start = time.perf_counter()
    words = _docker(socket, "run", "--rm", image, "/bin/sh", "-c", "echo hello")
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        took = time.perf_counter() - start
        with suppress(ProcessLookupError):
            running.wait()
    if line != b"hello\n":
        raise NoEngine(f"`docker run {image}` printed {line!r}")
    return took


def _docker(socket: str, *words: str) -> list[str]:
    return ["docker", "--host", f"unix://{socket}", *words]
