"""Watches whether what the node offers is still what its agent has told the platform."""

from __future__ import annotations

import threading
from typing import Callable

from nodeagent.protocol.messages import EXIT_REGISTER_AGAIN
from nodeagent.runtime.port import Runtime
from nodeagent.state.inbox import Quit

LOOK_EVERY_S = 30.0


class RuntimeWatch(threading.Thread):
    """Has the agent start anew, and so register again, once the runtime tells of a change. Jobs go on meanwhile."""

    def __init__(self, runtime: Runtime, *, post: Callable[[Quit], None], stopping: threading.Event) -> None:
        super().__init__(name="offers", daemon=True)
        self._runtime = runtime
        self._post = post
        self._stopping = stopping

    def run(self) -> None:
        """Look until there is a change, or the agent stops."""
        try:
            while not self._stopping.wait(LOOK_EVERY_S):
                change = self._runtime.change()
                if change:
                    self._post(Quit(EXIT_REGISTER_AGAIN, "what this node offers has changed: " + change))
                    return
        except BaseException as error:
            self._post(Quit(1, "{} broke: {!r}".format(self.name, error)))
            raise
