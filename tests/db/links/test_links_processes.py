"""The processes by which servers over SSH are served: `manage.py links`, and a worker with the tasks of links."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from muster.celery import celery_app
from muster.events.models import Event
from muster.fleet.models import Node, NodeLease
from muster.links import link
from muster.links.keeper import _LOCK
from muster.links.models import LinkState, Server, Step
from muster.links.tasks import sweep
from tests.db.linked_site import WAIT_S, Site, until

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("server")]

ROOT = Path(__file__).resolve().parents[3]
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(site: Site, tmp_path: Path) -> Iterator[Start]:
    """Starts programs of the platform as processes of their own, with this test's database and web process."""
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    paths = os.pathsep.join([str(ROOT), str(ROOT / "platform")])
    environment = {**os.environ, "PYTHONPATH": paths, "DATABASE_URL": database, "MUSTER_WEB_URL": site.url}
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"log-{len(started)}").open("wb") as output:
            started.append(subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment, stderr=output))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def holders_of_the_lock() -> list[int]:
    """The connections to the database that keep the links, and those that would: the first has the lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT activity.pid FROM pg_stat_activity activity LEFT JOIN pg_locks held"
            " ON held.pid = activity.pid AND held.locktype = 'advisory' AND held.classid = 0 AND held.objid = %s"
            " WHERE activity.datname = current_database()"
            " AND (held.pid IS NOT NULL OR activity.query LIKE 'SELECT pg_try_advisory_lock%%')"
            " ORDER BY held.pid NULLS LAST",
            [_LOCK],
        )
        return [pid for (pid,) in cursor.fetchall()]


def test_of_two_processes_one_keeps_the_links_and_the_other_goes_on_in_its_place(site: Site, start: Start) -> None:
    site.add()
    until(site.install_once, "the agent is installed")
    first = start("manage.py", "links")
    site.until_ready()
    (holder,) = holders_of_the_lock()
    links = site.sshd.attached()
    second = start("manage.py", "links")
    until(lambda: len(holders_of_the_lock()) == 2, "the second has looked whether it is alone")
    assert (holders_of_the_lock()[0], site.sshd.attached()) == (holder, links)
    epoch = NodeLease.objects.get().epoch
    first.send_signal(signal.SIGTERM)
    assert first.wait(WAIT_S) == 0
    until(lambda: site.sshd.attached() and site.sshd.attached() != links, "the second has a link of its own")
    site.until_state(LinkState.UP)
    seen_at = NodeLease.objects.get().seen_at
    until(lambda: NodeLease.objects.get().seen_at > seen_at, "the agent's beats are answered")
    assert NodeLease.objects.get().epoch == epoch
    second.send_signal(signal.SIGINT)
    assert second.wait(WAIT_S) == 0
    assert len(site.sshd.agents()) == 1


def test_a_worker_brings_the_agent_when_it_is_asked_and_when_it_was_asked_in_vain(site: Site, start: Start) -> None:
    celery_app.control.purge()  # what other tests have asked for
    site.add()  # asks for it
    start("-m", "celery", "-A", "muster", "worker", "-Q", "default", "-P", "solo", "-l", "warning")
    until(lambda: site.server().step == Step.LINK, "the worker has installed the agent")
    (agent,) = site.sshd.agents()
    os.kill(agent, signal.SIGKILL)
    Server.objects.update(step=Step.INSTALL, state=LinkState.NOT_RUNNING)
    sweep()
    until(lambda: site.server().step == Step.LINK, "the worker has started the agent again")
    assert len(site.sshd.agents()) == 1
    assert site.server().tries == 0
    # A server whose install is not due is left alone.
    later = site.server().due_at
    Server.objects.update(step=Step.INSTALL, due_at=later.replace(year=later.year + 1))
    assert site.install_once() is False


def test_a_link_that_is_frozen_is_lost_and_another_takes_its_place(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PING_EVERY_S", 0.2)
    monkeypatch.setattr(link, "SILENT_AFTER_S", 2.0)
    monkeypatch.setattr(link, "STEADY_AFTER_S", 0.5)
    site.add()
    site.begin()
    site.until_ready()
    Server.objects.update(tries=3)
    until(lambda: site.server().tries == 0, "a link that holds forgets what failed before")
    (frozen,) = site.sshd.attached()
    os.kill(frozen, signal.SIGSTOP)
    until(lambda: [pid for pid in site.sshd.attached() if pid != frozen], "another link is there")
    site.until_state(LinkState.UP)
    told = [event.data["state"] for event in Event.objects.filter(kind="node.link").order_by("pk")]
    assert told == ["up", "lost", "up"]
    seen_at = NodeLease.objects.get().seen_at
    until(lambda: NodeLease.objects.get().seen_at > seen_at, "the agent's beats are answered")
    assert NodeLease.objects.get().epoch == 1
    assert Node.objects.get().health == "ready"
