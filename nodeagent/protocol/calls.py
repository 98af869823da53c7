"""The calls that carry the messages of `nodeagent.protocol.messages`: their paths, headers and ranges."""

from __future__ import annotations

import zlib
from typing import Tuple

from nodeagent.protocol.wire import ProtocolError, is_digits

PREFIX = "/agent/v1"
HELLO_PATH = PREFIX + "/hello"
REGISTER_PATH = PREFIX + "/register"
BEAT_PATH = PREFIX + "/beat"
SYNC_PATH = PREFIX + "/sync"
BATCH_PATH = PREFIX + "/batch"
LOG_PATH = PREFIX + "/allocations/{id}/log"
OUTPUTS_PATH = PREFIX + "/allocations/{id}/outputs"
OUTPUT_PATH = PREFIX + "/allocations/{id}/outputs/{file}"
OUTPUTS_FINISH_PATH = PREFIX + "/allocations/{id}/outputs:finish"
SHELL_PATH = PREFIX + "/allocations/{id}/shells/{shell}/{act}"
CODE_PATH = PREFIX + "/code/{sha256}"

AUTHORIZATION_HEADER = "Authorization"
CONTENT_RANGE_HEADER = "Content-Range"
CRC32_HEADER = "X-Muster-Crc32"
FENCE_HEADER = "X-Muster-Fence"
DROPPED_HEADER = "X-Muster-Dropped"
SHA256_HEADER = "X-Muster-Sha256"

JSON_TYPE = "application/json"
LOG_TYPE = "application/octet-stream"
CODE_TYPE = "application/gzip"


def log_path(allocation_id: int) -> str:
    """The path of an allocation's log."""
    return LOG_PATH.format(id=allocation_id)


def shell_path(allocation_id: int, shell_id: int, act: str) -> str:
    """The path of a shell's call: `act` is open, output, input or end."""
    return SHELL_PATH.format(id=allocation_id, shell=shell_id, act=act)


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
    if not (dash and is_digits(first) and is_digits(last)):
        raise ProtocolError(field_path, "expected FIRST-LAST, got {!r}".format(value[:80]))
    if int(last) < int(first):
        raise ProtocolError(field_path, "ends before it begins: {!r}".format(value))
    return int(first), int(last)
