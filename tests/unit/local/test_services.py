"""Starting, sharing, repairing and stopping the embedded servers, with the real programs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
import redis

from muster.local import processes
from muster.local.places import LocalError, service_password
from muster.local.postgres import NOT_DURABLE, Postgres
from muster.local.reset import reset
from muster.local.services import Services, start_services, stop_services
from muster.local.valkey import Valkey


@pytest.fixture
def home(open_folder: Path) -> Iterator[Path]:
    """A state folder; whatever a test leaves running on it is stopped."""
    yield open_folder / "home"
    stop_services(open_folder / "home")


def start(home: Path, **environ: str) -> Services:
    return start_services(home, environ=environ, postgres_settings=NOT_DURABLE)


def servers_of(services: Services) -> tuple[Postgres, Valkey]:
    postgres, valkey = services._servers
    assert isinstance(postgres, Postgres)
    assert isinstance(valkey, Valkey)
    return postgres, valkey


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert processes.wait_gone(pid, timeout_s=10)


def test_addresses_from_the_environment_start_nothing(open_folder: Path) -> None:
    services = start(open_folder / "home", DATABASE_URL="postgres://db.example/muster", REDIS_URL="redis://r.example")
    assert services.embedded == ()
    assert not (open_folder / "home").exists()


def test_one_given_address_leaves_only_the_other_server_to_us(home: Path) -> None:
    with start(home, DATABASE_URL="postgres://db.example/muster") as services:
        assert services.embedded == ("Valkey",)
        assert services.database_url == "postgres://db.example/muster"


def test_whoever_comes_second_uses_the_running_servers_and_the_last_one_stops_them(home: Path) -> None:
    first, second = start(home), start(home)
    assert servers_of(first)[0].pid() == servers_of(second)[0].pid()
    assert not first.stop()
    assert servers_of(second)[0].answers()
    assert second.stop()
    assert not servers_of(second)[0].answers()
    assert not servers_of(second)[1].answers()


def test_servers_that_were_killed_come_back_with_their_data_folder(home: Path) -> None:
    with start(home) as services:
        postgres, valkey = servers_of(services)
        kill(postgres.pid())
        kill(valkey.pid())
        assert services.revive() == ["Postgres", "Valkey"]
        assert services.revive() == []
        assert postgres.answers()
        assert valkey.answers()


def test_a_pid_file_that_names_another_program_is_stale(home: Path) -> None:
    with start(home) as services:
        postgres, _ = servers_of(services)
        kill(postgres.pid())
        lines = postgres._pid_file.read_text().splitlines()
        with subprocess.Popen(["sleep", "60"]) as stranger:
            postgres._pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
            assert postgres.pid() is None
            assert services.revive() == ["Postgres"]
            assert stranger.poll() is None
            stranger.kill()


def test_what_was_left_running_is_stopped_unless_it_is_used(home: Path) -> None:
    services = start(home)
    postgres, _ = servers_of(services)
    assert not stop_services(home)
    assert services._use is not None
    services._use.close()  # what the kernel does when a user is killed
    assert stop_services(home)
    assert not postgres.answers()
    assert not stop_services(home / "never-made")


def test_the_database_and_its_owner_are_made_once(home: Path) -> None:
    for _ in range(2):
        with start(home) as services:
            postgres, _ = servers_of(services)
            with postgres._connect() as link, link.cursor() as cursor:
                cursor.execute("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'muster'")
                assert cursor.fetchall() == [("muster_owner",)]


@pytest.mark.parametrize("user", ["postgres", "muster_owner"])
def test_postgres_refuses_a_user_without_the_password(home: Path, user: str) -> None:
    with start(home) as services:
        host = str(servers_of(services)[0].places.sockets)
        for password in (None, "wrong"):
            with pytest.raises(psycopg2.OperationalError, match=r"no password supplied|authentication failed"):
                psycopg2.connect(host=host, user=user, password=password, dbname="postgres")
        psycopg2.connect(services.owner_url).close()


def test_valkey_refuses_a_client_without_the_password(home: Path) -> None:
    with start(home) as services:
        valkey = servers_of(services)[1]
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(unix_socket_path=str(valkey.socket_path)).ping()
        assert redis.Redis.from_url(services.redis_url).ping()
        assert service_password(valkey.places) not in " ".join(processes.command_line(valkey.pid() or 0))


def test_the_files_with_the_password_are_private(home: Path) -> None:
    with start(home) as services:
        places = servers_of(services)[0].places
        for path in (places.password_file, places.valkey_data / "valkey.conf"):
            assert service_password(places) in path.read_text()
            assert path.stat().st_mode & 0o777 == 0o600


def test_the_address_of_the_processes_does_not_hold_the_owners_password(home: Path) -> None:
    with start(home) as services:
        assert service_password(servers_of(services)[0].places) not in services.database_url
        assert services.environment()["MUSTER_MIGRATE_DATABASE_URL"] == services.owner_url


def test_a_reset_removes_all_state_and_only_of_what_is_muster(home: Path) -> None:
    with start(home) as services:
        (home / "secret_key").touch()
        with pytest.raises(LocalError, match="uses the database"):
            reset(home)
        pid = servers_of(services)[0].pid()
    assert home in reset(home)
    assert not home.exists()
    assert pid is not None
    assert not processes.is_alive(pid)
    home.mkdir()
    with pytest.raises(LocalError, match="no state folder"):
        reset(home)
