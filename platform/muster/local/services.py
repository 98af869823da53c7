"""Postgres and Valkey for everything that runs on this machine: started by the first, stopped by the last."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from muster.local.places import Places, find_places
from muster.local.postgres import Postgres
from muster.local.programs import find_programs
from muster.local.valkey import Valkey


@dataclass(slots=True)
class Services:
    """The two addresses, and the embedded servers behind them (none for an address that was given)."""

    database_url: str
    redis_url: str
    owner_url: str = ""
    places: Places | None = None
    _servers: tuple[Postgres | Valkey, ...] = ()
    _use: IO[bytes] | None = field(default=None, repr=False)

    def environment(self) -> dict[str, str]:
        """The environment that the platform's processes need."""
        found = {"DATABASE_URL": self.database_url, "REDIS_URL": self.redis_url}
        return found | ({"MUSTER_MIGRATE_DATABASE_URL": self.owner_url} if self.owner_url else {})

    @property
    def embedded(self) -> tuple[str, ...]:
        return tuple(type(server).__name__ for server in self._servers)

    def start(self) -> None:
        """Joins the users of the servers and leaves them running; after a failure nothing of ours is left."""
        self.join()
        try:
            self.revive()
        except BaseException:
            self.stop()
            raise

    def pids(self) -> list[int]:
        return [pid for server in self._servers if (pid := server.pid()) is not None]

    def join(self) -> None:
        """Mark the servers as used, without starting them: no other process stops them until `stop`."""
        if self.places is not None:
            self._use = (self.places.root / "users.lock").open("wb")
            fcntl.flock(self._use, fcntl.LOCK_SH)

    def revive(self) -> list[str]:
        """Starts again what no longer answers; returns the names of what was started."""
        if self.places is None:
            return []
        with _starting(self.places):
            return [type(server).__name__ for server in self._servers if server.ensure()]

    def stop(self) -> bool:
        """Release the servers, and stop them if no other process uses them; returns whether it stopped them."""
        if self.places is None or self._use is None:
            return False
        with _starting(self.places):
            try:
                fcntl.flock(self._use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process uses them, and stops them when it leaves
                return False
            else:
                for server in reversed(self._servers):
                    server.stop()
                return True
            finally:
                self._use.close()
                self._use = None

    def __enter__(self) -> Services:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_services(
    home: Path, *, environ: Mapping[str, str] = os.environ, postgres_settings: Mapping[str, str] | None = None
) -> Services:
    """Both servers, ready to use; an address in the environment stands for a server of the user's own.

    Each process that uses the embedded servers of a home holds a shared lock on a file there; the kernel releases it
    when the process dies. A process that leaves and gets the lock exclusively was the last, and stops the servers.
    """
    database_url, redis_url = environ.get("DATABASE_URL", ""), environ.get("REDIS_URL", "")
    if database_url and redis_url:
        return Services(database_url, redis_url)
    places = find_places(home)
    programs = find_programs(places)
    postgres = None if database_url else Postgres(places, programs, postgres_settings or {})
    valkey = None if redis_url else Valkey(places, programs)
    servers = tuple(server for server in (postgres, valkey) if server is not None)
    services = Services(
        database_url=postgres.url if postgres else database_url,
        redis_url=valkey.url if valkey else redis_url,
        owner_url=postgres.owner_url if postgres else "",
        places=places,
        _servers=servers,
    )
    services.start()
    return services


@cache
def services_of_this_process() -> Services:
    """The services of the default home, started by the first call and put into the environment for the settings."""
    services = start_services(default_home())
    os.environ.update(services.environment())
    return services


def stop_services(home: Path) -> bool:
    """Stop servers left running in this home; False if a process uses them, or there are none."""
    if not home.is_dir():
        return False
    places = find_places(home)
    programs = find_programs(places)
    services = Services("", "", "", places, (Postgres(places, programs), Valkey(places, programs)))
    services.join()
    return services.stop()


def default_home() -> Path:
    """The state folder: MUSTER_HOME, or .muster beside the code."""
    # The settings say the same, but they cannot be read before the addresses are known.
    return Path(os.environ.get("MUSTER_HOME") or Path(__file__).parents[3] / ".muster").expanduser().absolute()


@contextmanager
def _starting(places: Places) -> Iterator[None]:
    """One process at a time starts or stops servers; the others wait here."""
    with (places.root / "start.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
