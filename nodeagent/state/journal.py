"""The agent's memory across crashes: an append-only file of intents and their results.

One record is one line: a CRC-32 in hex, a blank, and a JSON object. An intent is synced to disk before anything is
started, so "no intent" proves "not started". The other records only spare work after a restart; losing them is
harmless, and a full disk does not stop the agent on their account. A torn last line is a record that was not made.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import zlib
from dataclasses import dataclass, field, replace
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple

from nodeagent.system.files import write_all, write_atomic

_log = logging.getLogger("nodeagent.state.journal")

_COMPACT_AT_BYTES = 256 << 10


@dataclass(frozen=True)
class Entry:
    """The journal's record of one allocation."""

    id: int
    fence: int
    boot_id: str
    ended: bool = False
    shipped: bool = False
    holes: Tuple[Tuple[int, int], ...] = ()
    strangers: Mapping[str, FrozenSet[int]] = field(default_factory=dict)
    """By GPU, the processes that were there before it: of this boot only."""


class Journal:
    """The journal in one file. Its methods may be called from any thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._entries: Dict[int, Entry] = {}
        for record in _read_records(path):
            self._take(record)
        self._size = 0
        self._compact_at = _COMPACT_AT_BYTES
        self._descriptor = self._compact()

    def entries(self) -> Mapping[int, Entry]:
        """Every allocation that was intended and is not forgotten."""
        with self._mutex:
            return dict(self._entries)

    def intend(self, allocation_id: int, fence: int, boot_id: str) -> None:
        """Record that the allocation is about to be started; on return it is on disk. OSError if it cannot be."""
        record = {"op": "intent", "id": allocation_id, "fence": fence, "boot_id": boot_id}
        self._append(record, sync=True)

    def strangers(self, allocation_id: int, pids_of: Mapping[str, FrozenSet[int]]) -> None:
        """Record who was on its GPUs before it."""
        self._note(_strangers_record(allocation_id, pids_of))

    def ended(self, allocation_id: int) -> None:
        """Record that the platform knows the end."""
        self._note({"op": "ended", "id": allocation_id})

    def shipped(self, allocation_id: int) -> None:
        """Record that the platform knows all of the log."""
        self._note({"op": "shipped", "id": allocation_id})

    def hole(self, allocation_id: int, first: int, last: int) -> None:
        """Record that bytes of the log were given up."""
        self._note({"op": "hole", "id": allocation_id, "range": [first, last]})

    def forget(self, allocation_id: int) -> None:
        """Record that nothing of the allocation is left."""
        self._note({"op": "forget", "id": allocation_id})

    def close(self) -> None:
        """Close the file."""
        with self._mutex:
            os.close(self._descriptor)

    def _note(self, record: Dict[str, Any]) -> None:
        try:
            self._append(record, sync=False)
        except OSError as error:
            _log.warning("cannot write to the journal: %s", error)

    def _append(self, record: Dict[str, Any], sync: bool) -> None:
        line = _to_line(record)
        with self._mutex:
            try:
                write_all(self._descriptor, line)
                if sync:
                    os.fdatasync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, self._size)  # a torn record in the middle would garble the next one
                raise
            self._size += len(line)
            self._take(record)
            if self._size >= self._compact_at:
                os.close(self._descriptor)
                self._descriptor = self._compact()

    def _take(self, record: Dict[str, Any]) -> None:
        operation, allocation_id = record["op"], record["id"]
        if operation == "intent":
            self._entries[allocation_id] = Entry(allocation_id, record["fence"], record["boot_id"])
            return
        entry = self._entries.get(allocation_id)
        if entry is None:
            return
        if operation == "ended":
            entry = replace(entry, ended=True)
        elif operation == "shipped":
            entry = replace(entry, shipped=True)
        elif operation == "hole":
            first, last = record["range"]
            entry = replace(entry, holes=(*entry.holes, (first, last)))
        elif operation == "strangers":
            entry = replace(entry, strangers={uuid: frozenset(pids) for uuid, pids in record["gpus"].items()})
        if operation == "forget":
            del self._entries[allocation_id]
        else:
            self._entries[allocation_id] = entry

    def _compact(self) -> int:
        """Write the file anew with what still matters, and open it for appending."""
        lines: List[bytes] = []
        for entry in self._entries.values():
            lines.append(_to_line({"op": "intent", "id": entry.id, "fence": entry.fence, "boot_id": entry.boot_id}))
            lines += [_to_line(_strangers_record(entry.id, entry.strangers))] if entry.strangers else []
            lines += [_to_line({"op": "hole", "id": entry.id, "range": list(hole)}) for hole in entry.holes]
            lines += [_to_line({"op": "ended", "id": entry.id})] if entry.ended else []
            lines += [_to_line({"op": "shipped", "id": entry.id})] if entry.shipped else []
        content = b"".join(lines)
        try:
            write_atomic(self._path, content, sync=True)
            self._size = len(content)
        except OSError as error:
            _log.warning("cannot compact the journal: %s", error)
            self._size = os.path.getsize(self._path)
        # With much that is alive, compacting again soon would gain nothing.
        self._compact_at = max(_COMPACT_AT_BYTES, 2 * self._size)
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _strangers_record(allocation_id: int, pids_of: Mapping[str, FrozenSet[int]]) -> Dict[str, Any]:
    return {"op": "strangers", "id": allocation_id, "gpus": {uuid: sorted(pids) for uuid, pids in pids_of.items()}}


def _to_line(record: Dict[str, Any]) -> bytes:
    body = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _read_records(path: str) -> List[Dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return []
    lines = content.split(b"\n")
    records = []
    for number, line in enumerate(lines, 1):
        record = _parse(line)
        if record is not None:
            records.append(record)
        elif line:
            _log.warning("journal: line %d of %d is damaged and left out", number, len(lines))
    return records


def _parse(line: bytes) -> Optional[Dict[str, Any]]:
    checksum, _, body = line.partition(b" ")
    if b"%08x" % zlib.crc32(body) != checksum:
        return None
    record: Dict[str, Any] = json.loads(body)
    return record
