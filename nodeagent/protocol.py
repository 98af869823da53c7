"""The messages between the agent of a node and the platform, version 1, and their strict reading.

Every message is a frozen dataclass with `to_dict()` and `from_dict()`. Reading is strict about types and names the
field in a `ProtocolError`; unknown keys are ignored and fields with a default may be missing, so that version N and
version N-1 understand each other. A float field takes a JSON integer; an integer field takes no float and no boolean;
NaN, infinities, integers beyond 64 bits, NUL characters and lone surrogates are refused, since a database would.

What the wire format leaves open is settled here:

- Ids, attempts, ranks, epochs and fences are integers. `generation` is an opaque string; the first sync sends "".
- `seq` counts up from 1 within one run of the agent, over all its messages. A receiver may use it to drop late ones.
- Log offsets count every byte that the job wrote, given-up bytes too. A range is `first-last`, both inclusive.
  `X-Muster-Dropped` on a chunk states the hole just before it: its last byte is the chunk's first minus one. A hole
  may begin before the size that the receiver has (the receiver then keeps its bytes); it never begins after it.
- Bytes given up after the last chunk are stated by `LogFinishRequest.holes` only, and `size` counts them.
  `sha256` is that of all bytes outside the holes, in order; holes are sorted and do not touch.
- The agent keeps to `LaunchSpec.log_cap_bytes`: it ships the beginning live, and when the job is over the newest part,
  with the hole between them stated.
- A desired `stop` for an allocation of which the agent has no record is answered by an `end` with `never_started`:
  an intent is on disk before anything starts, so no record means that nothing did.
- A report with `observed: exited` and the `end` of the same allocation may arrive in either order.
"""

from __future__ import annotations

