"""A world for the histories of one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from django.db import transaction

from tests.db.stories import World
from tests.faults.layout import ROUNDS
from tests.protocol.agents import simulated
from tests.protocol.network import shadow_the_clock
from tests.protocol.story import Story, make_protocol_world

# A history is one transaction from its beginning to its end, and holds back what tests beside it wait for: events are
# told once no older transaction goes on, in any database of the server.
ALONE = pytest.mark.skipif(ROUNDS == 1, reason="histories disturb the tests beside them; `make faults` runs them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the histories of this folder in long runs only."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(ALONE)


Telling = Callable[..., AbstractContextManager[Story]]


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
