"""End of a shell whose job ends at the same moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn, cast

import pytest

from nodeagent.runtime.port import ShellEnding, ShellRequest
from nodeagent.runtime.shim.job import Job
from nodeagent.runtime.shim.leash import LeashedShell
from nodeagent.runtime.shim.shells import Shells
from tests.waiting import eventually

KILLED = 137
NOW = 1000.0


class Container:
    """A job whose shells end as an engine tells it when the kernel has killed what was in their container."""

    shells_linger_s = 0.0

    def __init__(self) -> None:
        self.exit_code = KILLED
        self.shell = 0

    def become_shell(self, _request: ShellRequest) -> NoReturn:
        os._exit(self.exit_code)

    def keep_status(self, pid: int) -> None:
        self.shell = pid

    def take_status(self, pid: int, *, wait: bool = False) -> int | None:
        ended, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
        return status if ended else None

    def members(self) -> list[int]:
        return []


class Told:
    """The shells of one job, of which one was opened and has ended, and not been looked at since."""

    def __init__(self, path: str, job: Container) -> None:
        self.shells = Shells(path, cast(Job, job))
        request = ShellRequest(id=1, command=("true",), terminal=False, term="dumb")
        with ThreadPoolExecutor(1) as asking:
            opened = asking.submit(LeashedShell, path, request)
            eventually(lambda: self.shells.serve() or opened.done(), "the shell")
            self._shell = opened.result()
        os.waitid(os.P_PID, job.shell, os.WEXITED | os.WNOWAIT)

    def after(self, act: Callable[[Shells], object]) -> ShellEnding | None:
        """The end that is told once this was done."""
        act(self.shells)
        return self._shell.ending()

    def close(self) -> None:
        self._shell.close()


@pytest.fixture
def job() -> Container:
    return Container()


@pytest.fixture
def told(tmp_path: Path, job: Container, request: pytest.FixtureRequest) -> Iterator[Told]:
    job.exit_code = getattr(request, "param", KILLED)
    made = Told(str(tmp_path / "shells"), job)
    yield made
    made.close()


def test_a_shell_that_was_killed_with_its_job_says_so_though_its_end_is_seen_first(told: Told) -> None:
    assert told.after(lambda shells: shells.look(NOW)) is None
    told.after(lambda shells: shells.end_all("the job has ended"))
    ending = told.after(lambda shells: shells.look(NOW))
    assert ending == ShellEnding(exit_code=KILLED, signal=None, detail="the job has ended")
    told.shells.close()


def test_one_whose_job_is_gone_at_once_says_so_too(told: Told) -> None:
    assert told.after(lambda shells: shells.look(NOW)) is None
    ending = told.after(lambda shells: shells.close())
    assert ending == ShellEnding(exit_code=KILLED, signal=None, detail="the job has ended")


def test_one_that_was_killed_while_its_job_goes_on_ends_by_itself(told: Told) -> None:
    assert told.after(lambda shells: shells.look(NOW)) is None
    ending = told.after(lambda shells: shells.look(NOW + 0.5))
    assert ending == ShellEnding(exit_code=KILLED, signal=None, detail="")
    told.shells.close()


@pytest.mark.parametrize("told", [5], indirect=True)
def test_one_that_ends_by_itself_waits_for_nothing(told: Told) -> None:
    ending = told.after(lambda shells: shells.look(NOW))
    assert ending == ShellEnding(exit_code=5, signal=None, detail="")
    told.shells.close()
