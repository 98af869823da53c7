"""The embedded Postgres: one server on a Unix socket in a private folder, started from the wheel's programs."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg2

from muster.local import processes
from muster.local.places import LocalError, Places, as_account, make_folder, role_password, service_password
from muster.local.programs import Programs, server_environment, start, tail

if TYPE_CHECKING:
    from psycopg2.extensions import connection

DATABASE = ROLE = "muster"
# The database and its tables belong to another role than that of the processes, which could else disable triggers.
OWNER = "muster_owner"
PORT = 5432  # there is no such port: it is part of the socket's name
_SUPERUSER = "postgres"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0
_POLL_S = 0.02
_STATUS_LINE = 7  # of the pid file, counted from 0; see LOCK_FILE_LINE_PM_STATUS in Postgres's pidfile.h
# For a small machine that does other things too. Durability is Postgres's own default and stays on.
_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "max_parallel_workers_per_gather": "0",
    "max_logical_replication_workers": "0",
    "io_method": "sync",
    "jit": "off",
    "unix_socket_permissions": "0700",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_checkpoints": "off",
}
# The whole of pg_hba.conf: the server listens on its Unix socket only.
_ACCESS = "local all all scram-sha-256\n"
# What tests can do without: a crash of the machine may cost them their data.
NOT_DURABLE: Mapping[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(slots=True)
class Postgres:
    """One data folder and the server on it, whichever process started it."""

    places: Places
    programs: Programs
    settings: Mapping[str, str] = field(default_factory=dict)
    _child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The `DATABASE_URL` for it."""
        return self._url_of(ROLE, role_password(self.places, ROLE))

    @property
    def owner_url(self) -> str:
        """The `MUSTER_MIGRATE_DATABASE_URL` for it."""
        return self._url_of(OWNER, service_password(self.places))

    def _url_of(self, role: str, password: str) -> str:
        return f"postgres://{role}:{password}@/{DATABASE}?host={quote(str(self.places.sockets), safe='')}"

    @property
    def log(self) -> Path:
        return self.places.log / "postgres.log"

    def ensure(self) -> bool:
        """Leaves a server that answers and has our database; True when it had to be started.

        1. One that is ready is used as it is. Its pid file tells, as the supervisor asks every two seconds, and a
           connection is a process each time.
        2. One that is coming up or going down is waited for; a pid file without a server is removed.
        3. The data folder is made at the first start.
        """
        if self._is_ready() or self.answers() or self._settle():
            return False
        if not (self.places.postgres_data / "PG_VERSION").is_file():
            self._create()
        options = {**_SETTINGS, **self.settings, "unix_socket_directories": str(self.places.sockets)}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        child = self._child = start(
            [self.programs.postgres, "-D", self.places.postgres_data, *words],
            account=self.places.account,
            log=self.log,
        )
        self._await_answer(child)
        try:
            self._ensure_database()
        except psycopg2.Error as error:
            raise LocalError(f"Postgres went away while its database was made: {error}") from error
        return True

    def answers(self) -> bool:
        try:
            self._connect().close()
        except psycopg2.OperationalError:
            return False
        return True

    def pid(self) -> int | None:
        """The server's process; None when the pid file names none, or one that is something else by now."""
        try:
            pid = int(self._pid_file.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None
        return pid if self._is_ours(pid) else None

    def stop(self) -> None:
        """Ends the server: its clients are disconnected and everything is written (Postgres calls this fast)."""
        pid = self.pid()
        if pid is not None:
            for number, patience_s in ((signal.SIGINT, _STOP_TIMEOUT_S), (signal.SIGQUIT, 5.0)):
                processes.send(pid, number)
                if self._gone(pid, timeout_s=patience_s):
                    break
            else:
                raise LocalError(f"Postgres (process {pid}) does not stop; its log is {self.log}")
        if self._child is not None:
            self._child.wait(timeout=_STOP_TIMEOUT_S)
            self._child = None

    @property
    def _pid_file(self) -> Path:
        return self.places.postgres_data / "postmaster.pid"

    def _is_ready(self) -> bool:
        """Whether a server of ours runs whose pid file says that it accepts connections."""
        if self.pid() is None:
            return False
        lines = self._pid_file.read_text().split("\n") if self._pid_file.exists() else []
        return len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "ready"

    def _is_ours(self, pid: int) -> bool:
        words = processes.command_line(pid)
        return bool(words) and Path(words[0]).name == "postgres" and str(self.places.postgres_data) in words

    def _gone(self, pid: int, *, timeout_s: float) -> bool:
        if self._child is not None and self._child.pid == pid:
            try:
                self._child.wait(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                return False
            return True
        return processes.wait_gone(pid, timeout_s=timeout_s)

    def _settle(self) -> bool:
        """True when a server that was found on the data folder came to answer; else none is left on it."""
        end = time.monotonic() + _START_TIMEOUT_S
        while (pid := self.pid()) is not None:
            if self.answers():
                return True
            if time.monotonic() >= end:
                raise LocalError(f"Postgres (process {pid}) runs and does not answer; its log is {self.log}")
            time.sleep(_POLL_S)
        # After a crash of the machine the number may belong to another program of ours, and Postgres, which sees only
        # the number, would refuse to start. `pid()` has looked at what it really is.
        for stale in (self._pid_file, self.places.sockets / f".s.PGSQL.{PORT}.lock"):
            stale.unlink(missing_ok=True)
        return False

    def _create(self) -> None:
        make_folder(self.places.postgres_data, account=self.places.account)
        account = self.places.account
        made = subprocess.run(
            [
                self.programs.initdb,
                f"--pgdata={self.places.postgres_data}",
                f"--username={_SUPERUSER}",
                "--auth=scram-sha-256",
                f"--pwfile={self.places.password_file}",
                "--encoding=UTF8",
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                *(["--no-sync"] if self.settings.get("fsync") == "off" else []),
            ],
            **as_account(account),
            env=server_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise LocalError(f"initdb failed:\n{made.stdout}{made.stderr}")
        (self.places.postgres_data / "pg_hba.conf").write_text(_ACCESS)

    def _await_answer(self, child: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + _START_TIMEOUT_S
        while not self.answers():
            if child.poll() is not None or time.monotonic() >= end:
                raise LocalError(f"Postgres did not start; the end of {self.log}:\n{tail(self.log)}")
            time.sleep(_POLL_S)

    def _ensure_database(self) -> None:
        with closing(self._connect()) as link:
            link.autocommit = True  # CREATE DATABASE refuses to run inside a transaction
            with link.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [OWNER])
                if cursor.fetchone() is None:
                    # CREATEDB lets the tests make theirs, and CREATEROLE lets `migrate` make the processes' role.
                    cursor.execute(
                        f"CREATE ROLE {OWNER} LOGIN CREATEDB CREATEROLE PASSWORD %s", [service_password(self.places)]
                    )
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
                if cursor.fetchone() is None:
                    cursor.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER}")

    def _connect(self) -> connection:
        return psycopg2.connect(
            host=str(self.places.sockets),
            port=PORT,
            dbname="postgres",
            user=_SUPERUSER,
            password=service_password(self.places),
            connect_timeout=5,
        )
