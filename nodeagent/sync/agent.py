"""The resources that the parts of a running agent share."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from nodeagent.runtime.port import Runtime
from nodeagent.state.inbox import Post
from nodeagent.state.journal import Journal
from nodeagent.sync.session import Session
from nodeagent.transport.client import Client
from nodeagent.watch.sampler import Sampler


@dataclass(frozen=True)
class Agent:
    """One run of the agent. All of it may be used from any thread."""

    client: Client
    session: Session
    journal: Journal
    runtime: Runtime
    sampler: Sampler
    post: Post
    stopping: threading.Event
    asked: threading.Event
    """Set when something is to be reported soon."""

    def report_soon(self) -> None:
        """Have a report sent without waiting for the next one that is due."""
        self.asked.set()
