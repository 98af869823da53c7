"""Calls to the platform, and three kinds of failure.

`Unreachable` is worth another try (no connection, time out, 5xx, 429, an answer that is not of this protocol).
`Refused` is the platform's last word on this call. `Unauthorized` is its last word on this agent.
"""

from __future__ import annotations

import http.client
import json
from typing import BinaryIO, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from nodeagent.protocol import calls
from nodeagent.protocol import messages as protocol
from nodeagent.protocol.messages import (
    BatchItem,
    BatchRequest,
    BeatRequest,
    BeatResponse,
    HelloRequest,
    HelloResponse,
    ItemOutcome,
    LogAccepted,
    OutputsAnswer,
    OutputsFinishRequest,
    OutputsRequest,
    Problem,
    ProtocolError,
    RegisterRequest,
    RegisterResponse,
    SyncRequest,
    SyncResponse,
)
from nodeagent.protocol.shellwire import (
    ShellEndRequest,
    ShellInputAnswer,
    ShellInputRequest,
    ShellOpenAnswer,
    ShellOpenRequest,
    ShellOutputAnswer,
    ShellOutputRequest,
)
from nodeagent.transport.transport import Transport, Unreachable

__all__ = ["Client", "Refused", "Unauthorized", "Unreachable"]

_ANSWER_TIMEOUT_S = 30.0
_TRY_AGAIN = (408, 425, 429)
_JSON = {"Content-Type": calls.JSON_TYPE}

M = TypeVar("M", bound=protocol.Message)


class Refused(Exception):
    """The platform refused the call and would refuse it again."""

    def __init__(self, status: int, detail: str, body: bytes = b"") -> None:
        self.status = status
        self.detail = detail
        self.body = body
        super().__init__("{} {}".format(status, detail))


class Unauthorized(Refused):
    """The platform refused the agent's secret."""


