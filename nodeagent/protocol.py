"""The messages between the agent of a node and the platform, version 1, and their strict reading.

Every message is a frozen dataclass with `to_dict()` and `from_dict()`; reading is strict and names the field in a
`ProtocolError`, and unknown keys are ignored (see `nodeagent.wire`).

What the wire format leaves open is settled here:

- Ids, attempts, ranks, epochs and fences are integers. `generation` is an opaque string; the first sync sends "".
- A registration is two calls. The answer to `hello` has a nonce that is good for one registration of the node, and
  voids those that were given out before; a registration with any other is answered 412, and who sent it begins anew.
  So what registers was alive after everything that had registered before it, and nothing that comes late can be taken
  for newer than it is. A platform that answers 404 to `hello` takes registrations without a nonce, as does this one.
- `seq` counts up from 1 within one run of the agent, over all its messages. A receiver may use it to drop late ones.
- Log offsets count every byte that the job wrote, given-up bytes too. A range is `first-last`, both inclusive.
  `X-Muster-Dropped` on a chunk states the hole just before it: its last byte is the chunk's first minus one. A hole
  may begin before the size that the receiver has (the receiver then keeps its bytes); it never begins after it.
- A chunk never straddles the receiver's size: it is new, or an exact repetition of bytes that were accepted. After a
  restart the agent asks for the size by sending the last byte that it has: 202 or 416 tell it either way.
- Bytes given up after the last chunk are stated by `LogFinishRequest.holes` only, and `size` counts them. Holes are
  sorted and do not touch. `sha256` is that of all bytes outside the holes, in order; it is empty when the agent was
  restarted in the middle of a log that is larger than its spool (then only size and holes can be compared).
- Up to `LaunchSpec.log_cap_bytes` the agent ships everything, beyond it 64 KiB/s of what is newest, and when the job is
  over its newest part (an eighth of the cap, at most 32 MiB), with holes between. The receiver chooses what to keep.
- Signs of life are registrations and beats, nothing else. A job stops itself when the last answered one was sent
  longer ago than the larger of `LaunchSpec.stop_after_s` and the newest `Timers.stop_after_s`; SIGKILL follows after
  its grace.
- A sync whose `gpus` and `usage` are empty and whose `host` is null has no new sample. Samples carry no time: they are
  of the moment at which the platform gets them. The `desired` of an answer to a report
  (`wait_s` 0) is not acted upon: the long-poll alone carries it, so that answers cannot overtake each other.
- A desired `stop` for an allocation of which the agent has no record is answered by an `end` with `never_started`:
  an intent is on disk before anything starts, so no record means that nothing did.
- 404 or 409 as the answer to an `end` or a `log:finish` means that the platform no longer cares: the agent lets go.
- The `tail` of an `end` is the newest part of what the rank wrote, as text without NULs: the platform says at once why
  the job failed, and does not wait for a log that is still on its way. It is empty for a rank that succeeded.
- A report with `observed: exited` and the `end` of the same allocation may arrive in either order.
- Files that a job leaves are shipped after its log, and so after its `end`. The agent names them with their sizes, gets
  a slot for each, and sends what is wanted in chunks from the slot's size on; the last chunk carries the SHA-256 of the
  whole file. 416 says where to go on. To name them again changes nothing, and tells how far each is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Mapping, Optional, Tuple

from nodeagent import wire
from nodeagent.shellwire import WantedShell

Message = wire.Message
ProtocolError = wire.ProtocolError

PROTOCOL_VERSION = 1

MAX_CHUNK_BYTES = 1 << 20
"""The largest body of one PATCH, of a log or of a file; a larger one is answered 413."""

MAX_TAIL_BYTES = 64 << 10
"""How much of a log goes with the end of its rank."""

MAX_OUTPUTS_AT_ONCE = 200
"""The most files that one OutputsRequest may name, and the most that an OutputsFinishRequest may."""
MAX_OUTPUT_PATH_BYTES = 1024
"""The longest path of a file that is kept, as UTF-8."""

PCIE_LEVELS = ("SYS", "NODE", "PHB", "PXB", "PIX")
"""Where two GPUs meet that share no NVLink, the farthest first: across sockets, on one NUMA node, at a host bridge,
over several switches, at one switch or on one board."""
MAX_NVLINKS = 64
"""The most NVLinks that a topology may name between two GPUs."""

MAX_HEALTH_EVENTS = 64
"""The most health events that one SyncRequest carries; a receiver leaves out what is beyond."""

STALE_NONCE = 412
"""The answer to a registration whose nonce is not, or no longer, the newest: say hello again."""

EXIT_SUPERSEDED = 3
"""Exit status of an agent whose epoch is old: another agent speaks for the node. Its jobs go on."""
EXIT_UNAUTHORIZED = 4
"""Exit status of an agent whose credential or join token was refused. Its jobs go on."""
EXIT_REFUSED = 5
"""Exit status of an agent whose registration was answered 409, such as for a retired node. Its jobs go on."""


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
    IMAGE_NOT_FOUND = "image_not_found"
    IMAGE_DENIED = "image_denied"
    IMAGE_UNREACHABLE = "image_unreachable"
    IMAGE_NO_SPACE = "image_no_space"
    OUT_OF_MEMORY = "out_of_memory"
    SPEC_REFUSED = "spec_refused"
    TIME_LIMIT = "time_limit"
    NEVER_STARTED = "never_started"
    AGENT_STOPPED = "agent_stopped"
    UNKNOWN = "unknown"


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

    `topology` is a square matrix in the order of `gpus`, whose indexes then count up from 0: `X` on the diagonal, else
    the closest link, in the words of `nvidia-smi topo`: `NV4` for four NVLinks, or a level of `PCIE_LEVELS`. Empty or
    missing when nobody knows. `toolkit_version` is that of the NVIDIA Container Toolkit, empty where there is none.
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
    toolkit_version: str = ""


@dataclass(frozen=True)
class HelloRequest(Message):
    """An agent's first word after each of its starts, with the header and the credential of its registration."""

    credential: str


