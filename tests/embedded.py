"""A pytest plugin (`-p tests.embedded`): this run's own Postgres and Valkey, started before Django reads its settings.

A conftest would be too late: pytest-django sets Django up before any conftest is read. The addresses go into the
environment, which the workers of pytest-xdist inherit; each of them gets a Redis database and a state folder of its own
(pytest-django gives each a Postgres database). Tests that need a server for themselves have a folder for it.

MUSTER_TEST_SERVICES=0 starts nothing; DATABASE_URL and REDIS_URL name servers to be used instead.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "platform"))

from muster.local.postgres import NOT_DURABLE  # noqa: E402
from muster.local.processes import is_alive  # noqa: E402
from muster.local.services import Services, start_services, stop_services  # noqa: E402
from tests import engines  # noqa: E402

# Tests of code that knows no database; a run of nothing else does not wait for one.
WITHOUT_SERVICES = ("unit", "sim", "agent", "contract")
_PREFIX = "muster-tests-"
_FURTHER = "MUSTER_TEST_SERVERS"


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Starts the services, or in a worker takes its own Redis database; a wrapper runs before pytest-django's hook."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        os.environ["REDIS_URL"] = redis_url_of(os.environ.get("REDIS_URL", ""), worker)
        # Each database counts its jobs from 1, and a job's files lie in a folder of its number.
        os.environ["MUSTER_HOME"] = str(_new_home(Path(os.environ["MUSTER_HOME"]) / worker))
    else:
        _prepare(early_config)
    yield


def redis_url_of(url: str, worker: str) -> str:
    """The same server's database for the worker `gw0`, `gw1` …; database 0 stays for runs without workers."""
    if not url:
        return url
    number = int(worker.removeprefix("gw")) + 1
    parts = urlsplit(url)
    if parts.scheme in {"redis", "rediss"}:
        return parts._replace(path=f"/{number}").geturl()
    # `geturl` writes unix:/path, which is correct but which clients do not accept.
    return f"{url.partition('?')[0]}?db={number}"


def needs_services(paths: list[str], *, start: Path) -> bool:
    """True if a run of these paths may touch a database."""
    free = [ROOT / "tests" / name for name in WITHOUT_SERVICES]
    wanted = [(start / path.partition("::")[0]).resolve() for path in paths]
    return not wanted or not all(any(path.is_relative_to(folder) for folder in free) for path in wanted)


def environment_of(services: Services) -> dict[str, str]:
    """The addresses for tests: they make databases and empty audit tables, as only the owner of the tables can."""
    found = services.environment()
    owner_url = found.pop("MUSTER_MIGRATE_DATABASE_URL", found["DATABASE_URL"])
    return found | {"DATABASE_URL": owner_url}


def further_home(name: str) -> Path:
    """The folder for further servers of this run; they are stopped with it, and after it if it is killed."""
    folder = Path(os.environ[_FURTHER])
    for one in (folder, folder / name):
        one.mkdir(exist_ok=True)
        one.chmod(0o711)
    return folder / name


def _prepare(config: pytest.Config) -> None:
    options = config.known_args_namespace
    if getattr(options, "help", False) or getattr(options, "version", False):
        return
    _stop_what_was_left()
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        # Else each of the hundred processes that tests start and kill compiles Django and Celery anew, for over a
        # second; nothing is written beside the sources even so.
        os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / "build" / "pycache")
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    folder.chmod(0o711)  # root's servers run under another account, which has to pass through
    home = _new_home(folder / "home")
    os.environ.update({"MUSTER_HOME": str(home), "MUSTER_TESTING": "1", engines.FOLDER: str(folder / "engines")})
    os.environ[_FURTHER] = str(folder / "servers")
    services: Services | None = None
    if os.environ.get("MUSTER_TEST_SERVICES", "1") != "0" and needs_services(
        options.file_or_dir, start=config.invocation_params.dir
    ):
        services = start_services(home, postgres_settings=NOT_DURABLE)
        os.environ.update(environment_of(services))

    def clean_up() -> None:
        if services is not None:
            services.stop()
        _clear(folder)

    config.add_cleanup(clean_up)


def _new_home(home: Path) -> Path:
    (home / "static").mkdir(parents=True)  # where WhiteNoise looks besides the finders
    home.chmod(0o711)
    return home


def _stop_what_was_left() -> None:
    """Stops and removes what runs that were killed have left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(FileNotFoundError):  # another run that starts now clears the same
            if folder.stat().st_uid == os.geteuid() and pid.isdigit() and not is_alive(int(pid)):
                stop_services(folder / "home")
                _clear(folder)


def _clear(folder: Path) -> None:
    """Stops what was started in a run's folder beside its own services, and removes the folder."""
    for home in (folder / "servers").glob("*"):
        stop_services(home)
    engines.stop_engines(folder / "engines")
    shutil.rmtree(folder, ignore_errors=True)
