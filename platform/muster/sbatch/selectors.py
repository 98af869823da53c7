"""The table of Slurm's words that holds."""

from __future__ import annotations

import logging
from functools import lru_cache

from muster.common.errors import Invalid
from muster.sbatch.models import SlurmTable
from muster.sbatch.table import Table, read_table

log = logging.getLogger(__name__)


def newest_table() -> SlurmTable:
    """The version that holds; before the first edit an empty one, version 0, which is not stored."""
    return SlurmTable.objects.order_by("-version").first() or SlurmTable(version=0)


def table_in_force() -> Table:
    """The words of the site, by one query."""
    found = newest_table()
    return _read(found.version, found.text)


@lru_cache(maxsize=4)
def _read(version: int, text: str) -> Table:
    try:
        return read_table(text)
    except Invalid:
        # It was valid when it was stored, so a newer platform has other keys. Scripts must not wait for an edit.
        log.exception("slurm_table_refused version=%s", version)
        return Table()
