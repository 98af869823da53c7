"""Readers of the variables of the environment: each returns a typed value, or raises `BadSetting`."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import sys
from collections.abc import Mapping
from datetime import timedelta
from ipaddress import IPv4Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from muster.common.secrets import made_once

REPOSITORY = Path(__file__).resolve().parents[3]


class BadSetting(ValueError):
    """A setting from the environment that cannot be used; the message names it and says what would be right."""


def home_folder() -> Path:
    """The state folder: MUSTER_HOME, or .muster beside the code."""
    return Path(os.environ.get("MUSTER_HOME") or REPOSITORY / ".muster").expanduser().absolute()


def public_url(home: Path) -> str:
    """The address that people are told: MUSTER_URL, or that of the platform that runs on the state folder."""
    found = os.environ.get("MUSTER_URL") or _running_url(home) or _local_url()
    return _checked_url("MUSTER_URL", found, "https://muster.example.org")


def web_url() -> str:
    """The address at which the other processes find the web process."""
    return _checked_url("MUSTER_WEB_URL", os.environ.get("MUSTER_WEB_URL") or _local_url(), "http://127.0.0.1:8000")


def _local_url() -> str:
    return f"http://127.0.0.1:{port('PORT', '8000')}"


def _checked_url(name: str, value: str, example: str) -> str:
    url = value.rstrip("/")
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise BadSetting(f"{name} is {url!r}: it must read like {example}")
    return url


def database_settings(url: str) -> dict[str, object]:
    """Django's settings for `postgres://user:password@host:port/name?host=/socket/folder`."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise BadSetting(f"DATABASE_URL starts with {parts.scheme!r}: only postgres:// is supported")
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "muster.common.postgres",
        "NAME": parts.path.lstrip("/") or "muster",
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": options.pop("host", None) or parts.hostname or "",
        "PORT": str(parts.port or options.pop("port", "")),
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"application_name": "muster", "connect_timeout": 5, **options},
    }


def redis_urls(url: str) -> tuple[str, str]:
    """The same server as redis-py and as Celery spell it; a Unix socket is written differently by each."""
    if url.startswith(("redis://", "rediss://")):
        return url, url
    for scheme in ("unix://", "redis+socket://"):
        if url.startswith(scheme):
            path, _, query = url.removeprefix(scheme).partition("?")
            options = dict(parse_qsl(query))
            number = options.get("db") or options.get("virtual_host") or "0"
            return f"unix://{path}?db={number}", f"redis+socket://{path}?virtual_host={number}"
    raise BadSetting(f"REDIS_URL is {url!r}: it must start with redis://, rediss://, unix:// or redis+socket://")


def _running_url(home: Path) -> str:
    """The address of the platform that runs on this state folder (`manage.py up` or `demo`), for commands beside it."""
    with contextlib.suppress(FileNotFoundError):
        pid, _, url = (home / "supervisor.lock").read_text().partition(" ")
        if url and Path(f"/proc/{pid}").exists():
            return url
    return ""


def _number(name: str, default: str, *, least: int, most: int, what: str) -> int:
    value = os.environ.get(name) or default
    if not (value.isascii() and value.isdigit() and len(value) <= 10 and least <= int(value) <= most):
        raise BadSetting(f"{name} is {value!r}: it must be {what}")
    return int(value)


def port(name: str, default: str) -> int:
    return _number(name, default, least=1, most=65535, what="a number from 1 to 65535")


def count(name: str, default: str) -> int:
    """A number of things; 0 is one."""
    return _number(name, default, least=0, most=999_999, what="a number")


def bytes_of_mebibytes(name: str, default: str) -> int:
    """The bytes of a variable in MiB."""
    return _number(name, default, least=1, most=1 << 30, what="a number of MiB") << 20


def long_time(name: str, default: str) -> timedelta:
    """A time in hours or days."""
    return _duration(name, default, {"d": 86_400, "h": 3600}, "hours or days, like 6h or 7d")


def short_time(name: str, default: str) -> timedelta:
    """A time in hours, minutes or seconds."""
    return _duration(name, default, {"h": 3600, "m": 60, "s": 1}, "hours, minutes or seconds, like 8h, 30m or 90s")


def _duration(name: str, default: str, units: Mapping[str, int], what: str) -> timedelta:
    value = os.environ.get(name) or default
    found = re.fullmatch(rf"([0-9]{{1,6}})([{''.join(units)}])", value)
    length = timedelta(seconds=int(found[1]) * units[found[2]]) if found else timedelta()
    if not timedelta() < length < timedelta(days=100_000):
        raise BadSetting(f"{name} is {value!r}: it must be {what}")
    return length