@dataclass(frozen=True)
class HelloResponse(Message):
    """What the node's next registration must carry."""

    nonce: str


@dataclass(frozen=True)
class RegisterRequest(Message):
    """An agent begins to speak for its node. `nonce` is that of the hello before it; empty if it said none.

    The header carries the join token until a registration has succeeded and the credential from then on.
    `credential` is made by the agent and kept on its disk, so a lost answer is retried with the same pair.
    """

    protocol: int
    boot_id: str
    agent_version: str
    credential: str
    inventory: Inventory
    nonce: str = ""


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
    """A reading of one GPU; `utilization` is in percent, `processes` a number of processes; null = not readable.

    `ecc_corrected` and `ecc_uncorrected` count the memory errors since the driver was loaded.
    """

    uuid: str
    utilization: Optional[float] = None
    memory_used_mib: Optional[int] = None
    power_w: Optional[float] = None
    temperature_c: Optional[float] = None
    processes: Optional[int] = None
    sm_clock_mhz: Optional[int] = None
    memory_clock_mhz: Optional[int] = None
    ecc_corrected: Optional[int] = None
    ecc_uncorrected: Optional[int] = None


@dataclass(frozen=True)
class HostSample(Message):
    """A reading of the host; null = not readable."""

    cpu_percent: Optional[float] = None
    memory_used_mib: Optional[int] = None
    load1: Optional[float] = None


@dataclass(frozen=True)
class UsageSample(Message):
    """What one allocation uses of its host, and how far it is; `cpu_cores` is 1.0 for one busy core; null = not known.

    `memory_mib` is what its processes hold of their own; `page_cache_mib` is what the kernel keeps of files for it.
    Disk rates count what reached a disk, and network rates what passed the allocation's own interfaces. `progress` is
    the number that the job itself wrote last, in a unit of its own, and `progress_s` its growth per second.
    """

    id: int
    fence: int
    processes: Optional[int] = None
    cpu_cores: Optional[float] = None
    memory_mib: Optional[float] = None
    page_cache_mib: Optional[float] = None
    disk_read_bytes_s: Optional[float] = None
    disk_write_bytes_s: Optional[float] = None
    net_receive_bytes_s: Optional[float] = None
    net_transmit_bytes_s: Optional[float] = None
    progress: Optional[float] = None
    progress_s: Optional[float] = None


@dataclass(frozen=True)
class HealthEvent(Message):
    """Something that went wrong with a GPU (or, with `gpu_uuid` null, with the node).

    `kind` is one of xid, gpu_lost, ecc, row_remap_pending, row_remap_failed, throttle, nvlink, memory_held, disk_full,
    other; `detail` is a sentence, such as "Xid 79", and `xid` the number of an Xid. What lasts is told again.
    """

    kind: str
    gpu_uuid: Optional[str] = None
    detail: str = ""
    xid: Optional[int] = None


