"""A log store without room: chunks are refused as calls to be sent again, and operators are told once.

Nothing else of the platform is held up, and agents keep the bytes in their spools until there is room.
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

from muster.common.errors import Unavailable
from muster.events.services import mail_operators, record

log = logging.getLogger(__name__)

# A full disk still takes what fits into blocks that are in use; so much must be free before it counts as room.
ENOUGH_BYTES = 4 << 20


class _Seen:
    """What this process has told; each web process tells for itself."""

    full = False
    lock = threading.Lock()


@contextlib.contextmanager
def needing_room(folder: Path) -> Iterator[None]:
    """Turns the error of a full disk below `folder` into `Unavailable`; outside any transaction."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        _tell(full=True, folder=folder)
        raise Unavailable("the log store has no room; send the bytes again") from error
    if _Seen.full and shutil.disk_usage(folder).free >= ENOUGH_BYTES:
        _tell(full=False, folder=folder)


def _tell(*, full: bool, folder: Path) -> None:
    with _Seen.lock:
        if _Seen.full == full:
            return
        _Seen.full = full
    if not full:
        log.warning("log_store_has_room folder=%s", folder)
    else:
        log.error("log_store_full folder=%s", folder)
    # The news must not cost the call: the log of the process has it in any case.
    with contextlib.suppress(DatabaseError), transaction.atomic():
        record("logs.full" if full else "logs.room", actor="platform", data={})
        if full:
            mail_operators(
                subject="The log store is full",
                body=f"Nothing can be written below {folder}. Jobs go on; what they print waits on their nodes, as far"
                " as the spools there reach, and is lost beyond that.",
            )
