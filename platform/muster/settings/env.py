"""The environment, parsed once into a typed record."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import secrets
import sys
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

REPOSITORY = Path(__file__).resolve().parents[3]


class BadSetting(ValueError):
    """A setting from the environment that cannot be used; the message names it and says what would be right."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything that the platform takes from its environment."""

    home: Path
    database_url: str
    migrate_database_url: str
    redis_url: str
    public_url: str
    bind: str
    web_url: str
    secret_key: str
    encryption_keys: list[str]
    debug: bool
    operators_mail: list[str]
    mail_from: str
    smtp_host: str
    smtp_port: int
    metrics_token: str
    samples_kept_for: dict[int, timedelta]
    outputs_max_bytes: int
    outputs_kept_for: timedelta
    shell_idle: timedelta
    shell_longest: timedelta
    shells_per_job: int
    shells_per_user: int
    mail_to_users: bool
    mails_per_hour: int
    webhook_networks: str
    webhook_ports: str
    trusted_proxies: list[str]
    session_idle: timedelta
    uid_range: range


def read_environment() -> Environment:
    """The typed environment of this process; raises `BadSetting` for a value that cannot be used."""
    home = Path(os.environ.get("MUSTER_HOME") or REPOSITORY / ".muster").expanduser().absolute()
    port = _port("PORT", "8000")
    public_url = (os.environ.get("MUSTER_URL") or _running_url(home) or f"http://127.0.0.1:{port}").rstrip("/")
    if urlsplit(public_url).scheme not in {"http", "https"} or not urlsplit(public_url).hostname:
        raise BadSetting(f"MUSTER_URL is {public_url!r}: it must read like https://muster.example.org")
    bind = os.environ.get("MUSTER_BIND") or ""
    web_url = (os.environ.get("MUSTER_WEB_URL") or f"http://127.0.0.1:{port}").rstrip("/")
    if urlsplit(web_url).scheme not in {"http", "https"} or not urlsplit(web_url).hostname:
        raise BadSetting(f"MUSTER_WEB_URL is {web_url!r}: it must read like http://127.0.0.1:8000")
    return Environment(
        home=home,
        database_url=os.environ.get("DATABASE_URL") or "postgres://muster@/muster",
        migrate_database_url=os.environ.get("MUSTER_MIGRATE_DATABASE_URL") or "",
        redis_url=os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379/0",
        public_url=public_url,
        bind=bind,
        web_url=web_url,
        secret_key=os.environ.get("MUSTER_SECRET_KEY") or _stored(home / "secret_key", secrets.token_urlsafe(48)),
        encryption_keys=_encryption_keys(home),
        debug=_flag("MUSTER_DEBUG"),
        operators_mail=[
            part.strip() for part in os.environ.get("MUSTER_OPERATORS_MAIL", "").split(",") if part.strip()
        ],
        mail_from=os.environ.get("MUSTER_MAIL_FROM") or "muster@localhost",
        smtp_host=os.environ.get("MUSTER_SMTP_HOST") or "localhost",
        smtp_port=_port("MUSTER_SMTP_PORT", "25"),
        metrics_token=os.environ.get("MUSTER_METRICS_TOKEN")
        or _stored(home / "metrics_token", secrets.token_urlsafe(32)),
        samples_kept_for=_samples_kept_for(),
        outputs_max_bytes=_mebibytes("MUSTER_OUTPUTS_MIB", "1024"),
        outputs_kept_for=_days_or_hours("MUSTER_OUTPUTS_KEPT_FOR", "30d"),
        shell_idle=_hours_to_seconds("MUSTER_SHELL_IDLE", "30m"),
        shell_longest=_hours_to_seconds("MUSTER_SHELL_LONGEST", "8h"),
        shells_per_job=_count("MUSTER_SHELLS_PER_JOB", "4"),
        shells_per_user=_count("MUSTER_SHELLS_PER_USER", "8"),
        # Without a mail server, mails to users would pile up undelivered.
        mail_to_users=bool(os.environ.get("MUSTER_SMTP_HOST")),
        mails_per_hour=_count("MUSTER_MAILS_PER_HOUR", "10"),
        webhook_networks=_networks("MUSTER_WEBHOOK_NETWORKS"),
        webhook_ports=_ports("MUSTER_WEBHOOK_PORTS", "80,443,1024-65535"),
        trusted_proxies=_trusted_proxies(bind),
        session_idle=_hours_to_seconds("MUSTER_SESSION_IDLE", "12h"),
        uid_range=_uid_range("MUSTER_UID_RANGE", "70000-99999"),
    )


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


def _port(name: str, default: str) -> int:
    value = os.environ.get(name) or default
    if not (value.isascii() and value.isdigit() and 0 < int(value) < 65536):
        raise BadSetting(f"{name} is {value!r}: it must be a number from 1 to 65535")
    return int(value)


def _samples_kept_for() -> dict[int, timedelta]:
    """How long samples are kept at each resolution (seconds); a coarser one is kept no shorter than a finer one."""
    names = {10: "MUSTER_SAMPLES_TEN_SECONDS", 60: "MUSTER_SAMPLES_MINUTES", 3600: "MUSTER_SAMPLES_HOURS"}
    defaults = {10: "6h", 60: "7d", 3600: "400d"}
    kept = {seconds: _days_or_hours(name, defaults[seconds]) for seconds, name in names.items()}
    if not kept[10] <= kept[60] <= kept[3600]:
        raise BadSetting(f"{', '.join(names.values())}: each must be at least as long as the one before")
    return kept