@dataclass(frozen=True)
class ProgressNote(Message):
    """How far the start of one allocation is, such as the pulling of its image; one sentence, for people."""

    id: int
    fence: int
    text: str


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
    notes: Tuple[ProgressNote, ...] = ()
    usage: Tuple[UsageSample, ...] = ()


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

    For `log_pause_s` seconds the agent ships no log (back-pressure). `shells` is the full set of shells.
    """

    generation: str
    timers: Timers
    desired: Tuple[DesiredAllocation, ...] = ()
    log_pause_s: float = 0.0
    shells: Tuple[WantedShell, ...] = ()


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
class RegistryLogin(Message):
    """What the job's tenant signs in with at the registry of its image. It is for the pull; nobody writes it down."""

    registry: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class LaunchSpec(Message):
    """How to start one allocation.

    `command` runs under `/bin/bash -c` (or `/bin/sh -c`). `workdir` is a logical path: the process runtime maps it to
    a folder of the allocation and names it in MUSTER_WORKDIR. `uid` null = the agent's own or its `--job-user`.
    `image` is empty for a runtime without images, `shm_mib` 0 for the runtime's default; `nodes` is the gang's size.
    `outputs` are patterns of paths below the folder in which the command starts: those files are kept when it is over,
    no more than so many of them and so many bytes. With `ask_registry` the image's registry is asked whether this
    tenant may have the image, with `registry_login` or without, though the node has it already: somebody else may
    have brought it. `gang_network` is what the pool says of the containers of a gang (`host`, the name of a network, or
    `refuse`; empty: as the node does), and `infiniband` whether containers may have the node's InfiniBand devices and
    lock memory for them. The node may allow less.
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
    image: str = ""
    shm_mib: int = 0
    nodes: int = 1
    outputs: Tuple[str, ...] = ()
    outputs_max_bytes: int = 0
    outputs_max_files: int = 0
    ask_registry: bool = False
    registry_login: Optional[RegistryLogin] = None
    gang_network: str = ""
    infiniband: bool = False


@dataclass(frozen=True)
class LogAccepted(Message):
    """Answer to a chunk, of a log or a file, 202 and 416: the platform has the bytes (and holes) before `size`."""

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
    tail: str = ""


@dataclass(frozen=True)
class LogFinishRequest(Message):
    """All of a log that can be shipped has been; `holes` are inclusive ranges of bytes that were given up."""

    fence: int
    size: int
    sha256: str
    holes: Tuple[Tuple[int, int], ...] = ()


@dataclass(frozen=True)
class OutputFile(Message):
    """A file that a job left; `path` is below its working folder, with `/` between its parts."""

    path: str
    size: int


@dataclass(frozen=True)
class OutputsRequest(Message):
    """Files that the agent could ship, at most `MAX_OUTPUTS_AT_ONCE`."""

    fence: int
    files: Tuple[OutputFile, ...]


@dataclass(frozen=True)
class OutputSlot(Message):
    """Where a file goes: `size` bytes of it are there, and more are `wanted` or not."""

    id: int
    size: int
    wanted: bool


@dataclass(frozen=True)
class OutputsAnswer(Message):
    """A slot for each file, in the order of the request."""

    files: Tuple[OutputSlot, ...]


@dataclass(frozen=True)
class LeftOut(Message):
    """A file that a pattern names and that was not shipped.

    `reason` is one of too_large, over_limit, changed, vanished, bad_name, not_a_file, not_owned, too_deep, unreadable.
    """

    path: str
    reason: str
    size: int = 0


@dataclass(frozen=True)
class OutputsFinishRequest(Message):
    """All files that can be shipped have been; `more` are left out unnamed; `cut_short`: some were not looked at."""

    fence: int
    left_out: Tuple[LeftOut, ...] = ()
    more: int = 0
    cut_short: bool = False


@dataclass(frozen=True)
class Problem(Message):
    """The body of a refusal, `application/problem+json`."""

    title: str = ""
    detail: str = ""
    status: int = 0


def nvlinks(word: str) -> int:
    """How many NVLinks a word of a topology names: none for a level of PCIe. `ProtocolError` for any other word."""
    count = word[2:]
    if word.startswith("NV") and wire.is_digits(count) and count[0] != "0" and int(count) <= MAX_NVLINKS:
        return int(count)
    if word not in PCIE_LEVELS:
        words = ", ".join(PCIE_LEVELS)
        raise ProtocolError("", "expected NV1 to NV{} or one of {}, got {!r:.40}".format(MAX_NVLINKS, words, word))
    return 0
