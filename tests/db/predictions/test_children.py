"""The child process of a training or a forward run: its limits, its turn, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from django.conf import LazySettings

from muster.events.models import Event, Outbox
from muster.predictions import children
from muster.predictions.children import Busy, ChildError, Limits, Stopped, attempt, in_child
from tests.db.predictions import working
from tests.waiting import eventually

BRIEFLY = Limits(run_s=30)


@pytest.fixture(autouse=True)
def _own_folder(settings: LazySettings, tmp_path: Path) -> None:
    settings.STATE_FOLDER = tmp_path


def test_a_child_answers_about_more_items_than_one_batch_holds() -> None:
    assert in_child(working.added, iter(range(2500)), limits=BRIEFLY) == sum(range(2500))


def test_a_child_is_nice_and_its_prints_do_not_spoil_the_answer() -> None:
    assert in_child(working.niceness, [], limits=BRIEFLY) == 19
    assert in_child(working.printing, [], limits=BRIEFLY) == "answered"


def test_a_child_that_fails_dies_takes_too_long_or_too_much_memory_says_so(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="ValueError: no such number"):
        in_child(working.failing, [], limits=BRIEFLY)
    with pytest.raises(ChildError, match="died, with status 7"):
        in_child(working.dying, range(100_000), limits=BRIEFLY)
    with pytest.raises(ChildError, match="longer than 1 s"):
        in_child(partial(working.sleeping, str(tmp_path / "pid")), [], limits=Limits(run_s=1))
    with pytest.raises(ChildError, match="MemoryError"):
        in_child(working.greedy, [], limits=Limits(run_s=30, max_bytes=300 << 20))


def test_one_child_runs_at_a_time_and_the_end_of_the_worker_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "_stopped", threading.Event())
    raised: list[Exception] = []

    def run() -> None:
        try:
            in_child(partial(working.sleeping, str(tmp_path / "pid")), [], limits=BRIEFLY)
        except Stopped as stopped:
            raised.append(stopped)

    thread = threading.Thread(target=run)
    thread.start()
    pid = int(eventually(lambda: _text(tmp_path / "pid")))
    with pytest.raises(Busy):
        in_child(working.added, [1], limits=BRIEFLY)
    children.stop()
    thread.join(10)
    assert len(raised) == 1
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(Stopped):
        in_child(working.added, [1], limits=BRIEFLY)


def test_a_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import django; from functools import partial; from pathlib import Path; django.setup();"
        "from django.conf import settings; from tests.db.predictions import working;"
        "from muster.predictions.children import Limits, in_child;"
        f"settings.STATE_FOLDER = Path({str(tmp_path)!r});"
        f"in_child(partial(working.sleeping, {str(tmp_path / 'pid')!r}), [], limits=Limits(run_s=60))"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", code], env=env)
    pid = int(eventually(lambda: _text(tmp_path / "pid"), within_s=30))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    eventually(lambda: not _runs(pid))


@pytest.mark.django_db
def test_operators_are_told_of_the_first_of_several_failures(settings: LazySettings) -> None:
    settings.OPERATORS_MAIL = ["root@site"]
    fails = partial(in_child, working.failing, [], limits=BRIEFLY)
    works = partial(in_child, working.added, [], limits=BRIEFLY)
    told = []
    for act in (fails, fails, works, fails):
        attempt("the training of a test", act)
        told.append(Event.objects.filter(kind="prediction.failed").count())
    assert told == [1, 1, 1, 2]
    assert Outbox.objects.filter(topic="mail").count() == 2
    assert not attempt("the training of a test", fails)
    assert attempt("the training of a test", works)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _runs(pid: int) -> bool:
    """Whether the process has not ended; what nobody has waited for is over as well."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
