"""A whole cluster of real processes, each of which can be killed, stopped and started again by its name."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psycopg2
import pytest
import redis

from muster.local import children, processes
from muster.local.children import ROOT, AgentOptions, Site
from muster.local.nursery import Forked, Nursery
from muster.local.places import agents_folder
from muster.local.services import start_services
from muster.local.supervisor import Child
from muster_client.answers.jobs import Job
from muster_client.answers.terms import FINISHED
from muster_client.client import Client
from muster_client.errors import ApiError
from tests.faults.layout import GPU_TYPE, GPUS_PER_NODE, NODES, PATIENT, QUOTAS
from tests.faults.shell import Shell
from tests.kept import kept
from tests.waiting import eventually

T = TypeVar("T")

WEB = "web"
WORKER, SECOND_WORKER, PERIODIC = "schedule", "schedule2", "default"
FIRST_USER = next(iter(QUOTAS))
POOL_TABLE = "fleet_pool"
_MARK = "TEST_MARK"
_WORKER_READY = " ready."
_UMASK = 0o077
_PR_SET_CHILD_SUBREAPER = 36
_SHUT_DOWN = "57P"
"""The prefix of the error codes with which Postgres ends its clients' sessions; a crash has no code."""
_OURS = ("DATABASE_URL", "REDIS_URL", "MUSTER_TESTING", "MUSTER_URL", "MUSTER_HOME", "PYTEST_CURRENT_TEST")


def until(look: Callable[[], T], what: str, within_s: float = 20.0, every_s: float = 0.25) -> T:
    """`eventually` with the pauses that suit looks into a database, or over HTTP."""
    return eventually(look, what, within_s, max_pause_s=every_s)


