"""The platform's disks without room: what comes is refused as a call to be sent again, and operators are told once.

Nothing else of the platform is held up, and who sent the bytes keeps them until there is room.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from django.db import DatabaseError, transaction

from muster.common.errors import NoRoom
from muster.events.services import mail_operators, record

log = logging.getLogger(__name__)

# A full disk still takes what fits into blocks that are in use; so much must be free before it counts as room.
ENOUGH_BYTES = 4 << 20


class Room:
    """The room for one kind of files, as this process knows it; each web process tells for itself."""

    def __init__(self, kind: str, *, what: str, so: str) -> None:
        self._kind = kind
        self._what = what
        """The owner of the disk, in words."""
        self._so = so
        """The effect of a full disk, for operators."""
        self._lacks: int | None = None
        """Bytes that must be free before there is room again; None while there is."""
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def needed(self, folder: Path) -> Iterator[None]:
        """Turns the error of a full disk below `folder` into `NoRoom`; outside any transaction."""
        try:
            yield
        except OSError as error:
            refusal = self.refusal(folder, error)
            if refusal is None:
                raise
            raise refusal from error
        except _TooLittle as problem:
            raise self._full(folder, problem.lacks) from problem
        lacks = self._lacks
        if lacks is not None and shutil.disk_usage(folder).free >= lacks:
            self._tell(None, folder)

    def refusal(self, folder: Path, error: OSError) -> NoRoom | None:
        """The refusal for a full disk's error; None for any other error."""
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            return None
        return self._full(folder, ENOUGH_BYTES)

    def require(self, folder: Path, size: int, *, left_free: float) -> None:
        """Check that `size` bytes leave the share `left_free` of the disk free; used within `needed`, which refuses."""
        disk = shutil.disk_usage(folder)
        reserve = int(disk.total * left_free)
        if disk.free - size < reserve:
            raise _TooLittle(reserve + size)

    def _full(self, folder: Path, lacks: int) -> NoRoom:
        self._tell(lacks, folder)
        return NoRoom(f"{self._what} has no room; nothing was stored, and it can be sent again later")

    def _tell(self, lacks: int | None, folder: Path) -> None:
        with self._lock:
            is_news = (self._lacks is None) != (lacks is None)
            self._lacks = lacks
        if not is_news:
            return
        if lacks is None:
            log.warning("has_room kind=%s folder=%s", self._kind, folder)
        else:
            log.error("no_room kind=%s folder=%s", self._kind, folder)
        # The news must not cost the call: the log of the process has it in any case.
        with contextlib.suppress(DatabaseError), transaction.atomic():
            record(f"{self._kind}.{'room' if lacks is None else 'full'}", actor="platform", data={})
            if lacks is not None:
                mail_operators(
                    subject=f"{self._what[0].upper()}{self._what[1:]} is full",
                    body=f"Nothing can be written below {folder}. {self._so}",
                )


class _TooLittle(Exception):
    """Too little is free for a file; `lacks` bytes must be."""

    def __init__(self, lacks: int) -> None:
        super().__init__(lacks)
        self.lacks = lacks
