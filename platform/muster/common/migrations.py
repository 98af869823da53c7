"""SQL files beside migrations: triggers and functions, which Django has no operation for."""

from __future__ import annotations

from pathlib import Path

from django.db.migrations import RunSQL


def sql_file(migration: str, name: str) -> RunSQL:
    """The operation that runs the file `name` beside the migration, which passes its `__file__`."""
    return RunSQL(Path(migration).with_name(name).read_text())
