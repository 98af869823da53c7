"""The agent as the one file that is brought to servers, and the names that follow from what is in it."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nodeagent.build import build


@dataclass(frozen=True, slots=True)
class Package:
    """The file's content and its digest."""

    data: bytes
    sha256: str

    @property
    def name(self) -> str:
        """The file's name on a server. A new agent has a new name: the older one still reads its own file."""
        return f"agent-{self.sha256[:16]}.pyz"

    def tag(self, options: str) -> str:
        """What a daemon is known by that runs this file with these options."""
        return hashlib.sha256(f"{self.sha256}\n{options}".encode()).hexdigest()[:32]


@cache
def agent_package() -> Package:
    """The agent of this platform; the same in all of its processes, since the same sources make the same file."""
    with tempfile.TemporaryDirectory(prefix="muster-agent-") as folder:
        target = Path(folder) / "agent.pyz"
        build(str(target))
        data = target.read_bytes()
    return Package(data, hashlib.sha256(data).hexdigest())
