"""The messages of shells in running jobs: the part of the agents' protocol that carries a terminal.

`SyncResponse.shells` names every shell that should be open on the node. The agent opens one that it does not have, by
a call that only one epoch is given, and ends one that is no longer named. Bytes go by offset in both directions, at
most `SHELL_WINDOW_BYTES` ahead of the reader: the agent keeps the output that the reader has not confirmed (`acked`),
sends from `ShellOutputAnswer.size` on, and reads no more from the terminal while that window is full.
The input before `ShellInputRequest.taken` is in the terminal. 404 or 409 as an answer means that the shell is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Optional, Tuple

from nodeagent.protocol.wire import MAX_DETAIL_CHARACTERS, Message, sentence

MAX_SHELL_BYTES = 64 << 10
"""The most bytes that one call carries of a shell's input or output."""
SHELL_WINDOW_BYTES = 256 << 10
"""The most bytes of a shell's output, and of its input, that any side keeps for a reader who is slow."""


class ShellEnd(str, Enum):
    """Ways in which a shell ends, as far as its agent can know."""

    EXITED = "exited"
    NOT_STARTED = "not_started"
    JOB_ENDED = "job_ended"


@dataclass(frozen=True)
class WantedShell(Message):
    """A shell that should be open in an allocation of this node."""

    id: int
    allocation_id: int
    fence: int


@dataclass(frozen=True)
class ShellOpenRequest(Message):
    """The agent is about to start a shell; the same epoch may ask again and gets the same answer."""

    fence: int
    epoch: int


@dataclass(frozen=True)
class ShellOpenAnswer(Message):
    """The shell to start: `command` as arguments, an interactive shell if it is empty.

    With `terminal` it gets one, of `rows` and `cols`, which TERM calls `term`; else its input can come to an end.
    It ends after `ends_in_s` seconds, or when the platform did not answer for `lost_after_s`.
    """

    command: Tuple[str, ...]
    terminal: bool
    term: str
    rows: int
    cols: int
    ends_in_s: float
    lost_after_s: float


@dataclass(frozen=True)
class ShellOutputRequest(Message):
    """Output of a shell from byte `start` on, in base64; bytes from `first` on can be sent again."""

    fence: int
    epoch: int
    first: int
    start: int
    data: str


@dataclass(frozen=True)
class ShellOutputAnswer(Message):
    """The platform has the bytes before `size`, and the reader those before `acked`.

    It waits a while for room before it answers; without any, `size` is the `start` of the request.
    """

    size: int
    acked: int


@dataclass(frozen=True)
class ShellInputRequest(Message):
    """Ask for what was typed from `taken` on; the answer waits for it up to `wait_s`, unless something else changed.

    `rows` and `cols` are what the terminal has now; with `over` the end of the input has been taken, too.
    """

    fence: int
    epoch: int
    taken: int
    rows: int
    cols: int
    wait_s: float
    over: bool = False


@dataclass(frozen=True)
class ShellInputAnswer(Message):
    """Typed input, in base64, and the size of the terminal. `over`: nothing follows these bytes."""

    data: str
    rows: int
    cols: int
    over: bool = False


@dataclass(frozen=True)
class ShellEndRequest(Message):
    """A shell is over, no process of it is left, and its output was sent."""

    fence: int
    epoch: int
    reason: ShellEnd
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    detail: str = field(default="", metadata=sentence(MAX_DETAIL_CHARACTERS))
