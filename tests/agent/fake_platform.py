"""A platform in one process that keeps to the agent protocol, notices when the agent does not, and fails on demand."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nodeagent.protocol import calls
from nodeagent.protocol import messages as protocol
from nodeagent.protocol.messages import (
    Action,
    BatchItem,
    BatchRequest,
    BatchResponse,
    BeatRequest,
    BeatResponse,
    ClaimRequest,
    DesiredAllocation,
    EndRequest,
    HelloRequest,
    HelloResponse,
    ItemOutcome,
    LaunchSpec,
    LogAccepted,
    LogFinishRequest,
    OutputsAnswer,
    OutputsFinishRequest,
    OutputSlot,
    OutputsRequest,
    Problem,
    RegisterRequest,
    RegisterResponse,
    SyncRequest,
    SyncResponse,
    Timers,
    WantedCheck,
)

TIMERS = Timers(beat_s=0.2, suspect_s=1.0, unreachable_s=2.0, stop_after_s=60.0, sync_wait_s=5.0, orphan_grace_s=1.0)


JOB_IDS: dict[str, Any] = {"uid": 4321, "gids": (4321,)} if os.geteuid() == 0 else {}
"""The job's user and groups in a spec: not root's, if the agent is root."""


@dataclass
class Output:
    """A file of an allocation, as far as it has come."""

    size: int
    body: bytearray = field(default_factory=bytearray)
    sha256: str = ""


@dataclass
class Allocation:
    """One allocation and all that the agent said of it."""

    spec: LaunchSpec
    action: Action = Action.RUN
    signal: str | None = None
    grace_s: float | None = None
    time_left_s: float | None = None
    claimed_by: tuple[str, str] | None = None
    """The boot, and the state folder of its agent."""
    observed: list[str] = field(default_factory=list)
    kept_reports: list[protocol.KeptReport] = field(default_factory=list)
    log: bytearray = field(default_factory=bytearray)
    holes: list[tuple[int, int]] = field(default_factory=list)
    end: EndRequest | None = None
    ends: int = 0
    finish: LogFinishRequest | None = None
    first_byte_at: float | None = None
    outputs: dict[str, Output] = field(default_factory=dict)
    outputs_finish: OutputsFinishRequest | None = None

    @property
    def text(self) -> str:
        return self.log.decode(errors="replace")

    def kept(self) -> bytes:
        """The bytes outside the holes."""
        kept = bytearray(self.log)
        for first, last in reversed(self.holes):
            del kept[first : last + 1]
        return bytes(kept)


@dataclass
class Fault:
    """The treatment of calls whose `METHOD path` matches, `times` times: an HTTP status, `cut` or `deaf`.

    `cut` closes the connection without handling the call, `deaf` after handling it.
    """

    pattern: str
    what: int | str
    times: int = 1


class FakePlatform:
    """Listens on a port of its own; `outage()` and `back()` keep the port."""

    def __init__(self, timers: Timers = TIMERS) -> None:
        self.node_name = "node-5"
        self.timers = timers
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.allocations: dict[int, Allocation] = {}
        self.codes: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.violations: list[str] = []
        self.calls: list[str] = []
        self.join_token = "join-me"
        self.credential = ""
        self.epoch = 0
        self.restored = False
        self.registered: RegisterRequest | None = None
        self.nonce = ""
        self.hellos = 0
        self.beats: list[BeatRequest] = []
        self.syncs: list[SyncRequest] = []
        self.log_pause_s = 0.0
        self.checks: tuple[WantedCheck, ...] = ()
        self._generation = 1
        self._next_id = 100
        self._connections: set[socket.socket] = set()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._port = 0
        self.back()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def back(self) -> None:
        """Answer (again)."""
        self._server = _Server(("127.0.0.1", self._port), self)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def outage(self) -> None:
        """Refuse and cut every connection."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with self.lock:
            connections = list(self._connections)
            self.changed.notify_all()
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._server = None

    def place(self, command: str, **fields: Any) -> int:
        """Want an allocation to run, and return its id."""
        with self.changed:
            self._next_id += 1
            allocation_id = self._next_id
            defaults = {"job_id": allocation_id, "attempt": 1, "rank": 0, "fence": 7, "name": "test", "owner": "alice"}
            spec = LaunchSpec(
                allocation_id=allocation_id, command=command, **{**defaults, **JOB_IDS, "grace_s": 2.0, **fields}
            )
            self.allocations[allocation_id] = Allocation(spec)
            self.bump()
        return allocation_id

    def stop(self, allocation_id: int, signal: str = "TERM", grace_s: float = 2.0) -> None:
        """Want an allocation to stop."""
        with self.changed:
            allocation = self.allocations[allocation_id]
            allocation.action, allocation.signal, allocation.grace_s = Action.STOP, signal, grace_s
            self.bump()

    def forget(self, allocation_id: int) -> Allocation:
        """Know an allocation no more."""
        with self.changed:
            allocation = self.allocations.pop(allocation_id)
            self.bump()
        return allocation

    def bump(self) -> None:
        with self.changed:
            self._generation += 1
            self.changed.notify_all()

    def fault(self, pattern: str, what: int | str, times: int = 1) -> None:
        with self.lock:
            self.faults.append(Fault(pattern, what, times))

    def take_fault(self, call: str) -> int | str | None:
        with self.lock:
            self.calls.append(call)
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.pattern, call):
                    fault.times -= 1
                    return fault.what
        return None

    def violate(self, text: str) -> None:
        with self.lock:
            self.violations.append(text)

    # The calls. Each returns (status, message or bytes).

    def hello(self, secret: str, body: bytes) -> tuple[int, Any]:
        request = HelloRequest.from_json(body)
        with self.lock:
            if not self._knows(secret, request.credential):
                return 401, Problem("unknown", "this secret is not known", 401)
            self.hellos += 1
            self.nonce = f"nonce-{self.hellos}"
            return 200, HelloResponse(self.nonce)

    def register(self, secret: str, body: bytes) -> tuple[int, Any]:
        request = RegisterRequest.from_json(body)
        with self.lock:
            if not self._knows(secret, request.credential):
                return 401, Problem("unknown", "this secret is not known", 401)
            if not self.nonce or request.nonce != self.nonce:
                return protocol.STALE_NONCE, Problem("stale", "say hello again", protocol.STALE_NONCE)
            self.nonce = ""
            self.credential = request.credential
            self.epoch += 1
            self.registered = request
            return 200, RegisterResponse(
                protocol.PROTOCOL_VERSION, 5, self.node_name, "test-cluster", self.epoch, self.timers
            )

    def _knows(self, secret: str, credential: str) -> bool:
        known = secret in (self.join_token, self.credential) and secret != ""
        return known and (not self.credential or credential == self.credential)

    def _refuse(self, epoch: int) -> tuple[int, Any]:
        if self.restored:
            return protocol.REGISTER_FIRST, Problem("restored", "register again", protocol.REGISTER_FIRST)
        return 409, Problem("superseded", f"epoch {epoch} is old", 409)

    def beat(self, body: bytes) -> tuple[int, Any]:
        request = BeatRequest.from_json(body)
        with self.lock:
            if request.epoch != self.epoch:
                return self._refuse(request.epoch)
            self.beats.append(request)
            return 200, BeatResponse(self.timers, self.checks)

    def sync(self, body: bytes) -> tuple[int, Any]:
        request = SyncRequest.from_json(body)
        with self.changed:
            if request.epoch != self.epoch:
                return self._refuse(request.epoch)
            self.syncs.append(request)
            for report in request.allocations:
                allocation = self.allocations.get(report.id)
                if allocation is not None and report.kept is not None:
                    allocation.kept_reports.append(report.kept)
                if allocation is not None and report.observed.value not in allocation.observed[-1:]:
                    allocation.observed.append(report.observed.value)
            until = time.monotonic() + request.wait_s
            while request.generation == str(self._generation) and self._server is not None:
                left_s = until - time.monotonic()
                if left_s <= 0 or not self.changed.wait(left_s):
                    break
        with self.lock:
            return 200, SyncResponse(str(self._generation), self.timers, self._desired(), self.log_pause_s)

    def _desired(self) -> tuple[DesiredAllocation, ...]:
        return tuple(
            DesiredAllocation(
                id=allocation.spec.allocation_id,
                fence=allocation.spec.fence,
                action=allocation.action,
                signal=allocation.signal,
                grace_s=allocation.grace_s,
                reason=None,
                time_left_s=allocation.time_left_s,
            )
            for allocation in self.allocations.values()
            if allocation.end is None and not self._is_left_behind(allocation)
        )

    def _is_left_behind(self, allocation: Allocation) -> bool:
        """True if it was claimed out of a state folder that the present agent does not have."""
        present = self.registered.state_id if self.registered is not None else ""
        return allocation.claimed_by is not None and allocation.claimed_by[1] != present

    def claim(self, allocation: Allocation, body: bytes) -> tuple[int, Any]:
        request = ClaimRequest.from_json(body)
        with self.lock:
            claimant = (request.boot_id, request.state_id)
            mine = allocation.claimed_by in (None, claimant)
            if not mine or request.fence != allocation.spec.fence or allocation.action is Action.STOP or allocation.end:
                return 409, Problem("not claimable", "another agent has it, or it is stopping", 409)
            allocation.claimed_by = claimant
            return 200, allocation.spec

    def batch(self, body: bytes) -> tuple[int, Any]:
        """Each item is a call of its own to faults and counts: `cut` and `deaf` are of the whole."""
        items = BatchRequest.from_json(body).items
        if not 0 < len(items) <= protocol.MAX_BATCH_ITEMS:
            self.violate(f"a batch of {len(items)} items")
        faults = [self.take_fault(f"POST /agent/v1/allocations/{item.id}/{_call_of(item)}") for item in items]
        if "cut" in faults:
            return 0, None
        outcomes = tuple(
            ItemOutcome(fault, "on demand") if isinstance(fault, int) else self._item(item)
            for item, fault in zip(items, faults, strict=True)
        )
        return (0, None) if "deaf" in faults else (200, BatchResponse(outcomes))

    def _item(self, item: BatchItem) -> ItemOutcome:
        allocation = self.allocations.get(item.id)
        if allocation is None:
            return ItemOutcome(404)
        if item.claim is not None:
            status, answer = self.claim(allocation, item.claim.to_json())
            return ItemOutcome(status, launch=answer if status == 200 else None)
        if item.end is not None:
            return ItemOutcome(self.end(allocation, item.end.to_json())[0])
        assert item.finish is not None
        if item.finish.rest:
            rest = base64.b64decode(item.finish.rest)
            if len(rest) > protocol.MAX_REST_BYTES:
                self.violate(f"a rest of {len(rest)} bytes")
            status, answer = self._append(allocation, item.finish.start, rest, None)
            if status != 202:
                return ItemOutcome(status, size=answer.size if status == 416 else None)
        return ItemOutcome(self.finish(allocation, item.finish.to_json())[0])

    def log(self, allocation: Allocation, headers: Any, body: bytes) -> tuple[int, Any]:
        first, last = calls.parse_content_range(headers[calls.CONTENT_RANGE_HEADER])
        if last - first + 1 != len(body) or len(body) > protocol.MAX_CHUNK_BYTES:
            self.violate(f"a chunk of {len(body)} bytes for {first}-{last}")
        if calls.crc32_hex(body) != headers[calls.CRC32_HEADER]:
            self.violate("a wrong checksum")
        if int(headers[calls.FENCE_HEADER]) != allocation.spec.fence:
            return 409, Problem("old fence", "", 409)
        return self._append(allocation, first, body, headers.get(calls.DROPPED_HEADER))

    def _append(self, allocation: Allocation, first: int, body: bytes, dropped: str | None) -> tuple[int, Any]:
        last = first + len(body) - 1
        with self.changed:
            size = len(allocation.log)
            if first < size < last + 1:
                self.violate(f"a chunk {first}-{last} straddles {size}")
                return 409, Problem("rewrite", "", 409)
            if last < size:
                if allocation.log[first : last + 1] != body:
                    return 409, Problem("rewrite", "", 409)
                return 202, LogAccepted(size)
            if dropped is not None:
                hole_first, hole_last = calls.parse_range(dropped)
                if hole_last != first - 1:
                    self.violate(f"a hole {dropped} before {first}")
                if hole_first <= size:
                    allocation.holes.append((size, hole_last))
                    allocation.log += bytes(hole_last + 1 - size)
                    size = hole_last + 1
            if first > size:
                return 416, LogAccepted(size)
            allocation.log += body
            if allocation.first_byte_at is None:
                allocation.first_byte_at = time.time()
            self.changed.notify_all()
            return 202, LogAccepted(len(allocation.log))

    def end(self, allocation: Allocation, body: bytes) -> tuple[int, Any]:
        request = EndRequest.from_json(body)
        with self.changed:
            if request.fence != allocation.spec.fence:
                return 409, Problem("old fence", "", 409)
            if allocation.claimed_by not in (None, (request.boot_id, request.state_id)):
                self.violate(f"allocation {allocation.spec.allocation_id} was ended by another than had claimed it")
                return 409, Problem("another claimant", "", 409)
            allocation.ends += 1
            allocation.end = request
            self.bump()
            return 200, {}

    def finish(self, allocation: Allocation, body: bytes) -> tuple[int, Any]:
        request = LogFinishRequest.from_json(body)
        with self.changed:
            allocation.finish = request
            if request.sha256 and request.sha256 != hashlib.sha256(allocation.kept()).hexdigest():
                self.violate(f"allocation {allocation.spec.allocation_id}: another SHA-256 of its log")
            stated = [hole for hole in request.holes if hole[0] < len(allocation.log)]
            if stated != allocation.holes:
                self.violate(f"holes {request.holes} but {allocation.holes} were dropped")
            self.changed.notify_all()
            return 200, {}

    def name_outputs(self, allocation: Allocation, body: bytes) -> tuple[int, Any]:
        request = OutputsRequest.from_json(body)
        with self.lock:
            if request.fence != allocation.spec.fence:
                return 409, Problem("old fence", "", 409)
            slots = []
            for file in request.files:
                output = allocation.outputs.setdefault(file.path, Output(file.size))
                number = list(allocation.outputs).index(file.path)
                slots.append(OutputSlot(number, len(output.body), wanted=bool(file.size) and not output.sha256))
            return 200, OutputsAnswer(tuple(slots))

    def output(self, allocation: Allocation, number: int, headers: Any, body: bytes) -> tuple[int, Any]:
        first, last = calls.parse_content_range(headers[calls.CONTENT_RANGE_HEADER])
        with self.lock:
            output = list(allocation.outputs.values())[number]
            if last - first + 1 != len(body) or calls.crc32_hex(body) != headers[calls.CRC32_HEADER]:
                self.violate(f"a chunk of {len(body)} bytes for {first}-{last}, or another checksum")
            if first > len(output.body):
                return 416, LogAccepted(len(output.body))
            output.body[first : last + 1] = body
            digest = headers.get(calls.SHA256_HEADER)
            if (digest is not None) != (last + 1 == output.size):
                self.violate(f"the digest {digest} with {first}-{last} of {output.size}")
            output.sha256 = digest or output.sha256
            return 202, LogAccepted(len(output.body))

    def finish_outputs(self, allocation: Allocation, body: bytes) -> tuple[int, Any]:
        request = OutputsFinishRequest.from_json(body)
        with self.lock:
            for path, output in allocation.outputs.items():
                if output.sha256 and output.sha256 != hashlib.sha256(output.body).hexdigest():
                    self.violate(f"{path}: another SHA-256")
            allocation.outputs_finish = request
            return 200, {}


