"""Messages about an allocation that is over: its end, the rest of its log, and its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Tuple

from nodeagent.protocol.readings import MetricPoint
from nodeagent.protocol.terms import MAX_ID_CHARACTERS, MAX_OUTPUT_PATH_BYTES, MAX_REST_CHARACTERS, EndReason
from nodeagent.protocol.wire import MAX_DETAIL_CHARACTERS, Message, sentence, text


@dataclass(frozen=True)
class LogAccepted(Message):
    """Answer to a chunk, of a log or a file, 202 and 416: the platform has the bytes (and holes) before `size`."""

    size: int


@dataclass(frozen=True)
class EndRequest(Message):
    """An allocation is over and no process of it is left. The times are the agent's wall clock, for information."""

    fence: int
    boot_id: str = field(metadata=text(MAX_ID_CHARACTERS))
    state_id: str = field(metadata=text(MAX_ID_CHARACTERS))
    reason: EndReason
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    detail: str = field(default="", metadata=sentence(MAX_DETAIL_CHARACTERS))
    started: bool = True
    started_at: Optional[float] = None
    ended_at: Optional[float] = None
    log_size: int = 0
    seq: int = 0
    tail: str = ""
    points: Tuple[MetricPoint, ...] = ()


@dataclass(frozen=True)
class LogFinishRequest(Message):
    """All of a log that can be shipped has been, with this; `holes` are inclusive ranges of bytes that were given up.

    `rest` is base64 of the log's last bytes, from `start` to the end, at most `MAX_REST_BYTES` of them; empty if they
    came before.
    """

    fence: int
    size: int
    sha256: str = field(metadata=text(64))
    holes: Tuple[Tuple[int, int], ...] = ()
    start: int = 0
    rest: str = field(default="", metadata=text(MAX_REST_CHARACTERS))


@dataclass(frozen=True)
class OutputFile(Message):
    """A file that a job left; `path` is below its working folder, with `/` between its parts."""

    path: str = field(metadata=text(MAX_OUTPUT_PATH_BYTES))
    size: int


@dataclass(frozen=True)
class OutputsRequest(Message):
    """Files that the agent could ship, at most `MAX_OUTPUTS_AT_ONCE`."""

    fence: int
    files: Tuple[OutputFile, ...]


@dataclass(frozen=True)
class OutputSlot(Message):
    """The state of a file's upload: `size` bytes of it are there, and more are `wanted` or not."""

    id: int
    size: int
    wanted: bool


@dataclass(frozen=True)
class OutputsAnswer(Message):
    """A slot for each file, in the order of the request."""

    files: Tuple[OutputSlot, ...]


@dataclass(frozen=True)
class Excluded(Message):
    """A file that a pattern names and that was not shipped.

    `reason` is one of too_large, over_limit, changed, vanished, bad_name, not_a_file, not_owned, too_deep, unreadable.
    """

    path: str = field(metadata=text(MAX_OUTPUT_PATH_BYTES))
    reason: str = field(metadata=text(40))
    size: int = 0


@dataclass(frozen=True)
class OutputsFinishRequest(Message):
    """All files that can be shipped have been; `more` are left out unnamed; `cut_short`: some were not looked at."""

    fence: int
    left_out: Tuple[Excluded, ...] = ()
    more: int = 0
    cut_short: bool = False
