"""A platform with a server over SSH: a real sshd, the real web process, what a worker and `links` do in threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from django.db import connection

from muster.accounts.models import User
from muster.dispatch.cycles import run_cycle
from muster.fleet.models import Gpu, Node, Pool
from muster.jobs.models import Job
from muster.jobs.services import submit_job
from muster.links import progress
from muster.links.install import install_agent
from muster.links.keeper import Keeper
from muster.links.models import LinkState, Server, Step
from muster.links.services import Access, add_server, change_server
from muster.logs.selectors import attempt_of, pieces
from scheduler.model.lifecycle import JobState, NodeHealth
from tests.factories import make_pool, make_tenant, make_user, make_vc
from tests.sshd import SshServer
from tests.waiting import eventually

WAIT_S = 60.0
# Prints a numbered line ten times a second until a file tells it to end, and says how many there were.
COUNTING = """
number=0
while [ ! -e "{flag}" ]; do
  echo "line $number"
  number=$((number + 1))
  sleep 0.1
done
echo "counted $number"
"""


def until(look: Callable[[], object], what: str, within_s: float = WAIT_S, every_s: float = 0.25) -> None:
    try:
        eventually(look, what, within_s, max_pause_s=every_s)
    except AssertionError as error:
        error.add_note(_story())
        raise


def _story() -> str:
    rows = list(Server.objects.values("state", "step", "reason", "tries"))
    return f"{rows} {list(Node.objects.values('name', 'health'))} {list(Job.objects.values('state', 'hold_reason'))}"


class Site:
    """The platform's part: what the worker and the process `links` do, in threads of this process."""

    def __init__(self, url: str, sshd: SshServer) -> None:
        self.url = url
        self.sshd = sshd
        self.pool: Pool = make_pool(beat_s=0.3, suspect_after_s=5, unreachable_after_s=10, stop_after_s=60)
        tenant = make_tenant()
        self.user: User = make_user(tenant=tenant)
        self.vc = make_vc(tenant, self.pool, quotas={"A100": 4})
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def access(self) -> Access:
        return Access(
            host="127.0.0.1",
            port=self.sshd.port,
            user="root",
            private_key=self.sshd.private_key,
            host_key=self.sshd.host_key,
            folder=self.sshd.agent_folder,
            options="--gpus=emulated:A100:4 --cpus=4 --memory-mib=4096 --job-user=nobody",
        )

    def add(self, **changes: object) -> Server:
        return add_server(
            pool=self.pool,
            name="gpu7",
            access=replace(self.access, **changes),
            actor="tests",  # type: ignore[arg-type]
        )

    def change(self, **changes: object) -> None:
        access = replace(self.access, private_key="", **changes) if "private_key" not in changes else self.access
        access = replace(access, **changes)  # type: ignore[arg-type]
        change_server(server=self.server(), access=access, actor="tests")

    def begin(self) -> None:
        """Let installer and keeper work from now on."""
        for work in (self._install, Keeper(self.url, self._stopping).run):
            thread = threading.Thread(target=self._closing(work), daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        self._threads = []
        self._stopping = threading.Event()

    def _closing(self, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            finally:
                connection.close()

        return run

    def install_once(self) -> bool:
        """Bring the agent now, if that is due; whether it runs."""
        return install_agent(self.server().pk)

    def _install(self) -> None:
        while not self._stopping.wait(0.1):
            for server in progress.due(Step.INSTALL):
                install_agent(server.pk)

    def server(self) -> Server:
        return Server.objects.select_related("node").get()

    def until_state(self, *states: LinkState) -> Server:
        until(lambda: self.server().state in states, f"the link is {' or '.join(states)}")
        return self.server()

    def until_ready(self) -> None:
        self.until_state(LinkState.UP)
        until(lambda: Node.objects.get().health == NodeHealth.READY and Gpu.objects.count() == 4, "the node is ready")

    def submit(self, command: str) -> Job:
        return submit_job(user=self.user, data={"command": command, "gpus": 1, "vc": self.vc.name})[0]

    def until_job(self, job: Job, *states: JobState) -> Job:
        def look() -> bool:
            run_cycle(self.pool.pk, trigger="command")
            return Job.objects.get(pk=job.pk).state in states

        until(look, f"the job is {' or '.join(states)}", every_s=0.2)
        return Job.objects.get(pk=job.pk)

    def log(self, job: Job) -> bytes:
        attempt = attempt_of(job, None)
        if attempt is None:
            return b""
        found, cursor = b"", 0
        while some := pieces(attempt, cursor=cursor, rank=None, largest=1 << 20):
            found += b"".join(piece.body for piece in some)
            cursor = some[-1].cursor
        return found

    def until_logged(self, job: Job, text: bytes) -> None:
        until(lambda: text in self.log(job), f"{text!r} is in the log")


def sleepers(seconds: str) -> set[int]:
    """The processes of this machine that sleep for so long."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.add(int(path.parent.name))
    return found