import dataclasses
import json
import math
import zlib
from dataclasses import dataclass, field
from enum import Enum
from typing import (
    Any,
    Callable,
    Dict,
    Mapping,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

PROTOCOL_VERSION = 1

PREFIX = "/agent/v1"
REGISTER_PATH = PREFIX + "/register"
BEAT_PATH = PREFIX + "/beat"
SYNC_PATH = PREFIX + "/sync"
CLAIM_PATH = PREFIX + "/allocations/{id}/claim"
END_PATH = PREFIX + "/allocations/{id}/end"
LOG_PATH = PREFIX + "/allocations/{id}/log"
LOG_FINISH_PATH = PREFIX + "/allocations/{id}/log:finish"
CODE_PATH = PREFIX + "/code/{sha256}"

AUTHORIZATION_HEADER = "Authorization"
CONTENT_RANGE_HEADER = "Content-Range"
CRC32_HEADER = "X-Muster-Crc32"
FENCE_HEADER = "X-Muster-Fence"
DROPPED_HEADER = "X-Muster-Dropped"

JSON_TYPE = "application/json"
LOG_TYPE = "application/octet-stream"
CODE_TYPE = "application/gzip"
PROBLEM_TYPE = "application/problem+json"

MAX_CHUNK_BYTES = 1 << 20
"""The largest body of one log PATCH; a larger one is answered 413."""

EXIT_SUPERSEDED = 3
"""Exit status of an agent whose epoch is old: another agent speaks for the node. Its jobs go on."""
EXIT_UNAUTHORIZED = 4
"""Exit status of an agent whose credential or join token was refused. Its jobs go on."""

_INT64 = 1 << 63


class ProtocolError(ValueError):
    """A message that breaks the wire format; `field` is the path of the offending field, such as `gpus[0].uuid`."""

    def __init__(self, field_path: str, problem: str) -> None:
        self.field = field_path
        self.problem = problem
        super().__init__("{}: {}".format(field_path or "message", problem))


class Observed(str, Enum):
    """What the agent sees of an allocation's processes."""

    NONE = "none"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"


class Action(str, Enum):
    """What the platform wants done with an allocation."""

    RUN = "run"
    STOP = "stop"


class OnDisconnect(str, Enum):
    """What happens to a job whose node cannot reach the platform for `stop_after_s`."""

    STOP = "stop"
    KEEP = "keep"


class EndReason(str, Enum):
    """Why an allocation ended, as far as its agent can know; each is also a reason of the platform's."""

    COMPLETED = "completed"
    EXIT_NONZERO = "exit_nonzero"
    KILLED_BY_SIGNAL = "killed_by_signal"
    COMMAND_NOT_FOUND = "command_not_found"
    LAUNCH_FAILED = "launch_failed"
    CODE_UNAVAILABLE = "code_unavailable"
    TIME_LIMIT = "time_limit"
    NEVER_STARTED = "never_started"
    AGENT_STOPPED = "agent_stopped"
    UNKNOWN = "unknown"


M = TypeVar("M", bound="Message")

_Reader = Callable[[Any, str], Any]
_Writer = Optional[Callable[[Any], Any]]
_Codec = Tuple[Tuple[str, bool, _Reader, _Writer], ...]
_CODECS: Dict[type, _Codec] = {}


class Message:
    """A frozen dataclass that travels as a JSON object."""

    def to_dict(self) -> Dict[str, Any]:
        """The message in plain JSON types."""
        return {
            name: getattr(self, name) if write is None else write(getattr(self, name))
            for name, _, _, write in _codec(type(self))
        }

    @classmethod
    def from_dict(cls: Type[M], data: Any, path: str = "") -> M:
        """The message that `data` spells, or a `ProtocolError` that names the first wrong field."""
        if not isinstance(data, dict):
            raise ProtocolError(path, "expected an object, got " + _kind(data))
        values: Dict[str, Any] = {}
        prefix = path + "." if path else ""
        for name, required, read, _ in _codec(cls):
            if name in data:
                values[name] = read(data[name], prefix + name)
            elif required:
                raise ProtocolError(prefix + name, "is missing")
        return cls(**values)

    def to_json(self) -> bytes:
        """The message as a compact UTF-8 JSON body."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_json(cls: Type[M], body: bytes) -> M:
        """The message that a JSON body spells, or a `ProtocolError`."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProtocolError("", "is not JSON: {}".format(error)) from error
        return cls.from_dict(data)


@dataclass(frozen=True)
class Timers(Message):
    """The platform's periods for one node; an operator may lengthen them, and they come with every answer."""

    beat_s: float = 5.0
    suspect_s: float = 15.0
    unreachable_s: float = 30.0
    stop_after_s: float = 600.0
    sync_wait_s: float = 25.0
    orphan_grace_s: float = 60.0
    log_max_bytes_per_job: int = 1 << 30


@dataclass(frozen=True)
class GpuInfo(Message):
    """One GPU of the inventory; `model` is the GPU type that jobs ask for."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    pci_bus_id: str = ""
    numa_node: Optional[int] = None


@dataclass(frozen=True)
class Inventory(Message):
    """What a node has.

    `topology` is a square matrix in the order of `gpus`: `X` on the diagonal, else the closest link, in the words of
    `nvidia-smi topo` (`NV4`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS`); empty when it is not known.
    """

    hostname: str
    address: str
    cpus: int
    memory_mib: int
    disk_mib: int = 0
    driver_version: str = ""
    runtimes: Tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: Tuple[GpuInfo, ...] = ()
    topology: Tuple[Tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class RegisterRequest(Message):
    """An agent's first word after each of its starts.

    The header carries the join token until a registration has succeeded and the credential from then on.
    `credential` is made by the agent and kept on its disk, so a lost answer is retried with the same pair.
    """

    protocol: int
    boot_id: str
    agent_version: str
    credential: str
    inventory: Inventory


@dataclass(frozen=True)
class RegisterResponse(Message):
    """The node's identity and the epoch of this run of its agent."""

    protocol: int
    node_id: int
    node_name: str
    cluster_id: str
    epoch: int
    timers: Timers


@dataclass(frozen=True)
class BeatRequest(Message):
    """The sign of life that renews the node's lease."""

    epoch: int
    seq: int
    boot_id: str


@dataclass(frozen=True)
class BeatResponse(Message):
    """The lease is renewed."""

    timers: Timers


@dataclass(frozen=True)
class AllocationReport(Message):
    """What the agent sees of one allocation; `log_size` counts every byte that the job has written."""

    id: int
    fence: int
    observed: Observed
    exit_code: Optional[int] = None
    log_size: int = 0


@dataclass(frozen=True)
class GpuSample(Message):
    """A reading of one GPU; `utilization` is in percent, `processes` a number of processes; null = not readable."""

    uuid: str
    utilization: Optional[float] = None
    memory_used_mib: Optional[int] = None
    power_w: Optional[float] = None
    temperature_c: Optional[float] = None
    processes: Optional[int] = None


@dataclass(frozen=True)
class HostSample(Message):
    """A reading of the host; null = not readable."""

    cpu_percent: Optional[float] = None
    memory_used_mib: Optional[int] = None
    load1: Optional[float] = None


@dataclass(frozen=True)
class HealthEvent(Message):
    """Something that went wrong with a GPU (or, with `gpu_uuid` null, with the node).

    `kind` is one of xid, ecc, gpu_lost, throttle, disk_full, other; `detail` is a sentence, such as "Xid 79".
    """

    kind: str
    gpu_uuid: Optional[str] = None
    detail: str = ""


@dataclass(frozen=True)
class SyncRequest(Message):
    """Everything that the agent sees, and the generation of the desired set that it knows.

    The answer comes at once if the desired set has another generation, else after `wait_s` or when it changes.
    With `wait_s` 0 it is a report: the platform stores it and answers at once.
    """

    epoch: int
    seq: int
    boot_id: str
    generation: str
    wait_s: float
    allocations: Tuple[AllocationReport, ...] = ()
    gpus: Tuple[GpuSample, ...] = ()
    host: Optional[HostSample] = None
    health: Tuple[HealthEvent, ...] = ()


@dataclass(frozen=True)
class DesiredAllocation(Message):
    """What the platform wants of one allocation of this node.

    `signal`, `grace_s` and `reason` belong to `stop`; `time_left_s` is what is left of the time limit, null = no limit
    or not known.
    """

    id: int
    fence: int
    action: Action
    signal: Optional[str] = None
    grace_s: Optional[float] = None
    reason: Optional[str] = None
    time_left_s: Optional[float] = None


@dataclass(frozen=True)
class SyncResponse(Message):
    """The full desired set. What the agent has and `desired` lacks is stopped after `Timers.orphan_grace_s`.

    For `log_pause_s` seconds the agent ships no log (back-pressure).
    """

    generation: str
    timers: Timers
    desired: Tuple[DesiredAllocation, ...] = ()
    log_pause_s: float = 0.0


@dataclass(frozen=True)
class ClaimRequest(Message):
    """The agent takes an allocation; the same boot_id may ask again and gets the same answer."""

    fence: int
    boot_id: str
    epoch: int


@dataclass(frozen=True)
class CodeRef(Message):
    """A tar.gz that is unpacked into the working directory, from `CODE_PATH`."""

    sha256: str
    size: int


@dataclass(frozen=True)
class LaunchSpec(Message):
    """How to start one allocation.

    `command` runs under `/bin/bash -c` (or `/bin/sh -c`). `workdir` is a logical path: the process runtime maps it to
    a folder of the allocation and names it in MUSTER_WORKDIR. `uid` null = the agent's own or its `--job-user`.
    """

    allocation_id: int
    job_id: int
    attempt: int
    rank: int
    fence: int
    name: str
    owner: str
    command: str
    uid: Optional[int] = None
    gids: Tuple[int, ...] = ()
    workdir: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    gpu_uuids: Tuple[str, ...] = ()
    cpus: int = 1
    memory_mib: int = 0
    time_limit_s: Optional[float] = None
    stop_signal: str = "TERM"
    grace_s: float = 30.0
    stop_after_s: float = 600.0
    on_disconnect: OnDisconnect = OnDisconnect.STOP
    code: Optional[CodeRef] = None
    log_cap_bytes: int = 1 << 30


@dataclass(frozen=True)
class LogAccepted(Message):
    """Answer to a log chunk, 202 and 416: the platform has the bytes (and stated holes) before `size`."""

    size: int


@dataclass(frozen=True)
class EndRequest(Message):
    """An allocation is over and no process of it is left. The times are the agent's wall clock, for information."""

    fence: int
    boot_id: str
    reason: EndReason
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    detail: str = ""
    started: bool = True
    started_at: Optional[float] = None
    ended_at: Optional[float] = None
    log_size: int = 0
    seq: int = 0


@dataclass(frozen=True)
class LogFinishRequest(Message):
    """All of a log that can be shipped has been; `holes` are inclusive ranges of bytes that were given up."""

    fence: int
    size: int
    sha256: str
    holes: Tuple[Tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Problem(Message):
    """The body of a refusal, `application/problem+json`."""

    title: str = ""
    detail: str = ""
    status: int = 0


def claim_path(allocation_id: int) -> str:
    """The path of an allocation's claim."""
    return CLAIM_PATH.format(id=allocation_id)


def end_path(allocation_id: int) -> str:
    """The path of an allocation's end."""
    return END_PATH.format(id=allocation_id)


def log_path(allocation_id: int) -> str:
    """The path of an allocation's log."""
    return LOG_PATH.format(id=allocation_id)


def log_finish_path(allocation_id: int) -> str:
    """The path that closes an allocation's log."""
    return LOG_FINISH_PATH.format(id=allocation_id)


def code_path(sha256: str) -> str:
    """The path of an archive of code."""
    return CODE_PATH.format(sha256=sha256)


def bearer(secret: str) -> str:
    """The value of the Authorization header for a join token or a credential."""
    return "Bearer " + secret


def crc32_hex(body: bytes) -> str:
    """The checksum of a chunk, 8 lower-case hexadecimal digits."""
    return "{:08x}".format(zlib.crc32(body))


def content_range(start: int, length: int) -> str:
    """The Content-Range of a chunk of `length` (at least 1) bytes that begins at `start`."""
    return "bytes {}-{}/*".format(start, start + length - 1)


def parse_content_range(value: str) -> Tuple[int, int]:
    """First and last byte of a chunk, both inclusive."""
    if not (value.startswith("bytes ") and value.endswith("/*")):
        raise ProtocolError(CONTENT_RANGE_HEADER, "expected `bytes FIRST-LAST/*`, got {!r}".format(value[:80]))
    return parse_range(value[len("bytes ") : -len("/*")], CONTENT_RANGE_HEADER)


def format_range(first: int, last: int) -> str:
    """An inclusive range, as in X-Muster-Dropped."""
    return "{}-{}".format(first, last)


def parse_range(value: str, field_path: str = DROPPED_HEADER) -> Tuple[int, int]:
    """The inclusive range that `FIRST-LAST` spells."""
    first, dash, last = value.partition("-")
    if not (dash and _is_digits(first) and _is_digits(last)):
        raise ProtocolError(field_path, "expected FIRST-LAST, got {!r}".format(value[:80]))
    if int(last) < int(first):
        raise ProtocolError(field_path, "ends before it begins: {!r}".format(value))
    return int(first), int(last)


def _is_digits(text: str) -> bool:
    return 0 < len(text) <= 18 and text.isascii() and text.isdigit()


def _codec(cls: type) -> _Codec:
    codec = _CODECS.get(cls)
    if codec is None:
        codec = _CODECS[cls] = tuple(_build_codec(cls))
    return codec


def _build_codec(cls: type) -> Any:
    hints = get_type_hints(cls)
    for item in dataclasses.fields(cls):
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        yield item.name, required, _reader(hints[item.name]), _writer(hints[item.name])


def _reader(hint: Any) -> _Reader:
    """The strict reader of one type; types that no message uses are a programming error."""
    simple: Dict[Any, _Reader] = {int: _read_int, float: _read_float, str: _read_str, bool: _read_bool}
    if hint in simple:
        return simple[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union:
        inner = _reader(arguments[0])
        return lambda value, path: None if value is None else inner(value, path)
    if origin is tuple:
        return _list_reader(arguments)
    if origin is not None and issubclass(origin, Mapping):
        return _read_strings
    if issubclass(hint, Enum):
        return _enum_reader(hint)
    if issubclass(hint, Message):
        reader: _Reader = hint.from_dict
        return reader
    raise TypeError("no reader for {!r}".format(hint))


def _writer(hint: Any) -> _Writer:
    """The function that turns a value into plain JSON types, or None where it is one already."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union:
        inner = _writer(arguments[0])
        return None if inner is None else (lambda value: None if value is None else inner(value))
    if origin is tuple:
        each = _writer(arguments[0])
        return list if each is None else (lambda value: [each(item) for item in value])
    if origin is not None:
        return dict
    if issubclass(hint, Enum):
        return lambda value: value.value
    if issubclass(hint, Message):
        return lambda value: value.to_dict()
    return None


def _list_reader(arguments: Tuple[Any, ...]) -> _Reader:
    """`Tuple[T, ...]` is a list of any length, `Tuple[T, T]` one of exactly two."""
    each = _reader(arguments[0])
    length = None if arguments[-1] is Ellipsis else len(arguments)

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise ProtocolError(path, "expected a list, got " + _kind(value))
        if length is not None and len(value) != length:
            raise ProtocolError(path, "expected {} items, got {}".format(length, len(value)))
        return tuple(each(item, "{}[{}]".format(path, position)) for position, item in enumerate(value))

    return read


def _enum_reader(enum: Type[Enum]) -> _Reader:
    members = {member.value: member for member in enum}

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, str) or value not in members:
            raise ProtocolError(path, "expected one of {}, got {!r:.80}".format(", ".join(sorted(members)), value))
        return members[value]

    return read


def _read_int(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtocolError(path, "expected an integer, got " + _kind(value))
    if not -_INT64 <= value < _INT64:
        raise ProtocolError(path, "does not fit in 64 bits")
    return value


def _read_float(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ProtocolError(path, "expected a number, got " + _kind(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise ProtocolError(path, "is not finite")
    if not -_INT64 <= value < _INT64:
        raise ProtocolError(path, "is out of range")
    return float(value)


def _read_bool(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError(path, "expected true or false, got " + _kind(value))
    return value


def _read_str(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise ProtocolError(path, "expected a string, got " + _kind(value))
    if "\0" in value:
        raise ProtocolError(path, "has a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ProtocolError(path, "is not valid Unicode") from error
    return value


def _read_strings(value: Any, path: str) -> Dict[str, str]:
    if not isinstance(value, dict):
        raise ProtocolError(path, "expected an object, got " + _kind(value))
    return {_read_str(key, path): _read_str(item, "{}.{}".format(path, key)) for key, item in value.items()}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)
