"""The agent as one file: what is brought to servers over SSH and offered for download."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from muster.settings.env import is_loopback
from nodeagent.cli.build import build

DOWNLOAD_NAME = "muster-agent.pyz"


@dataclass(frozen=True, slots=True)
class Package:
    data: bytes
    sha256: str

    @property
    def name(self) -> str:
        """The file's name on a server. A new agent has a new name: the older one still reads its own file."""
        return f"agent-{self.sha256[:16]}.pyz"

    def tag(self, options: str) -> str:
        """The name of a daemon that runs this file with these options."""
        return hashlib.sha256(f"{self.sha256}\n{options}".encode()).hexdigest()[:32]


@cache
def agent_package() -> Package:
    """The agent of this platform; the same in all of its processes, since the same sources make the same file."""
    with tempfile.TemporaryDirectory(prefix="muster-agent-") as folder:
        target = Path(folder) / "agent.pyz"
        build(str(target))
        data = target.read_bytes()
    return Package(data, hashlib.sha256(data).hexdigest())


def install_commands() -> str:
    """Two lines for a root shell on a server: download and verify the agent; install it, join by a token, start."""
    url = settings.PUBLIC_URL
    checksum = f"{agent_package().sha256}  {DOWNLOAD_NAME}"
    return (
        f"curl -fsSLO {url}/downloads/{DOWNLOAD_NAME} && echo '{checksum}' | sha256sum --check\n"
        f"install -m 755 {DOWNLOAD_NAME} /usr/local/bin/muster-agent && muster-agent join {url} - --systemd"
        " && systemctl enable --now muster-agent"
    )


def unreachable_url_hint() -> str:
    """A hint for a MUSTER_URL that other machines cannot reach; empty if they can."""
    if not is_loopback(urlsplit(settings.PUBLIC_URL).hostname or ""):
        return ""
    return f"Other machines cannot reach {settings.PUBLIC_URL}: set MUSTER_URL to the platform's address and restart."