def samples_kept_for() -> dict[int, timedelta]:
    """The age limit of samples by resolution (seconds); a coarser one is kept no shorter than a finer one."""
    names = {10: "MUSTER_SAMPLES_TEN_SECONDS", 60: "MUSTER_SAMPLES_MINUTES", 3600: "MUSTER_SAMPLES_HOURS"}
    defaults = {10: "6h", 60: "7d", 3600: "400d"}
    kept = {seconds: long_time(name, defaults[seconds]) for seconds, name in names.items()}
    if not kept[10] <= kept[60] <= kept[3600]:
        raise BadSetting(f"{', '.join(names.values())}: each must be at least as long as the one before")
    return kept


def listed(name: str) -> list[str]:
    """The words of a variable with commas."""
    return [part.strip() for part in os.environ.get(name, "").split(",") if part.strip()]


def networks(name: str) -> list[str]:
    """Networks with commas."""
    try:
        for part in listed(name):
            ip_network(part)
    except ValueError as error:
        value = os.environ[name]
        raise BadSetting(f"{name} is {value!r}: it must be networks with commas, like 10.1.0.0/16 ({error})") from error
    return listed(name)


def is_loopback(host: str) -> bool:
    """Whether a host of a URL, or an address to bind to, can be reached from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def trusted_proxies(bind: str) -> list[str]:
    """The networks whose forwarded headers are believed.

    By default none. In a container whose port is published on the host's loopback only (Docker Compose says so in
    MUSTER_BIND), only a proxy on the host can come from the gateway of the container's network.
    """
    named = networks("MUSTER_TRUSTED_PROXIES")
    if named or not bind or not is_loopback(bind):
        return named
    with contextlib.suppress(FileNotFoundError):
        gateway = default_gateway(Path("/proc/net/route").read_text())
        return [gateway] if gateway else []
    return []


def default_gateway(routes: str) -> str | None:
    """The gateway of the default route in the text of `/proc/net/route`; None where there is none."""
    for line in routes.splitlines()[1:]:
        fields = line.split()
        destination, gateway = fields[1:3]
        if int(destination, 16) == 0 and int(gateway, 16) != 0:
            return str(IPv4Address(int(gateway, 16).to_bytes(4, sys.byteorder)))
    return None


def ports(name: str, default: str) -> str:
    """Ports and ranges of ports with commas."""
    value = (os.environ.get(name) or default).replace(" ", "")
    for part in value.split(","):
        ends = part.split("-")
        sound = len(ends) <= 2 and all(end.isascii() and end.isdigit() and 0 < int(end) < 65536 for end in ends)
        if not sound or int(ends[0]) > int(ends[-1]):
            raise BadSetting(f"{name} is {value!r}: it must be ports and ranges with commas, like 443,8000-8999")
    return value


def uid_range(name: str, default: str) -> range:
    """The uids from the first to the last one; the check `accounts.E001` judges whether jobs may have them."""
    value = (os.environ.get(name) or default).replace(" ", "")
    first, dash, last = value.partition("-")
    sound = dash and all(end.isascii() and end.isdigit() and len(end) <= 10 for end in (first, last))
    if not sound or int(first) > int(last):
        raise BadSetting(f"{name} is {value!r}: it must be the first and the last uid, like 70000-99999")
    return range(int(first), int(last) + 1)


def flag(name: str) -> bool:
    """Whether a variable is set to 1 or true."""
    value = (os.environ.get(name) or "0").lower()
    if value not in {"0", "1", "true", "false"}:
        raise BadSetting(f"{name} is {value!r}: it must be 0 or 1")
    return value in {"1", "true"}


def encryption_keys(home: Path) -> list[str]:
    """The keys by which secrets are stored: the first one encrypts, each of them decrypts."""
    keys = listed("MUSTER_ENCRYPTION_KEYS") or _stored(home / "encryption_key", new_encryption_key()).split(",")
    for key in keys:
        try:
            sound = len(base64.urlsafe_b64decode(key)) == 32
        except ValueError:
            sound = False
        if not sound:
            # The value itself is a secret, so it is not shown.
            raise BadSetting(
                "MUSTER_ENCRYPTION_KEYS: each key must be 32 bytes in URL-safe base64, with commas between"
            )
    return keys


def secret(variable: str, path: Path, *, size: int) -> str:
    """The secret of the variable, else the one in the file, which is made of `size` random bytes at the first start."""
    return os.environ.get(variable) or _stored(path, secrets.token_urlsafe(size))


def new_encryption_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _stored(path: Path, fresh: str) -> str:
    """The secret of this installation in `path`, `fresh` at the first start; every process must read the same one."""
    # Root's database runs under another account, which has to pass through. Each secret is private by itself.
    path.parent.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    return made_once(path, fresh)
