"""The messages between the agent of a node and the platform, version 2, and their strict reading.

Every message is a frozen dataclass with `to_dict()` and `from_dict()`; reading is strict and names the field in a
`ProtocolError`, and unknown keys are ignored (see `nodeagent.protocol.wire`).

What the wire format leaves open is settled here:

- Strings of an agent are one printable line each, with the length that their field states
  (`nodeagent.protocol.wire.text`); an address is an IP address or a host name. A message with any other string is
  refused, and the refusal names the field.
  The `tail` of an end and the bytes of shells are the exceptions.
- Ids, attempts, ranks, epochs and fences are integers. `generation` is an opaque string; the first sync sends "".
- A registration is two calls. The answer to `hello` has a nonce that is good for one registration of the node, and
  voids those that were given out before; a registration with any other is answered 412, and who sent it begins anew.
  So what registers was alive after everything that had registered before it, and nothing that comes late can be taken
  for newer than it is.
- A registration names the agent's protocol. A platform that serves another one answers 409 before it reads on, and its
  sentence names both.
- 428 as the answer to a beat or a sync means that the platform was restored from a backup: the agent starts anew, so
  that it finds all that it has started, and registers. Its first sync then names every allocation that it has, and the
  platform gives the node nothing before. What the agent does not name there has ended.
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
- `state_id` names the agent's state folder, in the registration, in each claim and in each end. What was claimed out of
  one folder is neither given to an agent with another nor ended by it, and not desired of it: that one has no record of
  what may still run. It counts as on a node that was cut off when the other agent registered, until its fence.
- 404 or 409 as the answer to an `end` or a `finish` means that the platform no longer cares: the agent lets go. An
  `end` that is refused otherwise, such as by 400 or 422, is sent again without `tail`, `points` and `detail`.
- A batch carries claims, ends and ends of logs (`finish`); each item is answered as a call of its own would be, and
  fails alone. A batch that is sent a second time changes nothing.
- The `rest` of a `finish` is appended before the log is closed. If it begins behind what the platform has, 416 and
  the size answer it, and the log stays open.
- The `tail` of an `end` is the newest part of what the rank wrote, as text without NULs: the platform says at once why
  the job failed, and does not wait for a log that is still on its way. It is empty for a rank that succeeded.
- Points in `reported` are new since the last sync that was answered, and those of the end are in its `points`. A step
  that falls says that the job does again what came after it, so a message that is sent twice changes nothing.
- A report with `observed: exited` and the `end` of the same allocation may arrive in either order.
- An allocation whose command has failed and whose surroundings are kept is reported as running, with `kept`; its end
  comes when that is over. A stop ends it at once, and the end tells how the command failed, whatever the stop was for.
- Files that a job leaves are shipped after its log, and so after its `end`. The agent names them with their sizes, gets
  a slot for each, and sends what is wanted in chunks from the slot's size on; the last chunk carries the SHA-256 of the
  whole file. 416 says where to go on. To name them again changes nothing, and tells how far each is.
"""

from nodeagent.protocol.batch import BatchItem, BatchRequest, BatchResponse, ItemOutcome
from nodeagent.protocol.ending import (
    EndRequest,
    Excluded,
    LogAccepted,
    LogFinishRequest,
    OutputFile,
    OutputsAnswer,
    OutputsFinishRequest,
    OutputSlot,
    OutputsRequest,
)
from nodeagent.protocol.inventory import MAX_NVLINKS, PCIE_LEVELS, GpuInfo, Inventory, nvlinks
from nodeagent.protocol.launch import ClaimRequest, CodeRef, LaunchSpec, RegistryLogin
from nodeagent.protocol.readings import (
    AllocationReport,
    CheckResult,
    GpuSample,
    HealthEvent,
    HostSample,
    KeptReport,
    MetricPoint,
    ProgressNote,
    ReportedMetrics,
    UsageSample,
)
from nodeagent.protocol.session import (
    BeatRequest,
    BeatResponse,
    HelloRequest,
    HelloResponse,
    Problem,
    RegisterRequest,
    RegisterResponse,
    Timers,
    WantedCheck,
)
from nodeagent.protocol.sync import DesiredAllocation, SyncRequest, SyncResponse
from nodeagent.protocol.terms import (
    AGAIN,
    EXIT_REFUSED,
    EXIT_REGISTER_AGAIN,
    EXIT_SUPERSEDED,
    EXIT_UNAUTHORIZED,
    MAX_BATCH_ITEMS,
    MAX_CHECKS,
    MAX_CHUNK_BYTES,
    MAX_HEALTH_EVENTS,
    MAX_OUTPUT_PATH_BYTES,
    MAX_OUTPUTS_AT_ONCE,
    MAX_REPORTED_AT_ONCE,
    MAX_REPORTED_NAMES,
    MAX_REPORTED_POINTS,
    MAX_REST_BYTES,
    MAX_TAIL_BYTES,
    PROTOCOL_VERSION,
    REGISTER_FIRST,
    STALE_NONCE,
    Action,
    CheckOutcome,
    EndReason,
    Observed,
    OnDisconnect,
)
from nodeagent.protocol.volumes import (
    MAX_MOUNTS,
    MAX_PATH_CHARS,
    VolumeMount,
    absolute_workdir,
    is_below,
    overlap,
    source_problem,
    target_problem,
    workdir_problem,
)
from nodeagent.protocol.wire import Message, ProtocolError
