"""A job's progress: a number in a file of its own, which only grows.

The job writes the file, so anything may lie there: what is no plain file of the allocation's own is not opened or not
read, of a long one only the end, and what is not a number is none.
"""

from __future__ import annotations

import os
import re
from typing import Optional

from nodeagent.system.files import open_of_job

NAME = ".muster-progress"
"""The file's name, in the home of the job."""
_MAX_READ_BYTES = 4096
# Beyond it a double does not tell a number from the next one; and no message takes a number without bounds.
_MAX_VALUE = float(1 << 53)
_NUMBER = re.compile(rb"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def read_progress(home: str) -> Optional[float]:
    """The number in the last line that is not empty; None where there is none."""
    descriptor = open_of_job(home, NAME)
    if descriptor is None:
        return None
    try:
        begin = max(0, os.fstat(descriptor).st_size - _MAX_READ_BYTES)
        data = os.pread(descriptor, _MAX_READ_BYTES, begin)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if begin:
        data = data.partition(b"\n")[2]  # the line that it begins with has lost its beginning
    lines = [line for line in map(bytes.strip, data.splitlines()) if line]
    return _number(lines[-1]) if lines else None


def _number(text: bytes) -> Optional[float]:
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if value <= _MAX_VALUE else None