class Cluster:
    """Postgres, Valkey, web, a schedule worker, and agents with four emulated GPUs each: two, on this machine itself.

    `place` says otherwise how an agent is started; with `periodic` the worker of periodic tasks runs too.
    """

    def __init__(
        self,
        nodes: Sequence[str] = NODES,
        *,
        place: Callable[[Child], Child] = lambda child: child,
        periodic: bool = False,
    ) -> None:
        self.nodes = tuple(nodes)
        self._place = place
        self._periodic = periodic
        self._folder = Path(tempfile.mkdtemp(prefix="muster-faults-"))
        self._folder.chmod(0o711)
        self.home = self._folder / "home"
        self._log = self._folder / "log"
        self._log.mkdir()
        self.scratch = self._folder / "scratch"
        self.scratch.mkdir()
        self.scratch.chmod(0o1777)  # jobs of every user leave their marks here
        self.mark_of_all = self._folder.name
        self._running: dict[str, subprocess.Popen[bytes] | Forked] = {}
        self._children: dict[str, Child] = {}
        self._clients: dict[str, Client] = {}
        self._link: psycopg2.extensions.connection | None = None
        self._shell: Shell | None = None
        self.tokens: dict[str, str] = {}
        try:
            self._begin()
        except BaseException:
            self.stop()
            raise

    def _begin(self) -> None:
        self.services = start_services(self.home, environ={})
        with socket.create_server((children.HOST, 0)) as door:
            port = int(door.getsockname()[1])
        self._site = Site(home=self.home, port=port, services=self.services.environment())
        self.url = self._site.local_url
        (self.home / "static").mkdir()
        self._nursery = Nursery(env=self.environment(), cwd=ROOT, log=self._log / "nursery.log", tied=())
        self._children[WEB] = children.web(self._site)
        worker = children.schedule_worker(self._site)
        words = tuple(word.replace("schedule@", "second@") for word in worker.argv)
        self._children |= {WORKER: worker, SECOND_WORKER: replace(worker, name=SECOND_WORKER, argv=words)}
        # They wait for the migrations by themselves.
        self._spawn(WEB)
        self._spawn(WORKER)
        if self._periodic:
            self._children[PERIODIC] = children.default_worker(self._site)
            self._spawn(PERIODIC)
        preparation = self._fork("prepare", (sys.executable, "-m", "tests.faults.prepare", *self.nodes))

        def prepared() -> list[str]:
            assert preparation.poll() in {None, 0}, f"the cluster was not prepared:\n{self.tail('prepare')}"
            return [line for line in self.said("prepare").splitlines(keepends=True) if line.endswith("}\n")]

        known = json.loads(until(prepared, "the cluster is prepared", 60)[-1])
        self.tokens = known["tokens"]
        self._agents = agents_folder(self.home)
        for name in self.nodes:
            self._add_agent(name, known["joins"][name])
        for name in self.nodes:
            self._spawn(name)
        until(lambda: prepared() and preparation.poll() == 0, "the GPUs have come", 60)
        self.until_whole()

    def _add_agent(self, name: str, join_token: str) -> None:
        options = AgentOptions(
            name=name,
            gpus=f"emulated:{GPU_TYPE}:{GPUS_PER_NODE}",
            cpus=16,
            memory_mib=65_536,
            join_token=join_token,
        )
        self._children[name] = self._place(children.agent(self._site, options, folder=self._agents))

    def environment(self) -> dict[str, str]:
        """The environment of the platform's own processes."""
        given = {name: value for name, value in self._site.environment().items() if name not in _OURS}
        return {
            **given,
            **self.services.environment(),
            "MUSTER_HOME": str(self.home),
            "MUSTER_URL": self.url,
            "DJANGO_SETTINGS_MODULE": "muster.settings",
        }

    # Processes

    def start(self, name: str) -> None:
        """Starts a process that does not run, and returns when it does its work."""
        self.start_soon(name)()

    def start_soon(self, name: str) -> Callable[[], object]:
        """Starts a process that does not run; the result, when called, waits until it does its work."""
        ready = self._readiness(name)
        self._spawn(name)
        return lambda: until(ready, f"{name} has started", 60)

    def _readiness(self, name: str) -> Callable[[], bool]:
        """A check that the process's next start has come to its work."""
        if name == WEB:
            return self.answers
        if name in self.nodes:
            query = "SELECT epoch FROM fleet_nodelease l JOIN fleet_node n ON n.id = l.node_id WHERE name = %s"
            epoch = self.sql(query, name)
            return lambda: self.sql(query, name) != epoch
        starts = self.said(name).count(_WORKER_READY)
        return lambda: self.said(name).count(_WORKER_READY) > starts

    @contextlib.contextmanager
    def agents_with(self, *words: str) -> Iterator[None]:
        """Other options for both agents while the block lasts; no job may run on their nodes before or after it."""
        with self.agents_as(lambda child: replace(child, argv=(*child.argv, *words))):
            yield

    @contextlib.contextmanager
    def agents_as(self, change: Callable[[Child], Child], *, names: Collection[str] = NODES) -> Iterator[None]:
        """Other processes for agents while the block lasts; no job may run on their nodes before or after it."""
        usual = {name: self._children[name] for name in names}
        self._start_agents({name: change(child) for name, child in usual.items()})
        try:
            yield
        finally:
            self._start_agents(usual)

    @contextlib.contextmanager
    def process_as(self, name: str, change: Callable[[Child], Child]) -> Iterator[None]:
        """Another process for one that is no agent while the block lasts."""
        usual = self._children[name]
        self._replace(name, change(usual))
        try:
            yield
        finally:
            self._replace(name, usual)

    def _replace(self, name: str, child: Child) -> None:
        if self.runs(name):
            self.kill(name, signal.SIGTERM)
        self._children[name] = child
        self.start(name)

    def _start_agents(self, children: Mapping[str, Child]) -> None:
        for name in children:
            if self.runs(name):
                self.kill(name, signal.SIGTERM)
        self._children.update(children)
        for wait in [self.start_soon(name) for name in children]:
            wait()

    def answers(self) -> bool:
        """True if the web process answers."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Sends the signal to a process, and when it ends it, waits until it is gone."""
        process = self._running[name]
        os.kill(process.pid, number)
        if number in {signal.SIGKILL, signal.SIGTERM, signal.SIGINT}:
            until(lambda: process.poll() is not None, f"{name} has ended")
            del self._running[name]

    def crash_postgres(self) -> None:
        """Ends Postgres at once, as a crash would: nothing is written that is not in its journal."""
        assert self.services.places is not None
        pid = int((self.services.places.postgres_data / "postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(pid, signal.SIGQUIT)
        until(lambda: not processes.is_alive(pid), "Postgres has ended")

    def crash_valkey(self) -> None:
        """Ends Valkey, and with it everything that it held."""
        with redis.Redis.from_url(self.services.redis_url) as link:
            pid = int(link.info("server")["process_id"])
        os.kill(pid, signal.SIGKILL)
        until(lambda: not processes.is_alive(pid), "Valkey has ended")

    def runs(self, name: str) -> bool:
        """True if a process that was started still runs."""
        process = self._running.get(name)
        return process is not None and process.poll() is None

    def exit_status(self, name: str) -> int | None:
        """The exit status of a process that was started; None while it runs."""
        return self._running[name].poll()

    def pid(self, name: str) -> int:
        """The process's number."""
        return self._running[name].pid

    def state_of(self, node: str) -> Path:
        """The folder in which an agent keeps what it must not forget."""
        return self._agents / node

    def inject(self, node: str, gpu: int, **fault: Any) -> None:
        """Lets a GPU of a node, by index, have a fault; see `nodeagent.gpu.emulated`."""
        with self._faults_of(node).open("a") as file:
            file.write(json.dumps({"gpu": gpu, **fault}) + "\n")

    def forget_faults(self) -> None:
        """Makes every GPU well again, and lets no agent hear of old faults when it starts the next time."""
        for name in self.nodes:
            faults = self._faults_of(name)
            if faults.exists():  # an agent knows how far it has read, so the length must stay
                faults.write_bytes(b"\n" * faults.stat().st_size)
        self.sql("UPDATE fleet_gpu SET health = 'ok', health_why = '', heals = '', failed_boot = ''")
        self.sql("UPDATE fleet_gpucheck SET in_doubt = false, streak = 0, given_back_at = NULL")
        self.sql("UPDATE fleet_node SET admin = 'active', reason = '', version = version + 1")
        self.sql("DELETE FROM fleet_healthreport")
        self.sql("DELETE FROM fleet_strike")

    def _faults_of(self, node: str) -> Path:
        return self.state_of(node) / "emulated-faults"

    def tail(self, name: str, *, limit_bytes: int = 4000) -> str:
        """The end of what a process has written."""
        path = self._log / f"{name}.log"
        return path.read_bytes()[-limit_bytes:].decode(errors="replace") if path.exists() else "(it wrote nothing)"

    def said(self, name: str) -> str:
        """Everything that a process has written, over all its starts."""
        path = self._log / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _spawn(self, name: str) -> None:
        child = self._children[name]
        if child.forked and child.argv[0] == sys.executable:
            self._running[name] = self._fork(name, child.argv)
            return
        env = {key: value for key, value in child.env.items() if key not in _OURS}
        with (self._log / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                child.argv,
                env=self.environment() if child.forked else env,
                cwd=child.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=child.umask,
            )

    def _fork(self, name: str, words: Sequence[str]) -> Forked:
        """A process of the platform, from the nursery of `make demo`: to import everything anew takes seconds."""
        log = self._log / f"{name}.log"
        log.touch()
        with _children_of_ours():
            forked = self._nursery.fork(words, log=log, umask=_UMASK)
        assert forked is not None, f"the nursery is gone:\n{self.tail('nursery')}"
        return forked

    def add_node(self, name: str) -> None:
        """Adds a node to the pool, and starts its agent."""
        added = self.manage("add_node", name, "--pool", "pool")
        assert added.returncode == 0, added.stderr
        self.nodes = (*self.nodes, name)
        self._add_agent(name, added.stdout.split()[-1])
        self._spawn(name)

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of `manage.py` to its end."""
        self._leave_database()  # some commands want it for themselves
        return subprocess.run(
            [sys.executable, "manage.py", *words],
            env=self.environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def python(self, code: str) -> str:
        """Run the code in a process of the platform, and return what it prints."""
        if self._shell is None:
            self._shell = Shell(self.environment())
        return self._shell.run(code)

    # What the database says

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        if self._link is not None:
            try:
                return _rows(self._link, query, values)
            except psycopg2.Error as error:
                if error.pgcode is not None and not error.pgcode.startswith(_SHUT_DOWN):
                    raise
                # Postgres was restarted since the last one.
        self._link = psycopg2.connect(self.services.owner_url)
        self._link.autocommit = True
        return _rows(self._link, query, values)

    def _leave_database(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    @contextlib.contextmanager
    def timers(self, values: Mapping[str, float]) -> Iterator[None]:
        """Other timers of the pool while the block lasts, known to every agent before it begins; no job may run before.

        So no agent uses a longer `stop_after_s` from before, and no fence needs to wait for that.
        """
        self._set_timers(values)
        self.sql(f"UPDATE {POOL_TABLE} SET lowered_at = NULL, lowered_from_s = NULL")
        yield
        self._set_timers(PATIENT)  # after a failure `settle` does it, when everything runs again

    def _set_timers(self, values: Mapping[str, object]) -> None:
        changes = ", ".join(f"{name} = %s" for name in values)
        [(seen,)] = self.sql(f"UPDATE {POOL_TABLE} SET {changes} RETURNING clock_timestamp()", *values.values())
        live = [name for name in self.nodes if self.runs(name)]
        # The second beat after the change was sent when the first had brought the new timers.
        for _ in range(2):
            until(
                lambda seen=seen: self.sql(
                    "SELECT 1 FROM fleet_nodelease l JOIN fleet_node n ON n.id = l.node_id WHERE name = ANY(%s)"
                    " HAVING min(seen_at) > %s",
                    live,
                    seen,
                ),
                "the agents hear of the timers",
            )
            [(seen,)] = self.sql("SELECT clock_timestamp()")

    # Jobs

    def client(self, user: str = FIRST_USER) -> Client:
        """The user's client, one for the whole session."""
        if user not in self._clients:
            self._clients[user] = Client(self.url, self.tokens[user])
        return self._clients[user]

    def submit(self, command: str, *, user: str = FIRST_USER, **keys: Any) -> Job:
        """A new job; its processes carry a mark of their own, and it asks for little."""
        spec = {"vc": user, "gpus": 1, "cpus": 1, "memory": "64MiB", "checkpoint": {"grace": "1s"}, **keys}
        env = {_MARK: f"{self.mark_of_all}-{uuid.uuid4().hex}", "SCRATCH": str(self.scratch), **keys.get("env", {})}
        return self.client(user).submit({**spec, "command": command, "env": env})

    def wait(self, job: Job, *states: str, within_s: float = 30.0) -> Job:
        """The job when it is in one of the states; without any, when it has finished."""
        wanted = states or FINISHED
        seen: list[Job] = []

        def look() -> bool:
            seen[:] = [self.client(job["owner"]).job(job["id"])]
            return seen[0]["state"] in wanted

        try:
            until(look, f"job {job['id']} is {' or '.join(sorted(wanted))}", within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(job)}") from error
        return seen[0]

    def until_attempt_runs(self, job: Job, *, number: int = 1, within_s: float = 20.0) -> str:
        """Returns the name of the (first) node when an attempt of the job runs there."""
        query = (
            "SELECT n.name FROM jobs_attempt t JOIN jobs_allocation a ON a.attempt_id = t.id"
            " JOIN fleet_node n ON n.id = a.node_id"
            " WHERE t.job_id = %s AND t.number = %s AND t.state = 'running' ORDER BY a.rank"
        )
        try:
            rows = until(
                lambda: self.sql(query, job["id"], number), f"attempt {number} of job {job['id']} runs", within_s
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(job)}") from error
        return str(rows[0][0])

    def attempts(self, job: Job) -> list[tuple[str, str]]:
        """The state and the reason of each attempt, in their order."""
        return self.sql("SELECT state, reason FROM jobs_attempt WHERE job_id = %s ORDER BY number", job["id"])

    def log(self, job: Job, *, attempt: int | None = None, rank: int | None = None) -> bytes:
        """The stored output of the job."""
        pages = self.client(job["owner"]).read_logs(job["id"], attempt=attempt, rank=rank)
        return b"".join(page.data for page in pages)

    def whole_log(self, job: Job, *, within_s: float = 20.0) -> bytes:
        """The job's output once the log of its newest attempt is closed and known to be complete."""
        query = (
            "SELECT 1 FROM jobs_attempt t JOIN jobs_allocation a ON a.attempt_id = t.id"
            " LEFT JOIN logs_logfile f ON f.allocation_id = a.id WHERE t.job_id = %s"
            " AND t.number = (SELECT max(number) FROM jobs_attempt WHERE job_id = %s)"
            " HAVING bool_and(coalesce(f.complete, false))"
        )
        try:
            until(lambda: self.sql(query, job["id"], job["id"]), f"the log of job {job['id']} is complete", within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(job)}") from error
        return self.log(job)

    def mark(self, job: Job) -> str:
        """The entry that the environment of each process of the job has."""
        return f"{_MARK}={job['spec']['env'][_MARK]}"

    def story(self, job: Job) -> str:
        """The job's events and the last lines of the processes, for the message of a failed test."""
        events = self.sql(
            "SELECT to_char(at, 'HH24:MI:SS.MS'), kind, data FROM events_event WHERE job_id = %s ORDER BY id", job["id"]
        )
        hold = self.sql("SELECT hold_reason, hold FROM jobs_job WHERE id = %s", job["id"])
        tails = [f"--- {name}\n{self.tail(name, limit_bytes=1500)}" for name in self._children]
        return "\n".join([*(f"{at} {kind} {data}" for at, kind, data in events), f"hold: {hold}", *tails])

    # The whole

    def until_whole(self) -> None:
        """Returns when every node is ready and nothing is held."""
        until(
            lambda: self.sql(
                "SELECT 1 FROM fleet_node HAVING bool_and(health = 'ready') AND count(*) = %s", len(self.nodes)
            ),
            "every node is ready",
            30,
        )

    def settle(self) -> None:
        """Brings everything back up, ends every job, and returns when nothing of any job is left."""
        self.services.revive()
        for name in (WEB, WORKER, *self.nodes):
            if self.runs(name):
                os.kill(self._running[name].pid, signal.SIGCONT)
            else:
                self.start(name)
        if self.runs(SECOND_WORKER):
            self.kill(SECOND_WORKER)
        [timers] = self.sql(f"SELECT {', '.join(PATIENT)} FROM {POOL_TABLE} WHERE name = 'pool'")
        if timers != tuple(PATIENT.values()):
            self._set_timers(PATIENT)
        for owner, job_id in self.sql(
            "SELECT u.username, j.id FROM jobs_job j JOIN accounts_user u ON u.id = j.owner_id"
            " WHERE state IN ('queued', 'active') AND desired = 'run'"
        ):
            with contextlib.suppress(ApiError):  # it has ended meanwhile
                self.client(owner).cancel(job_id)
        until(
            lambda: not self.sql("SELECT id FROM jobs_job WHERE state IN ('queued', 'active')"),
            "every job has ended",
            30,
        )
        self.until_whole()

    def stop(self) -> None:
        """Ends every process of the cluster and removes its folders."""
        for client in self._clients.values():
            client.close()
        self._leave_database()
        if self._shell is not None:
            self._shell.close()
        for process in self._running.values():
            process.kill()
            process.wait()
        nursery = getattr(self, "_nursery", None)
        if nursery is not None:
            nursery.stop()
        left = processes.end_all(lambda: processes_with(str(self._folder)) - set(self._own_servers()), grace_s=0)
        services = getattr(self, "services", None)
        if services is not None:
            services.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        assert not left, f"these processes do not end: {left}"

    def _own_servers(self) -> Iterator[int]:
        services = getattr(self, "services", None)
        for pid in services.pids() if services is not None else ():
            yield pid
            yield from processes.descendants(pid)


@contextlib.contextmanager
def _children_of_ours() -> Iterator[None]:
    """Adopt processes that the nursery forks in the block; other orphans stay orphans, before and after."""
    processes.become_subreaper()
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _rows(link: psycopg2.extensions.connection, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
    with link.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall() if cursor.description else []


def processes_with(mark: str) -> set[int]:
    """Every process of the machine that has the text in its command line or its environment, but not ourselves."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                folder = Path("/proc", entry)
                if mark.encode() in (folder / "cmdline").read_bytes() + b"\0" + (folder / "environ").read_bytes():
                    found.add(int(entry))
    return found


def overlapping_claims(cluster: Cluster) -> list[tuple[Any, ...]]:
    """Pairs of claims in the whole history that held slots of one GPU at the same time."""
    return cluster.sql(
        "SELECT a.id, b.id, a.gpu_id FROM jobs_gpuclaim a JOIN jobs_gpuclaim b ON a.gpu_id = b.gpu_id AND a.id < b.id"
        " AND a.span && b.span"
        " AND tstzrange(a.claimed_at, a.released_at) && tstzrange(b.claimed_at, b.released_at)"
    )


@contextlib.contextmanager
def _started() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """The cluster, whole before the test and after it; every test ends with what must hold at any time."""
    cluster = kept(_started)
    yield cluster
    cluster.settle()
    assert overlapping_claims(cluster) == []
    assert cluster.sql("SELECT id FROM jobs_gpuclaim WHERE released_at IS NULL") == []
    assert until(lambda: not processes_with(f"{_MARK}={cluster.mark_of_all}"), "no process of a job is left")