class Client:
    """The platform's agent endpoint. Its methods may be called from any thread."""

    def __init__(self, transport: Transport, secret: str = "") -> None:
        self._transport = transport
        self.secret = secret
        """The secret of the Authorization header."""

    @property
    def vouched_for(self) -> bool:
        """True if the transport tells the platform the node of its calls."""
        return self._transport.vouched_for

    def hello(self, request: HelloRequest) -> HelloResponse:
        """Ask for the nonce of the next registration."""
        return self._post(calls.HELLO_PATH, request, HelloResponse)

    def register(self, request: RegisterRequest) -> RegisterResponse:
        """Begin a new epoch of this node."""
        return self._post(calls.REGISTER_PATH, request, RegisterResponse)

    def beat(self, request: BeatRequest, timeout_s: float) -> BeatResponse:
        """Renew the lease."""
        return self._post(calls.BEAT_PATH, request, BeatResponse, timeout_s)

    def sync(self, request: SyncRequest) -> SyncResponse:
        """Exchange what is seen for what is wanted."""
        return self._post(calls.SYNC_PATH, request, SyncResponse, request.wait_s + _ANSWER_TIMEOUT_S)

    def batch(self, items: Sequence[BatchItem]) -> Tuple[Union[ItemOutcome, Unreachable, Refused], ...]:
        """Say several things at once; of each comes its outcome, or what its own call would raise."""
        try:
            body = self._request("POST", calls.BATCH_PATH, BatchRequest(tuple(items)).to_json(), _JSON)
        except Unauthorized:
            raise
        except Refused as error:
            # It is the word on no item.
            raise Unreachable("the platform takes no batch: {}".format(error)) from error
        try:
            outcomes = json.loads(body)["outcomes"]
            return tuple(_outcome(outcomes[place]) for place in range(len(items)))
        except (ValueError, LookupError, TypeError) as error:
            raise Unreachable("an answer that is not of this protocol: {!r}".format(error)) from error

    def append_log(
        self, allocation_id: int, fence: int, start: int, data: bytes, dropped: Optional[Tuple[int, int]]
    ) -> int:
        """Ship a chunk and return the size that the platform has now, also when it found a gap (416)."""
        gap = {} if dropped is None else {calls.DROPPED_HEADER: calls.format_range(*dropped)}
        return self._append(calls.log_path(allocation_id), fence, start, data, gap)

    def name_outputs(self, allocation_id: int, request: OutputsRequest) -> OutputsAnswer:
        """Ask for slots for files that a job left."""
        return self._post(calls.OUTPUTS_PATH.format(id=allocation_id), request, OutputsAnswer)

    def append_output(
        self, allocation_id: int, file_id: int, fence: int, start: int, data: bytes, *, sha256: Optional[str]
    ) -> int:
        """Ship a chunk of a file, the last one with the file's digest; return the size that the platform has now."""
        digest = {} if sha256 is None else {calls.SHA256_HEADER: sha256}
        return self._append(calls.OUTPUT_PATH.format(id=allocation_id, file=file_id), fence, start, data, digest)

    def finish_outputs(self, allocation_id: int, request: OutputsFinishRequest) -> None:
        """Tell that all files are shipped, and which are left out."""
        path = calls.OUTPUTS_FINISH_PATH.format(id=allocation_id)
        self._request("POST", path, request.to_json(), _JSON)

    def open_shell(self, allocation_id: int, shell_id: int, request: ShellOpenRequest) -> ShellOpenAnswer:
        """Take a shell that is wanted, and learn what to start."""
        return self._post(calls.shell_path(allocation_id, shell_id, "open"), request, ShellOpenAnswer)

    def send_output(self, allocation_id: int, shell_id: int, request: ShellOutputRequest) -> ShellOutputAnswer:
        """Send a shell's output; the answer may wait until the reader has room."""
        return self._post(calls.shell_path(allocation_id, shell_id, "output"), request, ShellOutputAnswer)

    def take_input(self, allocation_id: int, shell_id: int, request: ShellInputRequest) -> ShellInputAnswer:
        """Wait for what is typed in a shell."""
        path = calls.shell_path(allocation_id, shell_id, "input")
        return self._post(path, request, ShellInputAnswer, request.wait_s + _ANSWER_TIMEOUT_S)

    def end_shell(self, allocation_id: int, shell_id: int, request: ShellEndRequest) -> None:
        """Tell that a shell is over."""
        path = calls.shell_path(allocation_id, shell_id, "end")
        self._request("POST", path, request.to_json(), _JSON)

    def fetch_code(self, sha256: str, target: BinaryIO, limit_bytes: int) -> None:
        """Write an archive of code to `target`, no more than `limit_bytes` of it."""
        headers = self._with_secret({})
        path = calls.code_path(sha256)
        status, body = self._transport.fetch(path, headers, target, limit_bytes, _ANSWER_TIMEOUT_S)
        if status != http.client.OK:
            raise _refusal_of(status, body)

    def _append(self, path: str, fence: int, start: int, data: bytes, more_headers: Mapping[str, str]) -> int:
        """Send a chunk and return the size that the platform has now, also when it found a gap (416)."""
        headers = {
            "Content-Type": calls.LOG_TYPE,
            calls.CONTENT_RANGE_HEADER: calls.content_range(start, len(data)),
            calls.CRC32_HEADER: calls.crc32_hex(data),
            calls.FENCE_HEADER: str(fence),
            **more_headers,
        }
        try:
            body = self._request("PATCH", path, data, headers)
        except Refused as refusal:
            if refusal.status != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
            body = refusal.body
        return _read(LogAccepted, body).size

    def _post(self, path: str, request: protocol.Message, answer: Type[M], timeout_s: float = _ANSWER_TIMEOUT_S) -> M:
        body = self._request("POST", path, request.to_json(), _JSON, timeout_s)
        return _read(answer, body)

    def _request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float = _ANSWER_TIMEOUT_S
    ) -> bytes:
        status, content = self._transport.call(method, path, body, self._with_secret(headers), timeout_s)
        if 200 <= status < 300:
            return content
        raise _refusal_of(status, content)

    def _with_secret(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        # A link vouches for the node by itself, and its other end is not to be told more than it needs.
        if self._transport.vouched_for:
            return headers
        return {**headers, calls.AUTHORIZATION_HEADER: calls.bearer(self.secret)}


def _outcome(data: object) -> Union[ItemOutcome, Unreachable, Refused]:
    """One item's outcome by itself: what cannot be read says nothing of the others."""
    try:
        outcome = ItemOutcome.from_dict(data)
    except ProtocolError as error:
        return Unreachable("an answer that is not of this protocol: {}".format(error))
    if 200 <= outcome.status < 300:
        return outcome
    return _refusal(outcome.status, outcome.detail, LogAccepted(outcome.size or 0).to_json())


def _read(message: Type[M], body: bytes) -> M:
    try:
        return message.from_json(body)
    except ProtocolError as error:
        raise Unreachable("an answer that is not of this protocol: {}".format(error)) from error


def _refusal_of(status: int, body: bytes) -> Union[Unreachable, Refused]:
    try:
        problem = Problem.from_json(body)
        detail = problem.detail or problem.title
    except ProtocolError:
        detail = body[:200].decode(errors="replace")
    return _refusal(status, detail, body)


def _refusal(status: int, detail: str, body: bytes = b"") -> Union[Unreachable, Refused]:
    if not 400 <= status < 500 or status in _TRY_AGAIN:
        return Unreachable("{} {}".format(status, detail))
    if status == http.client.UNAUTHORIZED:
        return Unauthorized(status, detail, body)
    return Refused(status, detail, body)
