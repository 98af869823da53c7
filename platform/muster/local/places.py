"""The places of the embedded servers: their account, data, sockets and programs.

Postgres refuses to run as root. So root runs both servers under an account without rights, and everything that they
touch has to be reachable by it: a checkout below /root is not, and no existing folder is ever made more open for them.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import secrets
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.common.secrets import made_once

# sun_path holds 108 bytes with its final NUL; `/.s.PGSQL.5432.lock` is the longest name that is put into the folder.
SOCKET_PATH_LIMIT_BYTES = 107
_SOCKET_LOCK_NAME = "/.s.PGSQL.5432.lock"
_SERVICE_ACCOUNTS = ("postgres", "daemon", "nobody")
_PRIVATE = 0o700
_PASSABLE = 0o711


class LocalError(RuntimeError):
    """The embedded default cannot run here; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system account that the servers run as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one installation's servers; `account` is None when they run as the caller."""

    home: Path
    root: Path
    sockets: Path
    account: Account | None

    @property
    def postgres_data(self) -> Path:
        return self.root / "postgres"

    @property
    def valkey_data(self) -> Path:
        return self.root / "valkey"

    @property
    def programs(self) -> Path:
        return self.root / "programs"

    @property
    def password_file(self) -> Path:
        return self.root / "password"

    @property
    def log(self) -> Path:
        return self.root / "log"


_STATE = Path("/var/lib/muster")
_SHORT = Path("/tmp")  # noqa: S108 - a short path, for sockets


def find_places(home: Path, *, state: Path = _STATE, short: Path = _SHORT) -> Places:
    """The places for the state folder `home`, all made with the right owner; the same home gives the same places.

    1. The folder itself: 0700, or 0711 when root makes it, so that the servers' account can pass through.
    2. `home/services` holds data and programs; if the account cannot get there, a folder below `state` does.
    3. Sockets lie beside the data, or in a folder below `short` when that path is too long for a socket.
    """
    home = home.absolute()
    account = service_account()
    make_folder(home, mode=_PASSABLE if account else _PRIVATE, keep_existing=True)
    root = home / "services"
    if account and not can_reach(account, home):
        make_folder(state, mode=_PASSABLE, keep_existing=True)
        root = state / _digest(home)
    make_folder(root, account=account)
    sockets = root / "run"
    if len(os.fsencode(sockets)) + len(_SOCKET_LOCK_NAME) > SOCKET_PATH_LIMIT_BYTES:
        sockets = _short_folder(home, short)
    make_folder(sockets, account=account)
    places = Places(home=home, root=root, sockets=sockets, account=account)
    for folder in (places.log, places.programs, places.valkey_data):
        make_folder(folder, account=account)
    return places


def service_password(places: Places) -> str:
    """The password of the embedded Postgres and Valkey, made at the first call. Its file is the servers' account's."""
    owner = None if places.account is None else (places.account.uid, places.account.gid)
    return made_once(places.password_file, secrets.token_urlsafe(32) + "\n", owner=owner)


def role_password(places: Places, role: str) -> str:
    """The password of a role that must not know the servers' own password, from which this one is derived."""
    return hashlib.sha256(f"{role} {service_password(places)}".encode()).hexdigest()


def agents_folder(home: Path, *, state: Path = _STATE) -> Path:
    """The folder for the state of agents on this machine, passable for the users that root's agents run jobs as."""
    account = service_account()
    folder = home / "agents"
    if account and not can_reach(account, home):
        folder = state / f"{_digest(home)}-agents"
    make_folder(folder, mode=_PASSABLE if account else _PRIVATE)
    return folder


def state_folders(home: Path, *, state: Path = _STATE, short: Path = _SHORT) -> list[Path]:
    """The folders that hold the state of `home`, of those that exist: itself, and what had to lie elsewhere."""
    home = home.absolute()
    digest = _digest(home)
    folders = (home, state / digest, state / f"{digest}-agents", _short_folder(home, short))
    return [folder for folder in folders if folder.is_dir()]


def service_account() -> Account | None:
    """The account that runs the servers for root; None for other users, who run them themselves."""
    if os.geteuid() != 0:
        return None
    for name in _SERVICE_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise LocalError(
        "Postgres does not run as root, and none of the accounts postgres, daemon or nobody exists. "
        "Add one of them, or run this as an ordinary user."
    )


def can_reach(account: Account, path: Path) -> bool:
    """Whether the account may enter this folder (asked of the kernel, so access lists count too)."""
    return subprocess.run(["test", "-x", str(path)], **as_account(account), check=False).returncode == 0


def as_account(account: Account | None) -> dict[str, Any]:
    """The options of `subprocess` for a program that runs as the account; None: as the caller."""
    if account is None:
        return {"cwd": "/"}
    return {"user": account.uid, "group": account.gid, "extra_groups": [], "cwd": "/"}


def make_folder(
    path: Path, *, mode: int = _PRIVATE, account: Account | None = None, keep_existing: bool = False
) -> None:
    """Make a folder with this mode and owner, or keep an existing one's mode; refuses a path that another user made."""
    try:
        path.mkdir(mode=mode, parents=True)
    except FileExistsError:
        _refuse_strangers(path, account, follow=keep_existing)
        if keep_existing:
            return
    # mkdir's mode is subject to the umask. Mode before owner, so that no user gets access between the two calls.
    path.chmod(mode)
    if account is not None:
        os.chown(path, account.uid, account.gid)


def _refuse_strangers(path: Path, account: Account | None, *, follow: bool) -> None:
    # In a world-writable folder, a link could point root at any folder of the machine.
    found = path.stat() if follow else path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise LocalError(f"{path} is in the way: it must be a folder")
    owners = {os.geteuid()} | ({account.uid} if account else set())
    if found.st_uid not in owners:
        raise LocalError(
            f"{path} belongs to another user (uid {found.st_uid}): remove it, or set MUSTER_HOME elsewhere"
        )


def _short_folder(home: Path, short: Path) -> Path:
    return short / f"muster-{os.geteuid()}-{_digest(home)}"


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:10]
