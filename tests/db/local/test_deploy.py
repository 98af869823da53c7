"""Commands of a deployment: adding nodes from the command line, and asking whether a part works."""

from __future__ import annotations

from io import StringIO

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from muster.common.secrets import digest
from muster.dispatch import tasks
from muster.dispatch.config.plugins import SETTINGS
from muster.events.models import AuditEntry
from muster.fleet.leases import tick
from muster.fleet.models import Node, Pool, Tick
from muster.local import healthy
from muster.samples.tasks import roll_up_samples
from scheduler.presets import FIRST, preset_of
from tests.db.stories import let_pass
from tests.factories import make_node, make_pool


def add(*words: str) -> str:
    out = StringIO()
    call_command("add_node", *words, stdout=out, stderr=StringIO())
    return out.getvalue().strip()


@pytest.mark.django_db
def test_a_node_is_added_and_only_its_join_token_is_printed() -> None:
    make_pool("main")
    token = add("gpu1", "--pool", "main", "--address", "10.0.0.7", "--rack", "r1")
    node = Node.objects.get(name="gpu1")
    assert (node.pool.name, node.address, node.rack, node.join_digest) == ("main", "10.0.0.7", "r1", digest(token))
    assert token not in str(list(AuditEntry.objects.values()))


@pytest.mark.django_db
def test_a_pool_is_made_only_when_that_is_said() -> None:
    with pytest.raises(CommandError, match="no pool first; --new-pool"):
        add("gpu1", "--pool", "first")
    assert not Pool.objects.exists()
    add("gpu1", "--pool", "first", "--new-pool")
    assert preset_of({name: getattr(Pool.objects.get(), name) for name in SETTINGS}) == FIRST
    add("gpu2", "--pool", "first", "--new-pool")
    assert Pool.objects.get().nodes.count() == 2


@pytest.mark.django_db
def test_a_node_that_is_there_gets_a_fresh_token_only_when_that_is_said() -> None:
    pool = make_pool("main")
    node = make_node(pool, "gpu1")
    with pytest.raises(CommandError, match="--again"):
        add("gpu1", "--pool", "main")
    token = add("gpu1", "--pool", "main", "--again")
    node.refresh_from_db()
    assert node.join_digest == digest(token)
    with pytest.raises(CommandError, match="no node gpu2 in pool main"):
        add("gpu2", "--pool", "main", "--again")


@pytest.mark.django_db
def test_a_name_that_cannot_be_is_refused_and_leaves_no_pool_behind() -> None:
    with pytest.raises(CommandError, match="name"):
        add("GPU 1", "--pool", "main", "--new-pool")
    assert not Pool.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_part_is_healthy_while_it_does_its_rounds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = settings.DATABASES["default"]
    host, user = address["HOST"], f"{address['USER']}:{address['PASSWORD']}"
    url = f"postgres://{user}@/{connection.settings_dict['NAME']}?host={host}"
    monkeypatch.setenv("DATABASE_URL", url)
    assert healthy.main(["links"]) == 1
    assert "has not worked yet" in capsys.readouterr().err
    tick("links")
    assert healthy.main(["links"]) == 0
    let_pass(healthy.MAX_SILENCE_S["links"] + 1, Tick.objects.get(name="links"), "at")
    assert healthy.main(["links"]) == 1
    monkeypatch.setenv("DATABASE_URL", url.replace("host=", "host=/nowhere"))
    assert healthy.main(["links"]) == 1
    assert "cannot tell" in capsys.readouterr().err


@pytest.mark.django_db
def test_the_worker_default_says_that_it_works_when_it_sums_up() -> None:
    roll_up_samples()
    assert Tick.objects.filter(name="default").exists()


@pytest.mark.django_db
def test_the_timer_of_the_worker_schedule_says_that_it_works_after_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = tasks.SweepTimer()
    rounds: list[str] = []
    monkeypatch.setattr(tasks, "SWEEP_EVERY_S", 0.0)
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)
    monkeypatch.setattr(tasks, "sweep", lambda: rounds.append("sweep") or timer.stop())  # type: ignore[func-returns-value]
    timer.run()
    assert rounds == ["sweep"]
    assert Tick.objects.filter(name="schedule").exists()
