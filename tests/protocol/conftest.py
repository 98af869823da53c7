"""A world for the histories of one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections, transaction
from environ import Env
from pytest_django import DjangoDbBlocker

from muster.local.postgres import NOT_DURABLE
from muster.local.services import start_services
from tests.db.stories import World
from tests.embedded import further_home
from tests.protocol.agents import simulated
from tests.protocol.network import shadow_the_clock
from tests.protocol.story import Story, make_protocol_world

Telling = Callable[..., AbstractContextManager[Story]]


@pytest.fixture(scope="session")
def _own_postgres(worker_id: str) -> Iterator[str]:
    """A Postgres server for histories alone.

    A history is one transaction from its beginning to its end, and events are told once no older transaction goes on,
    in any database of the server. So histories would hold back what tests beside them wait for.
    """
    redis_url = {"REDIS_URL": settings.REDIS_URL}  # nothing of a history is published: it is never committed
    with start_services(further_home(worker_id), environ=redis_url, postgres_settings=NOT_DURABLE) as services:
        yield services.owner_url


@pytest.fixture(scope="module")
def django_db_setup(_own_postgres: str, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Has the tests of one file use the server of their own, and those after it the worker's database again."""
    link = connections["default"]
    usual = dict(link.settings_dict)
    link.close()
    link.settings_dict.update(Env.db_url_config(_own_postgres))
    try:
        with django_db_blocker.unblock():
            call_command("migrate", verbosity=0)
        yield
    finally:
        link.close()
        link.settings_dict.update(usual)


@pytest.fixture
def telling(db: None, tmp_path: Path) -> Iterator[Telling]:
    """Begins a history of a fresh cluster; nothing of it is left when the block ends."""
    shadow_the_clock()  # first: a table with rows that are new cannot be altered
    world: World = make_protocol_world()
    told: list[Story] = []

    @contextmanager
    def tell(rates: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)) -> Iterator[Story]:
        with transaction.atomic():
            story = Story.__new__(Story)
            told[:] = [story]
            story.__init__(world, tmp_path, rates)  # type: ignore[misc]
            try:
                yield story
            finally:
                for server in story.servers:
                    for run in [server.run, *(run for _, run in server.copies)]:
                        if run is not None:
                            run.kill()
                transaction.set_rollback(True)

    with simulated(lambda: told[-1].kernel):
        yield tell
