"""NVIDIA's driver messages in the kernel's log: Xids, and GPUs that have fallen off the bus without one.

A job may write to its own log whatever it wants; only the kernel writes records of the facility 0, so what root or a
privileged container adds to `/dev/kmsg` is left out. A line names a GPU by its PCI address.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Iterator, Mapping, Optional, Tuple

from nodeagent.protocol.messages import HealthEvent

_log = logging.getLogger("nodeagent.kernellog")

KERNEL_LOG = "/dev/kmsg"
_RECORD_BYTES = 8192
_MAX_RECORDS = 2000
_MAX_DETAIL_CHARS = 300
_PCI = r"(?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})"
_XID = re.compile(r"NVRM: Xid \(" + _PCI + r"(?:\.[0-9])?\): (\d{1,4})\b", re.IGNORECASE)
_OFF_THE_BUS = re.compile(r"NVRM: .{0,40}?\b" + _PCI + r"(?:\.[0-9])?\b.{0,80}?\bfallen off the bus", re.IGNORECASE)


class KernelLog:
    """The records that are written from now on; none where the log may not be read, which is said once."""

    def __init__(self, path: str = KERNEL_LOG) -> None:
        self._file: Optional[int] = None
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            self.close()
            _log.warning("%s cannot be read, so that Xids are known from NVML only: %s", path, error.strerror)

    def events(self, uuid_of: Mapping[str, str]) -> Tuple[HealthEvent, ...]:
        """The driver's messages about these GPUs (uuids by PCI address) since the last call."""
        found = []
        for record in self._records():
            event = health_event(record, uuid_of)
            if event is not None:
                found.append(event)
        return tuple(found)

    def close(self) -> None:
        """Let go of the log."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _records(self) -> Iterator[str]:
        """The waiting records, at most `_MAX_RECORDS`, so that a flood of messages does not block the caller."""
        for _ in range(_MAX_RECORDS if self._file is not None else 0):
            try:
                record = os.read(self._file or 0, _RECORD_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # records were overwritten before they were read; the next one is the oldest that is left
            except OSError as error:
                _log.warning("the kernel's log cannot be read any more: %s", error.strerror)
                self.close()
                return
            if not record:
                return
            yield record.decode("utf-8", errors="replace")


def health_event(record: str, uuid_of: Mapping[str, str]) -> Optional[HealthEvent]:
    """The event in a record of `/dev/kmsg`; None if it is not the kernel's or not about these GPUs."""
    prefix, _, rest = record.partition(";")
    priority = prefix.split(",", 1)[0]
    if not priority.isdigit() or int(priority) >> 3:
        return None
    message = rest.partition("\n")[0]
    xid = _XID.search(message)
    match = xid or _OFF_THE_BUS.search(message)
    uuid = uuid_of.get(address(match[1])) if match is not None else None
    if uuid is None:
        return None
    if xid is not None:
        return HealthEvent("xid", uuid, message[:_MAX_DETAIL_CHARS], int(xid[2]))
    return HealthEvent("gpu_lost", uuid, message[:_MAX_DETAIL_CHARS])


def address(pci: str) -> str:
    """A PCI address such that equal ones are equal: domain of four digits, bus and device, without the function."""
    domain, bus, device = pci.lower().split(":")
    return ":".join((domain[-4:], bus, device.split(".")[0]))
