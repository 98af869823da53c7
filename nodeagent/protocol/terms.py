"""Terms of the protocol: states, actions, reasons, and the limits of messages."""

from __future__ import annotations

from enum import Enum

PROTOCOL_VERSION = 2
"""The protocol's version, first in a registration: a platform that serves another version refuses the agent."""

MAX_BATCH_ITEMS = 64
"""The most items of one BatchRequest."""

MAX_REST_BYTES = 64 << 10
"""The most bytes of a log that come with its end; more are shipped before."""
MAX_REST_CHARACTERS = -(-MAX_REST_BYTES // 3) * 4

MAX_CHUNK_BYTES = 1 << 20
"""The largest body of one PATCH, of a log or of a file; a larger one is answered 413."""

MAX_ID_CHARACTERS = 200
"""The longest identifier or secret in an agent's message."""

MAX_TAIL_BYTES = 64 << 10
"""Bytes of a log that go with the end of its rank."""

MAX_OUTPUTS_AT_ONCE = 200
"""The most files that one OutputsRequest may name, and the most that an OutputsFinishRequest may."""
MAX_OUTPUT_PATH_BYTES = 1024
"""The longest path of a file that is kept, as UTF-8."""

MAX_REPORTED_NAMES, MAX_REPORTED_POINTS, MAX_REPORTED_AT_ONCE = 32, 500, 4000
"""Limits on reported metrics: names per job, points per job in one message, and points of all jobs in one message."""
MAX_HEALTH_EVENTS = 64
"""The most health events that one SyncRequest carries; a receiver leaves out what is beyond."""

MAX_CHECKS = 64
"""The most checks of GPUs that one answer asks for, and the most results that one SyncRequest carries."""

AGAIN = 425
"""The outcome of an item that waits for a lock: send it again."""

STALE_NONCE = 412
"""The answer to a registration whose nonce is not, or no longer, the newest: say hello again."""

REGISTER_FIRST = 428
"""The answer to an epoch from before a restore of the platform: register, then say everything anew."""

EXIT_SUPERSEDED = 3
"""Exit status of an agent whose epoch is old: another agent speaks for the node. Its jobs go on."""
EXIT_UNAUTHORIZED = 4
"""Exit status of an agent whose credential or join token was refused. Its jobs go on."""
EXIT_REFUSED = 5
"""Exit status of an agent whose registration was answered 409, such as for a retired node. Its jobs go on."""
EXIT_REGISTER_AGAIN = 6
"""Exit status of an agent that was answered `REGISTER_FIRST` and could not start itself again. Its jobs go on."""


class Observed(str, Enum):
    """States of an allocation's processes that the agent sees."""

    NONE = "none"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"


class Action(str, Enum):
    """Actions that the platform wants for an allocation."""

    RUN = "run"
    STOP = "stop"


class OnDisconnect(str, Enum):
    """Treatment of a job whose node cannot reach the platform for `stop_after_s`."""

    STOP = "stop"
    KEEP = "keep"


class CheckOutcome(str, Enum):
    """Results of a GPU's check."""

    PASSED = "passed"
    FAILED = "failed"
    STOPPED = "stopped"
    """A job came first: nothing is known."""


class EndReason(str, Enum):
    """Reasons for an allocation's end that its agent can know; each is also a reason of the platform's."""

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
    GPU_CHECK_FAILED = "gpu_check_failed"
    DISK_EXCEEDED = "disk_exceeded"
    TIME_LIMIT = "time_limit"
    NEVER_STARTED = "never_started"
    AGENT_STOPPED = "agent_stopped"
    UNKNOWN = "unknown"
