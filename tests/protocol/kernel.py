"""Time and threads of the simulated machines: one true clock, and every thread of an agent as a greenlet of its own.

Nothing runs beside anything else, and nothing waits for a real clock, so a history is the same each time it is told.
The agent's own code does not know: its waiting ends up here. (greenlet comes with playwright.)
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]

Act = Callable[[], Any]

_MIN_WAIT_S = 1e-6
"""No wait is shorter, as none is on a real clock: one that is lost in the rounding of `now` would stop the time."""


class Owner:
    """The owner of threads: one run of an agent. `rate` is how fast its machine's clocks go."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.alive = True
        self.threads: list[Thread] = []

    def end(self) -> None:
        """Stop all its threads where they are, except the caller's."""
        self.alive = False
        threads, self.threads = self.threads, []
        for thread in threads:
            if thread.green is not getcurrent() and not thread.green.dead:
                thread.turn += 1
                thread.green.throw(GreenletExit)


class Thread:
    """One thread, which runs until it waits."""

    def __init__(self, kernel: Kernel, owner: Owner, act: Act) -> None:
        self.kernel = kernel
        self.owner = owner
        self.turn = 0
        self.green = greenlet(lambda _: act(), parent=kernel.hub)

    def go_on(self, turn: int, value: Any) -> None:
        """Wake the thread if it still waits for this."""
        if turn != self.turn or self.green.dead or not self.owner.alive:
            return
        self.turn += 1
        before, self.kernel.current = self.kernel.current, self
        try:
            self.green.switch(value)
        finally:
            self.kernel.current = before


class Kernel:
    """The true time in seconds and what is to happen when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.hub = getcurrent()
        self.current: Thread | None = None
        self._numbers = itertools.count()
        self._plan: list[tuple[float, int, Act]] = []

    def at(self, when: float, act: Act) -> None:
        """Let something happen at a moment, from the hub."""
        heapq.heappush(self._plan, (max(when, self.now), next(self._numbers), act))

    def spawn(self, owner: Owner, act: Act, delay_s: float = 0.0) -> None:
        """Begin a thread."""
        thread = Thread(self, owner, act)
        owner.threads = [one for one in owner.threads if not one.green.dead] + [thread]
        self.at(self.now + delay_s / owner.rate, lambda: thread.go_on(0, None))

    def advance(self, seconds: float) -> None:
        """Let time pass, and what belongs to it happen."""
        until = self.now + seconds
        while self._plan and self._plan[0][0] <= until:
            self.now, _, act = heapq.heappop(self._plan)
            act()
        self.now = until

    def wait(self, timeout_s: float | None, wakers: list[Callable[[Any], None]] | None = None) -> Any:
        """Let the present thread wait for one of `wakers` to be called, or for the time; None for the time."""
        thread = self.current
        assert thread is not None
        if not thread.owner.alive:
            raise GreenletExit
        turn = thread.turn
        if wakers is not None:
            wakers.append(lambda value: self.at(self.now, lambda: thread.go_on(turn, value)))
        if timeout_s is not None:
            self.at(self.now + max(timeout_s, _MIN_WAIT_S) / thread.owner.rate, lambda: thread.go_on(turn, None))
        return self.hub.switch()


class Event:
    """A `threading.Event` of this kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._is_set = False
        self._wakers: list[Callable[[Any], None]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake(True)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set and (timeout is None or timeout > 0):
            self._kernel.wait(timeout, self._wakers)
        return self._is_set


class Inbox:
    """A `queue.SimpleQueue` of this kernel, for one reader; `Empty` is what it raises."""

    def __init__(self, kernel: Kernel, empty: type[Exception]) -> None:
        self._kernel = kernel
        self._empty = empty
        self._items: list[Any] = []
        self._wakers: list[Callable[[Any], None]] = []

    def put(self, item: Any) -> None:
        self._items.append(item)
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake(True)

    def get(self, timeout: float) -> Any:
        if not self._items and timeout > 0:
            self._kernel.wait(timeout, self._wakers)
        if not self._items:
            raise self._empty
        return self._items.pop(0)


class Pool:
    """A `WorkPool` of this kernel, with a thread for each task."""

    def __init__(self, kernel: Kernel, owner: Owner, failed: Callable[[BaseException], None]) -> None:
        self._kernel = kernel
        self._owner = owner
        self._failed = failed

    def submit(self, task: Act, delay_s: float = 0.0) -> None:
        def run() -> None:
            try:
                task()
            except GreenletExit:
                raise
            except BaseException as error:  # noqa: BLE001 (as in a WorkPool)
                self._failed(error)

        self._kernel.spawn(self._owner, run, delay_s)

    def close(self, timeout_s: float) -> None:
        """Abandon the rest."""
