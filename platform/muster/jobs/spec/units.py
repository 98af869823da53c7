"""Durations, sizes and moments as people write them in a spec: 90s, 24h, 7d; 128GiB; 2026-12-01T08:00Z."""

from __future__ import annotations

import math
import re
from datetime import datetime

_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,3})?[smhdw])+")
_DURATION_PART = re.compile(r"([0-9.]+)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:Z|[+-][0-9]{2}:[0-9]{2})")
MOMENT_PATTERN = rf"^{_MOMENT.pattern}$"

_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)(KiB|MiB|GiB|TiB|KB|MB|GB|TB)")
_BYTES = {
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}

# The units in which a value is written, the largest first; 36h says more than 1.5d, and 90m than 1.5h.
_WRITTEN_SECONDS = (("d", 86_400, 2), ("h", 3600, 1), ("m", 60, 1))
_WRITTEN_BYTES = ("TiB", "GiB", "MiB", "KiB")

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?[smhdw])+$"
SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)?(KiB|MiB|GiB|TiB|KB|MB|GB|TB)$"


def parse_duration_s(text: str) -> float:
    """The seconds of a duration such as `90s` or `1h30m`; `ValueError` says how one is written."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a duration: write 90s, 30m, 24h or 7d")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))


def written_duration(seconds: float) -> str:
    """The shortest of 90s, 30m, 24h or 7d that is exactly these seconds."""
    for unit, size, least in _WRITTEN_SECONDS:
        if seconds >= least * size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def parse_moment(text: str) -> datetime:
    """The moment of `2026-12-01T08:00Z` or `2026-12-01T09:00+01:00`; `ValueError` says how one is written."""
    if not _MOMENT.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a time with a time zone: write 2026-12-01T08:00Z or …T09:00+01:00")
    return datetime.fromisoformat(text)


def parse_size_bytes(text: str) -> int:
    """The bytes of a size such as `128GiB`, rounded up; `ValueError` says how one is written."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is not a size: write 512MiB or 128GiB")
    return math.ceil(float(match[1]) * _BYTES[match[2]])


def parse_size_mib(text: str) -> int:
    """The mebibytes of a size such as `128GiB`, rounded up; `ValueError` says how one is written."""
    return -(-parse_size_bytes(text) // (1 << 20))


def written_size(size_bytes: int) -> str:
    """A size in the largest unit, KiB to TiB, in which it is a whole number; else in thousandths of a KiB."""
    for unit in _WRITTEN_BYTES:
        if size_bytes >= _BYTES[unit] and size_bytes % _BYTES[unit] == 0:
            return f"{size_bytes // _BYTES[unit]}{unit}"
    return f"{size_bytes / 1024:.3f}".rstrip("0").rstrip(".") + "KiB"
