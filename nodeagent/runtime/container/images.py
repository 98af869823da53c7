"""Pulling images: how far one is, said now and then, and what kind of problem stopped it. Pure."""

from __future__ import annotations

import base64
import enum
import re
from typing import Any, Dict, Mapping, Optional, Pattern, Tuple

from nodeagent.protocol.messages import EndReason, RegistryLogin

_SAY_EVERY_S = 5.0
_STEP_PERCENT = 10
# What a Docker Engine says of a layer that it has, and of no layer at all though it gives a name.
_ARRIVED = ("Download complete", "Extracting", "Pull complete", "Already exists")
_WAITING = "Waiting"
_OF_THE_WHOLE = "Pulling from "

_STATUS = r"\b(?:http|code|status(?: ?code)?)\W{1,3}"
# Looked for in this order: a refusal may say that something was not found, and a full disk closes connections.
_SIGNS: Tuple[Tuple[EndReason, Pattern[str]], ...] = (
    (EndReason.IMAGE_NO_SPACE, re.compile(r"\bno space left on device\b|\bdisk quota exceeded\b")),
    # Nothing was asked of the image: who it is about was not found, or did not answer.
    (EndReason.IMAGE_UNREACHABLE, re.compile(r"\bno such host\b|\bdial tcp\b")),
    (
        EndReason.IMAGE_DENIED,
        re.compile(
            r"\b(?:unauthorized|denied|forbidden|authentication required|no basic auth credentials)\b"
            r"|\binvalid username/password\b|" + _STATUS + r"40[13]\b"
        ),
    ),
    (
        EndReason.IMAGE_NOT_FOUND,
        re.compile(
            r"\b(?:manifest|name) unknown\b|(?<!\bfile )(?<!\bhost )\bnot found\b|\bno such image\b"
            r"|\binvalid reference\b|" + _STATUS + r"404\b"
        ),
    ),
)
# What says nothing of the kind of a problem, whatever words it is made of: places, and content by its digest.
_NAMES = re.compile(r"\b[a-z0-9+]+:[0-9a-f]{16,}\b|\b[0-9a-f]{12,}\b|\b[a-z]+://\S+|(?<![\w/])/[\w./@:+-]+")
# A file of this machine that may not be written; a registry says it after a word of its own.
_LOCAL = re.compile(r"(?<!\bdenied: )\bpermission denied\b")


def problem_of(text: str, image: str) -> EndReason:
    """The class of a failed pull by what the engine said; what is not known counts as a registry out of reach.

    Anybody names images, so words in the name of this one, in addresses and in digests say nothing.
    """
    said = text.lower()
    for name in _names_of(image):
        said = re.sub(r"(?<![\w.-]){}(?![\w-])".format(re.escape(name)), " ", said)
    said = _LOCAL.sub(" ", _NAMES.sub(" ", said))
    return next((reason for reason, sign in _SIGNS if sign.search(said)), EndReason.IMAGE_UNREACHABLE)


def _names_of(image: str) -> Tuple[str, ...]:
    """Names of an image in engines and registries, longest first: with and without registry and tag, and its tag."""
    names = set()
    for whole in (image.lower(), qualified(image).lower()):
        name = whole.partition("@")[0]
        head, slash, last = name.rpartition("/")
        repository, _, tag = last.partition(":")
        repository = head + slash + repository
        path = repository.partition("/")[2]
        names |= {whole, name, repository, path, tag, path.partition("library/")[2], registry_of(image)}
    return tuple(sorted(names - {""}, key=len, reverse=True))


def qualified(image: str) -> str:
    """The full name of an image, as Docker reads a short one."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return "docker.io/" + image if slash else "docker.io/library/" + image


def registry_of(image: str) -> str:
    """The registry that an image is of, such as `docker.io`. As `muster.tenants.registries` reads it."""
    host = qualified(image).partition("/")[0].lower()
    return "docker.io" if host == "index.docker.io" else host


def host_of(image: str) -> str:
    """The host of an image's registry: whatever its port, it is one machine that answers or does not."""
    registry = registry_of(image)
    host, _, port = registry.rpartition(":")
    return host if host and port.isdigit() else registry


def basic(login: RegistryLogin) -> str:
    """User and password in the one word that registries take."""
    return base64.b64encode("{}:{}".format(login.username, login.password).encode()).decode()


def without_secret(text: str, login: Optional[RegistryLogin]) -> str:
    """The text, should an engine or a registry have put the password into it, without that."""
    if login is None:
        return text
    for secret in (basic(login), login.password):
        text = text.replace(secret, "…")
    return text


class Doing(enum.Enum):
    """Phases of a pull."""

    FETCHING = "fetching"
    UNPACKING = "unpacking"
    """The engine is at work by itself, and nothing is to come from the registry."""
    HELD_UP = "held up"
    """The engine has not begun with the remaining layers: it limits how many layers it fetches at once."""


class Progress:
    """The progress of a pull, from the lines of a Docker Engine's stream."""

    def __init__(self, image: str, began_at: float) -> None:
        self._image = image
        self._began_at = began_at
        self._said_at = began_at
        self._said_percent = 0
        self._layers: Dict[str, Tuple[int, int]] = {}
        self._statuses: Dict[str, str] = {}
        self._handled: Dict[Tuple[str, str], int] = {}
        self.moved = 0
        """Bytes fetched or unpacked; bytes that come again count again only beyond the earlier position."""

    @property
    def doing(self) -> Doing:
        """The phase of the pull, as far as the engine reports it."""
        awaited = [status for status in self._statuses.values() if status not in _ARRIVED]
        if not awaited:
            return Doing.UNPACKING if self._statuses else Doing.FETCHING
        return Doing.HELD_UP if all(status == _WAITING for status in awaited) else Doing.FETCHING

    def begun(self) -> str:
        """The first message about the pull."""
        return "pulling {}".format(self._image)

    def take(self, line: Mapping[str, Any], now: float) -> Optional[str]:
        """The message after a line of the stream, or None: not too often, and every ten percent."""
        layer, detail = str(line.get("id", "")), line.get("progressDetail") or {}
        if layer and not str(line.get("status", "")).startswith(_OF_THE_WHOLE):
            self._take_layer(layer, str(line.get("status")), int(detail.get("current") or 0))
        if line.get("status") == "Downloading" and detail.get("total"):
            self._layers[layer] = (int(detail.get("current", 0)), int(detail["total"]))
        elif line.get("status") == "Download complete" and layer in self._layers:
            total = self._layers[layer][1]
            self._layers[layer] = (total, total)
        done = sum(current for current, _ in self._layers.values())
        total = sum(size for _, size in self._layers.values())
        percent = 100 * done // total if total else 0
        if now - self._said_at < _SAY_EVERY_S or percent - self._said_percent < _STEP_PERCENT:
            return None
        self._said_at, self._said_percent = now, percent
        return "pulling {}: {} % of {:.1f} MiB".format(self._image, percent, total / (1 << 20))

    def _take_layer(self, layer: str, status: str, current: int) -> None:
        self._statuses[layer] = status
        before = self._handled.get((layer, status), 0)
        if current > before:
            self._handled[layer, status] = current
            self.moved += current - before

    def ended(self, now: float) -> str:
        """The last message about the pull."""
        return "pulled {} in {:.0f} s".format(self._image, now - self._began_at)
