"""The initial migration of an app, and SQL files beside migrations: triggers and functions."""

from __future__ import annotations

from pathlib import Path

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import Migration, RunSQL
from django.db.migrations.state import ProjectState


class InitialMigration(Migration):
    """Makes the tables of an app, and the related models once, not after each operation as Django does."""

    initial = True

    def apply(
        self, project_state: ProjectState, schema_editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
    ) -> ProjectState:
        project_state.__dict__.pop("apps", None)
        state = self.mutate_state(project_state, preserve=False)
        for operation in self.operations:
            operation.database_forwards(self.app_label, schema_editor, state, state)
        return state


def sql_file(migration: str, name: str) -> RunSQL:
    """The operation that runs the file `name` beside the migration, which passes its `__file__`."""
    return RunSQL(Path(migration).with_name(name).read_text())