def _call_of(item: BatchItem) -> str:
    return "claim" if item.claim is not None else "end" if item.end is not None else "log:finish"


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], platform: FakePlatform) -> None:
        self.platform = platform
        super().__init__(address, _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        with self.server.platform.lock:
            self.server.platform._connections.add(self.connection)

    def finish(self) -> None:
        with self.server.platform.lock:
            self.server.platform._connections.discard(self.connection)
        super().finish()

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, ValueError):  # cut by an outage
            self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def _serve(self) -> None:
        platform = self.server.platform
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # the agent was killed, or the platform is going down
            self.close_connection = True
            return
        fault = platform.take_fault(f"{self.command} {self.path}")
        if fault == "cut":
            self.close_connection = True
            return
        if isinstance(fault, int):
            self._answer(fault, Problem("a fault", "on demand", fault))
            return
        try:
            status, answer = self._route(platform, body)
        except protocol.ProtocolError as error:
            platform.violate(f"{self.path}: {error}")
            status, answer = 400, Problem("bad message", str(error), 400)
        if fault == "deaf" or not status:
            self.close_connection = True
            return
        self._answer(status, answer)

    def _route(self, platform: FakePlatform, body: bytes) -> tuple[int, Any]:
        secret = self.headers.get(calls.AUTHORIZATION_HEADER, "").removeprefix("Bearer ")
        if self.path == calls.HELLO_PATH:
            return platform.hello(secret, body)
        if self.path == calls.REGISTER_PATH:
            return platform.register(secret, body)
        if secret != platform.credential:
            return 401, Problem("unknown", "this credential is not known", 401)
        if self.path == calls.BEAT_PATH:
            return platform.beat(body)
        if self.path == calls.SYNC_PATH:
            return platform.sync(body)
        if self.path == calls.BATCH_PATH:
            return platform.batch(body)
        code = re.fullmatch(r"/agent/v1/code/(\w+)", self.path)
        if code:
            return (200, platform.codes[code[1]]) if code[1] in platform.codes else (404, Problem("no such code"))
        kinds = "log|outputs:finish|outputs"
        match = re.fullmatch(rf"/agent/v1/allocations/(\d+)/({kinds})(?:/(\d+))?", self.path)
        allocation = platform.allocations.get(int(match[1])) if match else None
        if match is None or allocation is None:
            return 404, Problem("not found", self.path, 404)
        if match[2] == "log":
            return platform.log(allocation, self.headers, body)
        if match[3] is not None:
            return platform.output(allocation, int(match[3]), self.headers, body)
        answers: dict[str, Callable[[Allocation, bytes], tuple[int, Any]]] = {
            "outputs": platform.name_outputs,
            "outputs:finish": platform.finish_outputs,
        }
        return answers[match[2]](allocation, body)

    def _answer(self, status: int, answer: Any) -> None:
        if isinstance(answer, bytes):
            content, kind = answer, calls.CODE_TYPE
        elif isinstance(answer, dict):
            content, kind = json.dumps(answer).encode(), calls.JSON_TYPE
        else:
            content, kind = answer.to_json(), calls.JSON_TYPE
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
