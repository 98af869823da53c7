"""Rules for the fields of a server. None of them ever becomes part of a command that a shell reads."""

from __future__ import annotations

import ipaddress
import re
import shlex

from muster.common.errors import Invalid

_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_FOLDER = re.compile(r"/?[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_VALUE = re.compile(r"[A-Za-z0-9_./:@,=+-]+")
# Those of `muster-agent run` that an operator may choose; the rest is what makes the link.
AGENT_OPTIONS = frozenset(
    {
        "--address",
        "--cpus",
        "--default-image",
        "--docker-socket",
        "--gang-network",
        "--gpus",
        "--hide",
        "--hostname",
        "--job-user",
        "--log-spool-mib",
        "--disk-mib",
        "--disk-reserve-mib",
        "--memory-mib",
        "--mount-root",
        "--network",
        "--pids-limit",
        "--runtime",
    }
)
AGENT_SWITCHES = frozenset({"--no-infiniband", "--read-only-root", "--verbose"})
FOLDER_OF_ROOT, FOLDER_OF_OTHERS = "/var/lib/muster-agent", ".muster-agent"


def require_host(host: str) -> str:
    """The host name or address, or `Invalid`."""
    if host.startswith("-"):
        raise Invalid.field("host", "it must not start with '-'")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise Invalid.field("host", "write a host name of letters, digits, '-' and '.', or an IP address")
    return host


def require_port(port: int) -> int:
    """The port, or `Invalid`."""
    if not 1 <= port <= 65_535:
        raise Invalid.field("port", "it must be a number from 1 to 65535")
    return port


def require_user(user: str) -> str:
    """The name of the user on the server, or `Invalid`."""
    if user.startswith("-"):
        raise Invalid.field("user", "it must not start with '-'")
    if not _USER.fullmatch(user):
        raise Invalid.field("user", "use letters, digits, '_', '-', '.' and '@', at most 64 characters")
    return user


def require_folder(folder: str) -> str:
    """The agent's folder on the server, absolute or below the user's home; empty for the usual one."""
    if folder and (not _FOLDER.fullmatch(folder) or ".." in folder.split("/") or folder.startswith("-")):
        raise Invalid.field("folder", "write a path of letters, digits, '.', '_', '-' and '/', without '..'")
    return folder


def folder_of(folder: str, user: str) -> str:
    """The folder of the agent. Root's jobs run as their members, who could not pass through root's home."""
    return folder or (FOLDER_OF_ROOT if user == "root" else FOLDER_OF_OTHERS)


def require_options(options: str) -> str:
    """The agent's options in one plain form, or `Invalid`; see `words_of`."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise Invalid.field("options", f"a quote is not closed: {error}") from error
    plain: list[str] = []
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name in AGENT_SWITCHES and not equals:
            plain.append(name)
            continue
        if name not in AGENT_OPTIONS:
            known = ", ".join(sorted(AGENT_OPTIONS | AGENT_SWITCHES))
            raise Invalid.field("options", f"{name[:40]!r} is none of the options that can be chosen: {known}")
        if not equals:
            value = words.pop(0) if words else ""
        if not _VALUE.fullmatch(value) or value.startswith("-"):
            raise Invalid.field("options", f"{name} needs a value of letters, digits and _ . / : @ , = + -")
        plain.append(f"{name}={value}")
    return " ".join(plain)


def words_of(options: str) -> list[str]:
    """The options as the agent's program gets them, each a word of its own."""
    return options.split()
