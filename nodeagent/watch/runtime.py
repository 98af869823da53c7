"""Watches whether what the node offers is still what its agent has told the platform."""

from __future__ import annotations

import threading

from nodeagent.protocol.messages import EXIT_REGISTER_AGAIN
from nodeagent.runtime.port import Runtime
from nodeagent.state.inbox import Post, Quit, Worker

LOOK_EVERY_S = 30.0


class RuntimeWatch(Worker):
    """Has the agent start anew, and so register again, once the runtime tells of a change. Jobs go on meanwhile."""

    def __init__(self, runtime: Runtime, *, post: Post, stopping: threading.Event) -> None:
        super().__init__(post, stopping)
        self._runtime = runtime

    def turn(self) -> None:
        """Look for a change, and wait for the end of this run once there is one."""
        change = "" if self._stopping.wait(LOOK_EVERY_S) else self._runtime.change()
        if change:
            self._post(Quit(EXIT_REGISTER_AGAIN, "what this node offers has changed: " + change))
            self._stopping.wait()
