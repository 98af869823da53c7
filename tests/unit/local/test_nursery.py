"""Processes that the nursery forks, under the real supervisor."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.local import processes, supervisor
from muster.local.children import ROOT, Site
from muster.local.supervisor import Child, Supervisor, Watch
from tests.waiting import eventually

# What a forked process says of itself, one line a start.
_TELLING = """
import json, os, sys, time
from pathlib import Path
from muster.celery import celery_app
celery_app.loader.import_default_modules()
telling = Path(sys.argv[1])
telling.touch()
told = {"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "mode": telling.stat().st_mode & 0o777,
        "name": __name__, "shared": "muster.asgi" in sys.modules,
        "schedules": "muster.dispatch.tasks" in sys.modules, "trains": "lightgbm" in sys.modules}
print("said on the log", flush=True)
with telling.open("a") as file:
    file.write(json.dumps(told) + "\\n")
time.sleep(600)
"""


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def running(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    monkeypatch.setattr(supervisor, "FIRST_DELAY_S", 0.01)
    others = set(processes.descendants(os.getpid()))
    with Supervisor(tmp_path, say=said.append, watch=Watch(repair=list, owned=lambda: others)) as started:
        yield started
    assert set(processes.descendants(os.getpid())) <= others


def test_a_forked_process_is_like_one_that_was_started_and_needs_no_nursery(
    running: Supervisor, said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "telling.py").write_text(_TELLING)
    path, told = tmp_path / "told", list[str]()
    services = {"DATABASE_URL": "postgres://absent@/none?host=/none", "REDIS_URL": "unix:///none"}
    env = Site(home=tmp_path, port=1, services=services).environment()
    env["PYTHONPATH"] += f":{tmp_path}"
    running.prepare_forks(env=env, cwd=ROOT)
    words = (sys.executable, "-m", "telling", str(path))

    def starts(count: int) -> dict[str, Any]:
        def found() -> bool:
            told[:] = path.read_text().splitlines() if path.exists() else []
            return len(told) >= count

        eventually(found, within_s=60)
        newest: dict[str, Any] = json.loads(told[-1])
        assert newest["parent"] == os.getpid()
        assert newest["session"] == newest["pid"]
        assert newest["mode"] == 0o600
        assert newest["name"] == "__main__"
        assert processes.command_line(newest["pid"]) == list(words)
        # The supervisor notes its children behind the start of one.
        eventually(lambda: set(map(int, json.loads((tmp_path / "children.json").read_text()))) == {newest["pid"]})
        return newest

    running.start(Child("telling", words, env=env, cwd=ROOT, umask=0o077, forked=True))
    first = starts(1)
    assert first["shared"]
    # Training has a process of its own, so that web and schedule hold no library for it.
    assert (first["schedules"], first["trains"]) == (True, False)
    assert "said on the log" in running.log_of("telling").read_text()
    os.kill(first["pid"], signal.SIGKILL)
    second = starts(2)
    assert second["shared"]
    assert "telling ended (signal SIGKILL)" in said[0]
    (nursery,) = [
        pid for pid in processes.descendants(os.getpid()) if "muster.local.nursery" in processes.command_line(pid)
    ]
    os.kill(nursery, signal.SIGKILL)
    assert processes.wait_gone(nursery, timeout_s=10)
    assert processes.is_alive(second["pid"])
    os.kill(second["pid"], signal.SIGKILL)
    assert not starts(3)["shared"]
