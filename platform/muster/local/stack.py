"""The platform on one machine: services, migrations, web, workers and links, under one supervisor."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from django.conf import settings
from django.core.management import call_command
from rich.console import Console

from muster.local import children, processes
from muster.local.children import Site
from muster.local.places import LocalError, agents_folder
from muster.local.services import Services, services_of_this_process
from muster.local.supervisor import Supervisor, Watch


class Steps:
    """Prints each part of a start when it is done, with the seconds since the part before."""

    def __init__(self, console: Console) -> None:
        self.console = console
        # Python, Django and the services come before this line: they count for the first part.
        self._last = (processes.start_ticks(os.getpid()) or 0) / os.sysconf("SC_CLK_TCK")

    def done(self, name: str, text: str) -> None:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        took, self._last = now - self._last, now
        self.console.print(
            f"[green]✓[/] [dim]{took:4.1f} s[/] [bold]{name:9}[/] {text}", highlight=False, soft_wrap=True
        )


@contextmanager
def running_stack(home: Path, *, port: int | None, steps: Steps) -> Iterator[tuple[Site, Supervisor]]:
    """The whole platform, ready to answer; all of it is stopped when the block ends, however it ends."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every question whether web is ready
    services = services_of_this_process()
    # An agent goes on with the jobs of one that was killed, which are below no process of this run.
    jobs_folder = agents_folder(home)
    watch = Watch(services.revive, services.pids, adopted=lambda: processes.users_of(jobs_folder, "nodeagent"))
    with (
        _ending_by_signals(),
        alone(home) as lock,
        Supervisor(home, say=lambda line: steps.console.print(f"  {line}", highlight=False), watch=watch) as supervisor,
    ):
        # The supervisor has ended what an earlier run left behind, which may have used the port.
        site = Site(home=home, port=children.choose_port(port), services=services.environment())
        _write(lock, f"{os.getpid()} {site.public_url}")
        steps.done("services", _described(services))
        Path(settings.STATIC_ROOT).mkdir(exist_ok=True)  # the finders serve the files; its absence is only warned about
        supervisor.prepare_forks(env=site.environment(), cwd=children.ROOT)
        call_command("migrate", interactive=False, verbosity=0)
        steps.done("database", "migrated")
        web = children.web(site)
        supervisor.start(web)
        for child in (
            children.schedule_worker(site),
            children.default_worker(site),
            children.links(site),
        ):
            supervisor.start(child)
        supervisor.wait_ready(web.name)
        steps.done("web", f"answers at {site.public_url}")
        steps.done("workers", f"schedule, default and links run; logs are in {home / 'log'}")
        try:
            yield site, supervisor
        finally:
            steps.console.print("\nStopping everything …", highlight=False)


@contextmanager
def alone(home: Path) -> Iterator[IO[str]]:
    """One supervisor a home; the lock file says who and where."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (home / "supervisor.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            pid, _, url = lock.read().partition(" ")
            raise LocalError(f"Muster runs on {home} already: process {pid}, {url}") from error
        yield lock
        _write(lock, "")


def _write(lock: IO[str], text: str) -> None:
    lock.seek(0)
    lock.truncate()
    lock.write(text)
    lock.flush()


@contextmanager
def _ending_by_signals() -> Iterator[None]:
    """SIGTERM, the terminal going away, and a SIGINT that a shell made ignored end the block as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _described(services: Services) -> str:
    places = services.places
    if places is None:
        return "those of DATABASE_URL and REDIS_URL"
    text = f"{' and '.join(services.embedded)} run on Unix sockets"
    if places.account is not None:
        text += f", as the account {places.account.name}"
    if not places.root.is_relative_to(places.home):
        text += f", in {places.root} (that account cannot enter {places.home})"
    return text
