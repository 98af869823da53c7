"""The steps of a job, on its first node: `srun` asks here, nodes take their orders from here.

`srun` gets a connection to each node of its step, over which all else goes. The connection to a node is made by that
node, which proves that it has the attempt's secret; it is handed to `srun` as it is.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nodeagent.jobside.slurm import wire
from nodeagent.jobside.slurm.environment import SECRETS, Job
from nodeagent.jobside.slurm.layout import Busy, Layout, Node, Refused, Request, Share
from nodeagent.jobside.slurm.tasks import run_step

_GREETING_S = 10.0
_MAX_GREETINGS = 64
_MAX_PATH_BYTES = 100
"""A little less than the longest path of a socket."""


@dataclass
class Client:
    """One `srun`, and its step once that has started."""

    connection: socket.socket
    lines: wire.Lines = field(default_factory=wire.Lines)
    request: Request | None = None
    """Its request while it waits."""
    step: int | None = None


@dataclass
class Greeting:
    """A caller over the network that has not yet proved anything."""

    connection: socket.socket
    challenge: str
    until: float
    lines: wire.Lines = field(default_factory=wire.Lines)


@dataclass
class Running:
    """A step, the nodes that have not ended their part, and its `srun` while that is there."""

    shares: list[Share]
    ranks: set[int]
    client: Client | None
    holds: bool


class Controller:
    """The server of steps, driven by the loop of the supervisor."""

    def __init__(self, job: Job, selector: selectors.BaseSelector, signal_script: Callable[[int], None]) -> None:
        self._job = job
        self._signal_script = signal_script
        self._selector = selector
        told = job.told
        # As with Slurm, a script on whole nodes that has named no GPUs sees them, and its steps do not.
        gpus = [len(one) if job.batch.get("step_gpus", True) else 0 for one in told["gpus"]]
        self._layout = Layout([Node(*size) for size in zip(told["nodes"], job.cpus, told["memory_mib"], gpus)])
        self._clients: list[Client] = []
        self._greetings: list[Greeting] = []
        self._nodes: dict[int, socket.socket] = {}
        self._seen = {0}
        self._orders: dict[int, list[int]] = {}
        """Steps that wait for a node to call."""
        self._children: dict[int, int] = {}
        """The steps of this node, by their processes."""
        self._running: dict[int, Running] = {}
        self._next_step = 0
        self._folder = _folder()
        self.path = os.path.join(self._folder, "steps")
        self.stopping = False
        """True once the job has been told to stop: no step starts any more."""
        self._local = socket.socket(socket.AF_UNIX)
        self._local.bind(self.path)
        self._local.listen(128)
        self._watch(self._local, self._accept_client)
        self._listening = [self._local]
        if len(job.nodes) > 1:
            network = _listen(job)
            self._listening.append(network)
            self._watch(network, lambda: self._accept_caller(network))

    @property
    def has_all_ranks(self) -> bool:
        """True if every node of the job has called at some time."""
        return len(self._seen) == len(self._job.nodes)

    @property
    def has_steps(self) -> bool:
        """True while a step runs or its `srun` is there."""
        return bool(self._running or self._clients)

    def signal_steps(self, number: int) -> None:
        """Signal the tasks of all steps."""
        for running in self._running.values():
            if running.client is not None:
                self._answer(running.client, {"signal": number})

    def refuse_waiting(self) -> None:
        """Start no more steps."""
        self.stopping = True
        for client in self._clients:
            if client.request is not None:
                self._refuse(client, Refused(_ENDING))

    def ended(self, pid: int) -> None:
        """Note the end of a child of this process, if it ran a step."""
        step = self._children.pop(pid, None)
        if step is not None:
            self._part_ended(step, 0)

    def close(self) -> None:
        """Tell the other nodes that the job has ended, and remove the socket."""
        for connection in self._nodes.values():
            _send(connection, wire.line({"end": True}))
        for connection in (*self._listening, *self._nodes.values()):
            connection.close()
        os.unlink(self.path)
        os.rmdir(self._folder)

    def wait_s(self) -> float | None:
        """The time until this must be called again, in seconds; callers that said nothing are sent away."""
        now = time.monotonic()
        for greeting in [one for one in self._greetings if one.until <= now]:
            self._drop_greeting(greeting)
        return min((one.until - now for one in self._greetings), default=None)

    def _watch(self, connection: socket.socket, react: Callable[[], None]) -> None:
        self._selector.register(connection, selectors.EVENT_READ, react)

    # srun

    def _accept_client(self) -> None:
        connection, _ = self._local.accept()
        client = Client(connection)
        self._clients.append(client)
        self._watch(connection, lambda: self._hear_client(client))

    def _hear_client(self, client: Client) -> None:
        data = _receive(client.connection)
        if not data:
            self._client_gone(client)
            return
        for told in client.lines.feed(data):
            if "create" in told:
                self._create(client, told)
            elif "deliver" in told:
                if told["steps"]:
                    self.signal_steps(int(told["deliver"]))
                if told["script"]:
                    self._signal_script(int(told["deliver"]))
                self._answer(client, {"delivered": True})
            elif "stopping" in told:
                self._answer(client, {"stopping": self.stopping})

    def _client_gone(self, client: Client) -> None:
        self._selector.unregister(client.connection)
        client.connection.close()
        self._clients.remove(client)
        running = self._running.get(-1 if client.step is None else client.step)
        if running is not None:
            running.client = None
            for rank, steps in self._orders.items():
                if client.step in steps:  # that node will never hear of it
                    steps.remove(client.step)
                    self._part_ended(client.step, rank)

    def _create(self, client: Client, told: dict[str, Any]) -> None:
        try:
            client.request = Request.from_dict(told["create"])
            if self.stopping:
                raise Refused(_ENDING)
            self._start(client)
        except Refused as refused:
            self._refuse(client, refused)
        except Busy:
            self._answer(client, {"waiting": "Requested nodes are busy"})

    def _refuse(self, client: Client, refused: Refused) -> None:
        client.request = None
        self._answer(client, {"refused": [str(told).format(job=self._job.id) for told in refused.args]})

    def _start(self, client: Client) -> None:
        """Start the step of this `srun`.

        Raises:
            Refused, Busy: it cannot run now.
        """
        request = client.request
        if request is None:
            return
        shares = self._layout.place(request)
        step, self._next_step = self._next_step, self._next_step + 1
        ranks = {share.rank for share in shares}
        client.step = step
        self._running[step] = Running(shares, set(ranks), client, not request.overlap)
        client.request = None
        names = [self._job.nodes[share.rank] for share in shares]
        self._answer(client, {"step": step, "nodes": names, "shares": [share.to_dict() for share in shares]})
        for rank in sorted(ranks):
            if rank == 0:
                self._run_here(client, step)
            elif rank in self._nodes:
                _send(self._nodes[rank], wire.line({"step": step}))
            else:
                self._orders.setdefault(rank, []).append(step)

    def _run_here(self, client: Client, step: int) -> None:
        own, other = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            keep_only(own)
            run_step(own, self._job, self._job.environment)
        own.close()
        self._children[pid] = step
        self._hand_over(client, other, 0)

    def _hand_over(self, client: Client, connection: socket.socket, rank: int) -> None:
        """Give `srun` the connection to a node of its step."""
        with contextlib.suppress(OSError):  # it has gone, which is seen when it is heard
            socket.send_fds(client.connection, [wire.line({"node": rank})], [connection.fileno()])
        connection.close()

    def _answer(self, client: Client, told: object) -> None:
        _send(client.connection, wire.line(told))

    def _part_ended(self, step: int, rank: int) -> None:
        running = self._running.get(step)
        if running is None:
            return
        running.ranks.discard(rank)
        if running.ranks:
            return
        del self._running[step]
        if running.holds:
            self._layout.release(running.shares)
        for client in list(self._clients):
            if client.request is not None:
                try:
                    self._start(client)
                except Busy:
                    continue
                except Refused as refused:
                    self._refuse(client, refused)

    # Other nodes

    def _accept_caller(self, network: socket.socket) -> None:
        connection, _ = network.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        greeting = Greeting(connection, wire.nonce(), time.monotonic() + _GREETING_S)
        if len(self._greetings) >= _MAX_GREETINGS:
            self._drop_greeting(self._greetings[0])
        self._greetings.append(greeting)
        _send(connection, wire.line(greeting.challenge))
        self._watch(connection, lambda: self._hear_greeting(greeting))

    def _drop_greeting(self, greeting: Greeting) -> None:
        self._greetings.remove(greeting)
        self._selector.unregister(greeting.connection)
        greeting.connection.close()

    def _hear_greeting(self, greeting: Greeting) -> None:
        """Let a caller in that proves to have the secret."""
        data = _receive(greeting.connection, 4096)
        try:
            told = next(greeting.lines.feed(data), None)
        except ValueError:
            data = b""
        if not data:
            self._drop_greeting(greeting)
            return
        if told is None:
            return
        known = wire.greet(str(self._job.told["secret"]), greeting.challenge, told)
        if known is None or not 0 < known[0] < len(self._job.nodes):
            self._drop_greeting(greeting)
            return
        rank, step, answer = known
        self._greetings.remove(greeting)
        self._selector.unregister(greeting.connection)
        _send(greeting.connection, answer)
        if step is None:
            self._take_node(rank, greeting.connection)
            return
        running = self._running.get(step)
        if running is None or running.client is None or rank not in running.ranks:
            greeting.connection.close()
        else:
            self._hand_over(running.client, greeting.connection, rank)

    def _take_node(self, rank: int, connection: socket.socket) -> None:
        """Give orders to this node from now on."""
        first = {name: value for name, value in self._job.environment.items() if name not in SECRETS}
        _send(connection, wire.line({"first": first}))
        self._nodes[rank] = connection
        self._seen.add(rank)
        lines = wire.Lines()

        def hear() -> None:
            data = _receive(connection)
            for told in lines.feed(data):
                self._part_ended(told["ended"], rank)
            if not data:
                self._node_gone(rank)

        self._watch(connection, hear)
        for step in self._orders.pop(rank, []):
            _send(connection, wire.line({"step": step}))

    def _node_gone(self, rank: int) -> None:
        """Have what it still runs of steps ended; the platform ends the gang."""
        connection = self._nodes.pop(rank)
        self._selector.unregister(connection)
        connection.close()
        for step, running in list(self._running.items()):
            if rank in running.ranks:
                if running.client is not None:
                    self._answer(running.client, {"lost": rank})
                self._part_ended(step, rank)


_ENDING = "Unable to create step for job {job}: Job/step already completing or completed"


def keep_only(connection: socket.socket) -> None:
    """Close what a fork has of the supervisor's, but for this and the standard streams."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    number = connection.fileno()
    os.closerange(3, number)
    os.closerange(number + 1, 4096)


def _folder() -> str:
    """A new folder for the socket, whose path must be short."""
    temporary = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - the default of all programs
    place = temporary if os.path.isdir(temporary) and len(temporary) < _MAX_PATH_BYTES - 30 else "/tmp"  # noqa: S108
    return tempfile.mkdtemp(prefix="muster-", dir=place)


def _listen(job: Job) -> socket.socket:
    """The socket at which the other nodes call: at the address that they know, where it is this machine's own."""
    port = int(job.told["port"])
    try:
        family, _, _, _, address = socket.getaddrinfo(job.told["addresses"][0], port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=256)
    except OSError:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=256)
        return socket.create_server(("", port), backlog=256)


def _receive(connection: socket.socket, size: int = 1 << 16) -> bytes:
    try:
        return connection.recv(size)
    except OSError:
        return b""


def _send(connection: socket.socket, data: bytes) -> None:
    """Send a line, which is small; that the other side has gone is seen when it is heard."""
    try:
        connection.sendall(data)
    except OSError:
        return
