"""What a process sets for itself when thousands of connections are open in it."""

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
    """As many open files as the process may ask for; returns how many. Each connection is one.

    systemd and shells give 1,024 at first, for the sake of programs that cannot count further, and more on demand.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        log.info("open_files allowed=%d before=%d", hard, soft)
    return hard


@contextmanager
def spared_collector() -> Iterator[None]:
    """Within it, the collector of cycles passes over what there was before, and looks more rarely.

    Django's modules are hundreds of thousands of objects that stay; going through them stops everything for a tenth of
    a second and more, and what waits makes that happen often. Cycles among newer objects are still found.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