def _days_or_hours(name: str, default: str) -> timedelta:
    value = os.environ.get(name) or default
    number, unit = value[:-1], value[-1]
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and int(number) > 0 and unit in "hd"):
        raise BadSetting(f"{name} is {value!r}: it must be hours or days, like 6h or 7d")
    return timedelta(hours=int(number)) if unit == "h" else timedelta(days=int(number))


def _hours_to_seconds(name: str, default: str) -> timedelta:
    value = os.environ.get(name) or default
    number, unit = value[:-1], value[-1]
    if not (number.isascii() and number.isdigit() and len(number) <= 6 and int(number) > 0 and unit in "hms"):
        raise BadSetting(f"{name} is {value!r}: it must be hours, minutes or seconds, like 8h, 30m or 90s")
    return timedelta(seconds=int(number) * {"h": 3600, "m": 60, "s": 1}[unit])


def _count(name: str, default: str) -> int:
    value = os.environ.get(name) or default
    if not (value.isascii() and value.isdigit() and len(value) <= 6):
        raise BadSetting(f"{name} is {value!r}: it must be a number")
    return int(value)


def _networks(name: str) -> str:
    value = os.environ.get(name) or ""
    try:
        for part in filter(None, (part.strip() for part in value.split(","))):
            ip_network(part)
    except ValueError as error:
        raise BadSetting(f"{name} is {value!r}: it must be networks with commas, like 10.1.0.0/16 ({error})") from error
    return value


def is_loopback(host: str) -> bool:
    """Whether a host of a URL, or an address to bind to, can be reached from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _trusted_proxies(bind: str) -> list[str]:
    """The networks whose forwarded headers are believed.

    By default none. In a container whose port is published on the host's loopback only (Docker Compose says so in
    MUSTER_BIND), only a proxy on the host can come from the gateway of the container's network.
    """
    named = [part.strip() for part in _networks("MUSTER_TRUSTED_PROXIES").split(",") if part.strip()]
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


def _ports(name: str, default: str) -> str:
    value = (os.environ.get(name) or default).replace(" ", "")
    for part in value.split(","):
        ends = part.split("-")
        sound = len(ends) <= 2 and all(end.isascii() and end.isdigit() and 0 < int(end) < 65536 for end in ends)
        if not sound or int(ends[0]) > int(ends[-1]):
            raise BadSetting(f"{name} is {value!r}: it must be ports and ranges with commas, like 443,8000-8999")
    return value


def _uid_range(name: str, default: str) -> range:
    """The uids from the first to the last one; the check `accounts.E001` judges whether jobs may have them."""
    value = (os.environ.get(name) or default).replace(" ", "")
    first, dash, last = value.partition("-")
    sound = dash and all(end.isascii() and end.isdigit() and len(end) <= 10 for end in (first, last))
    if not sound or int(first) > int(last):
        raise BadSetting(f"{name} is {value!r}: it must be the first and the last uid, like 70000-99999")
    return range(int(first), int(last) + 1)


def _mebibytes(name: str, default: str) -> int:
    value = os.environ.get(name) or default
    if not (value.isascii() and value.isdigit() and 0 < int(value) <= 1 << 30):
        raise BadSetting(f"{name} is {value!r}: it must be a number of MiB")
    return int(value) << 20


def _flag(name: str) -> bool:
    value = (os.environ.get(name) or "0").lower()
    if value not in {"0", "1", "true", "false"}:
        raise BadSetting(f"{name} is {value!r}: it must be 0 or 1")
    return value in {"1", "true"}


def _encryption_keys(home: Path) -> list[str]:
    """The keys by which secrets are stored: the first one encrypts, each of them decrypts."""
    given = os.environ.get("MUSTER_ENCRYPTION_KEYS", "")
    keys = [part.strip() for part in given.split(",") if part.strip()]
    if not keys:
        keys = _stored(home / "encryption_key", new_encryption_key()).split(",")
    for key in keys:
        try:
            sound = len(base64.urlsafe_b64decode(key)) == 32
        except (binascii.Error, ValueError):
            sound = False
        if not sound:
            # The value itself is a secret, so it is not shown.
            raise BadSetting(
                "MUSTER_ENCRYPTION_KEYS: each key must be 32 bytes in URL-safe base64, with commas between"
            )
    return keys


def new_encryption_key() -> str:
    """A random key for `MUSTER_ENCRYPTION_KEYS`."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _stored(path: Path, fresh: str) -> str:
    """The secret of this installation in `path`, `fresh` at the first start; every process must read the same one."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        # Root's database runs under another account, which has to pass through. Each secret is private by itself.
        path.parent.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    # A hard link is made by exactly one of several processes that start together.
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(fresh)
    with contextlib.suppress(FileExistsError):  # another process was first, and its key is the one
        os.link(draft, path)
    draft.unlink()
    return path.read_text().strip()
