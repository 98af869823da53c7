"""Copies of the tree in which mutants are tried, and the services that their tests share."""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from tests.embedded import NOT_DURABLE, environment_of, needs_services, redis_url_of, start_services
from tests.mutants.catalogue import Mutant

ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 900
# A run of pytest has its own of these: it may be one of the tests' that starts this command.
_NOT_HANDED_ON = ("PYTEST_", "DJANGO_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
_TESTS_FAILED = 1
# Lines of a failed baseline.
_SHOWN = 30


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one mutant's tests."""

    mutant: Mutant
    seconds: float
    exit_status: int
    killed_by: str
    output: str
    """The last line that pytest printed."""

    @property
    def killed(self) -> bool:
        """True if a test failed; a file that cannot be imported or a test that is not found kills nothing."""
        return self.exit_status == _TESTS_FAILED and bool(self.killed_by)


class Workspace:
    """A copy of the tracked files, with a database and a Redis database of its own."""

    def __init__(self, root: Path, folder: Path, number: int, services: Mapping[str, str]) -> None:
        self.folder = folder / f"w{number}"
        _copy_tracked(root, self.folder)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_NOT_HANDED_ON)},
            "MUSTER_TEST_SERVICES": "0",
            # The virtual environment names the original tree; processes that tests start must find the copy first.
            "PYTHONPATH": f"{self.folder}{os.pathsep}{self.folder / 'platform'}",
        }
        if "PYTHONDONTWRITEBYTECODE" in os.environ:
            # To compile Django and all else in each run would take longer than most of the tests.
            self._environment["PYTHONPYCACHEPREFIX"] = str(folder / "pycache")
        if services:
            database = urlsplit(services["DATABASE_URL"])
            self._environment["DATABASE_URL"] = database._replace(path=f"{database.path}_w{number}").geturl()
            self._environment["REDIS_URL"] = redis_url_of(services["REDIS_URL"], f"gw{number}")
        self._database = ["--create-db"] if services else []

    def pytest(self, tests: Sequence[str], *options: str) -> tuple[int, str]:
        """The exit status and the output of the tests in this copy."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *self._database, *options, *tests]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, f"the tests took longer than {_TIMEOUT_S} s"
        if self._database:
            # A run that did not end by itself may leave rows behind.
            self._database = ["--reuse-db" if done.returncode in {0, _TESTS_FAILED} else "--create-db"]
        return done.returncode, done.stdout

    def judge(self, mutant: Mutant) -> Verdict:
        """Apply the mutant, run its tests, and take it back."""
        file = self.folder / mutant.file
        text = file.read_text()
        began = time.monotonic()
        file.write_text(mutant.applied_to(text))
        try:
            status, output = self.pytest(mutant.tests, "-x", "-rfE", "--tb=no")
        finally:
            file.write_text(text)
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
        last = (output.strip().splitlines() or [""])[-1]
        return Verdict(mutant, time.monotonic() - began, status, failed[1] if failed else "", last)


class Session:
    """The workspaces of one run of the command, and the services behind them."""

    def __init__(self, root: Path, mutants: Sequence[Mutant], *, jobs: int) -> None:
        self._root, self._mutants, self._jobs = root, mutants, min(jobs, len(mutants)) or 1
        self._began = time.monotonic()

    def __enter__(self) -> Session:
        # With this name a later run of pytest stops the services if this process is killed (tests/embedded.py).
        self._folder = Path(tempfile.mkdtemp(prefix=f"muster-tests-{os.getpid()}-"))
        self._folder.chmod(0o711)
        self._services = None
        environment: Mapping[str, str] = {}
        if needs_services([test for mutant in self._mutants for test in mutant.tests], start=ROOT):
            home = self._folder / "home"
            home.mkdir(mode=0o711)
            self._services = start_services(home, postgres_settings=NOT_DURABLE)
            environment = environment_of(self._services)
        self._free: queue.SimpleQueue[Workspace] = queue.SimpleQueue()
        self._workspaces = [Workspace(self._root, self._folder, number, environment) for number in range(self._jobs)]
        for workspace in self._workspaces:
            self._free.put(workspace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._services is not None:
            self._services.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def seconds(self) -> float:
        """Seconds since this session began."""
        return time.monotonic() - self._began

    def baseline(self) -> list[str]:
        """Reasons that the tests cannot judge the mutants: they fail, or a name finds no test that runs."""
        tests = sorted({test for mutant in self._mutants for test in mutant.tests})
        shares = [tests[number :: self._jobs] for number in range(self._jobs)]
        with ThreadPoolExecutor(self._jobs) as pool:
            runs = [
                pool.submit(workspace.pytest, share, "-rpfE", "--tb=line")
                for workspace, share in zip(self._workspaces, shares, strict=True)
                if share
            ]
        problems, passed = [], set[str]()
        for status, output in (run.result() for run in runs):
            if status:
                lines = [line for line in output.splitlines() if not line.startswith("PASSED ")]
                problems.append(
                    "\n".join([f"the tests fail without a mutant (exit status {status})", *lines[-_SHOWN:]])
                )
            passed |= set(re.findall(r"^PASSED (.+)$", output, re.MULTILINE))
        if not problems:
            problems = [f"{test} finds no test that runs here" for test in tests if not _finds(test, passed)]
        return problems

    def verdicts(self) -> Iterator[Verdict]:
        """The verdict on each mutant, as they come."""
        with ThreadPoolExecutor(self._jobs) as pool:
            for done in as_completed([pool.submit(self._judge, mutant) for mutant in self._mutants]):
                yield done.result()

    def _judge(self, mutant: Mutant) -> Verdict:
        workspace = self._free.get()
        try:
            return workspace.judge(mutant)
        finally:
            self._free.put(workspace)


def _finds(name: str, passed: set[str]) -> bool:
    """True if one of the tests that passed has this node id, or lies below it."""
    return any(test.rstrip() == name.rstrip() or test.startswith((f"{name}::", f"{name}[")) for test in passed)


def _copy_tracked(root: Path, folder: Path) -> None:
    """Copy the tracked files as they are in the tree now, committed or not."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        source = root / name
        if name and source.is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
