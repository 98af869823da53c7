"""Settings of a process in which thousands of connections are open."""

from __future__ import annotations

import gc
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

# Python's own is 700: with a thousand long-polls open, a collection would begin 60 times a second.
_NEW_OBJECTS = 10_000


def allow_open_files() -> int:
    """Raise the limit of open files as far as the process may, and return it. Each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        log.info("open_files allowed=%d before=%d", hard, soft)
    return hard


@contextmanager
def spared_collector() -> Iterator[None]:
    """Within it, the collector of cycles passes over what there was before, and looks more rarely.

    Going through the hundreds of thousands of objects of Django's modules stops everything for a tenth of a second.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
