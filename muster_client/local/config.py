"""The addresses of servers and their tokens.

Tokens are kept per server, so a MUSTER_URL that points elsewhere never carries the token of another server there.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster_client.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8000"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Login:
    """A stored token; `token_id` is there when this program created the token and may revoke it."""

    token: str
    username: str
    token_id: int | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The content of the configuration file."""

    current: str | None = None
    logins: Mapping[str, Login] = field(default_factory=dict)

    def with_login(self, url: str, login: Login) -> Config:
        """Return the configuration with this server as the current one."""
        return Config(current=url, logins={**self.logins, url: login})

    def without_login(self, url: str) -> Config:
        """Return the configuration without the token of this server; its URL stays the current one."""
        return Config(current=self.current, logins={key: value for key, value in self.logins.items() if key != url})


@dataclass(frozen=True, slots=True)
class Target:
    """The server that a command talks to, and with which token."""

    url: str
    token: str | None


def config_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the configuration file: MUSTER_CONFIG, or muster/config.json among the user's settings."""
    explicit = environ.get("MUSTER_CONFIG")
    if explicit:
        return Path(explicit).expanduser()
    base = environ.get("XDG_CONFIG_HOME")
    # The XDG rules say that a relative path there is to be ignored.
    folder = Path(base) if base and Path(base).is_absolute() else Path("~/.config").expanduser()
    return folder / "muster" / "config.json"


def load_config(path: Path) -> Config:
    """Return the stored configuration, empty when there is no file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON; repair or delete it.") from error
    try:
        return _parse(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} does not read like a muster configuration; repair or delete it.") from error


def save_config(path: Path, config: Config) -> None:
    """Write the configuration so that only the user can read it, and never half."""
    document = {
        "current": config.current,
        "servers": {url: _login_to_dict(login) for url, login in sorted(config.logins.items())},
    }
    text = json.dumps(document, indent=2) + "\n"
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The mode is set at creation: there is no moment at which others could open the file.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
            raise
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def readable_by_others(path: Path) -> bool:
    """Return whether someone else on this machine could read the stored tokens."""
    try:
        return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except FileNotFoundError:
        return False


def choose_target(config: Config, environ: Mapping[str, str], *, url: str | None = None) -> Target:
    """Return the server and token to use: the option first, then the environment, then what is stored."""
    chosen = normalise_url(url or environ.get("MUSTER_URL") or config.current or DEFAULT_URL)
    token = environ.get("MUSTER_TOKEN", "").strip()
    if token:
        return Target(url=chosen, token=token)
    login = config.logins.get(chosen)
    return Target(url=chosen, token=login.token if login else None)


def normalise_url(url: str) -> str:
    """Return the address of a server in the one form that is compared and stored."""
    text = url.strip()
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{text!r} is not the address of a server; write it like https://muster.example.org.")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError("The address of a server has no user, query or fragment.")
    path = parts.path.rstrip("/").removesuffix("/api/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def travels_unencrypted(url: str) -> bool:
    """Return whether a password sent to this server could be read on the way."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK


def _parse(document: Any) -> Config:
    logins = {
        str(url): Login(token=str(item["token"]), username=str(item["username"]), token_id=item.get("token_id"))
        for url, item in document["servers"].items()
    }
    current = document["current"]
    if current is not None and not isinstance(current, str):
        raise TypeError("current")
    return Config(current=current, logins=logins)


def _login_to_dict(login: Login) -> dict[str, Any]:
    return {"username": login.username, "token": login.token, "token_id": login.token_id}
