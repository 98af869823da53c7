"""Children that die, daemonise, ignore signals or never get ready, under the real supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.local import processes, supervisor
from muster.local.children import choose_port
from muster.local.places import LocalError
from muster.local.supervisor import Child, Supervisor, Watch
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 20.0


class Said(list[str]):
    """The supervisor's reports."""

    def about(self, word: str) -> list[str]:
        return [line for line in self if word in line]


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def others() -> set[int]:
    """Processes below the test process already: the servers of this test run, which no supervisor may end."""
    return set(processes.descendants(os.getpid()))


@pytest.fixture
def running(tmp_path: Path, said: Said, others: set[int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """A supervisor that loses no time, and the check that nothing of its children is left after the test."""
    monkeypatch.setattr(supervisor, "FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(supervisor, "_TURN_S", 0.02)
    with Supervisor(tmp_path, say=said.append, watch=Watch(repair=list, owned=lambda: others)) as started:
        yield started
    assert set(processes.descendants(os.getpid())) <= others


def child(name: str, code: str, **options: object) -> Child:
    plain = Child(name, (sys.executable, "-c", textwrap.dedent(code)), env=dict(os.environ), cwd=Path("/"), grace_s=5.0)
    return replace(plain, **options)


def until(condition: Callable[[], object]) -> None:
    eventually(condition, within_s=PATIENCE_S)


SLEEP = "import time; time.sleep(600)"


def test_a_child_that_dies_is_started_again(running: Supervisor, said: Said, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    running.start(child("web", f"open({str(marks)!r}, 'a').write('x'); raise SystemExit(7)"))
    until(lambda: marks.exists() and len(marks.read_text()) >= 3)
    assert "exit status 7" in said.about("web")[0]


def test_the_delay_before_a_restart_doubles_up_to_its_limit(
    running: Supervisor, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MAX_DELAY_S", 0.04)
    running.start(child("web", "raise SystemExit(1)"))
    until(lambda: len(said) >= 4)
    assert [line.rsplit("in ", 1)[1] for line in said[:4]] == ["0.01 s", "0.02 s", "0.04 s", "0.04 s"]


def test_an_exit_status_that_is_final_ends_the_restarts(running: Supervisor, said: Said) -> None:
    running.start(child("agent", "raise SystemExit(3)", final=frozenset({3})))
    until(lambda: said.about("for good"))
    assert not said.about("again")


def test_a_child_that_never_gets_ready_shows_the_end_of_its_log(running: Supervisor) -> None:
    running.start(child("web", "print('the port is taken'); raise SystemExit(1)", ready=lambda: False))
    with pytest.raises(LocalError, match="the port is taken"):
        running.wait_ready("web")


def test_a_ready_child_is_waited_for(running: Supervisor, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    running.start(child("web", f"open({str(flag)!r}, 'w'); {SLEEP}", ready=flag.exists))
    running.wait_ready("web")
    assert flag.exists()


def test_grandchildren_that_daemonised_are_ended_too(running: Supervisor, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"""
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open({str(pid_file)!r} + ".new", "w").write(str(os.getpid()))
                os.rename({str(pid_file)!r} + ".new", {str(pid_file)!r})
                time.sleep(600)
            os._exit(0)
        time.sleep(600)
    """
    running.start(child("agent", code))
    until(pid_file.exists)
    running.stop()
    assert not processes.is_alive(int(pid_file.read_text()))


def test_a_child_that_ignores_the_signal_is_killed(running: Supervisor, said: Said, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    code = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(flag)!r}, 'w'); {SLEEP}"
    running.start(child("stubborn", code, grace_s=0.1))
    until(flag.exists)
    running.stop()
    assert said.about("killed")


def test_a_higher_stage_has_ended_before_a_lower_one_is_told(running: Supervisor, tmp_path: Path) -> None:
    order = tmp_path / "order"
    order.touch()
    code = """
        import pathlib, signal, sys, time
        def end(*_):
            time.sleep(0.1)
            with open({order!r}, "a") as file: file.write({name!r} + " ")
            sys.exit()
        signal.signal(signal.SIGTERM, end)
        pathlib.Path({order!r} + "." + {name!r}).touch()
        time.sleep(600)
    """
    for stage, name in ((1, "web"), (2, "worker"), (3, "agent")):
        running.start(child(name, textwrap.dedent(code).format(order=str(order), name=name), stage=stage))
        until((tmp_path / f"order.{name}").exists)
    running.stop()
    assert order.read_text().split() == ["agent", "worker", "web"]


def test_what_it_watches_is_repaired_and_reported(
    tmp_path: Path, said: Said, others: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_TURN_S", 0.01)
    monkeypatch.setattr(supervisor, "_SLOW_TURN_S", 0.01)
    answers = iter([LocalError("Postgres did not start")])

    def repair() -> list[str]:
        for error in answers:
            raise error
        return ["Postgres"]

    with Supervisor(tmp_path, say=said.append, watch=Watch(repair=repair, owned=lambda: others)):
        until(lambda: said.about("started again"))
    assert "Postgres did not start" in said[0]


def killed_supervisor(folder: Path, code: str, ready: Path) -> int:
    """Starts a supervisor of one child in another process and kills it; returns the process id of the child."""
    program = f"""
        import os, sys
        sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "platform")!r}]
        from pathlib import Path
        from muster.local.supervisor import Child, Supervisor
        with Supervisor(Path({str(folder)!r}), say=print) as running:
            running.start(Child("web", (sys.executable, "-c", {textwrap.dedent(code)!r}), env={{}}, cwd=Path("/")))
            print(running._runs["web"].process.pid, flush=True)
            running.wait()
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        pid = int(first.stdout.readline())
        until(ready.exists)
        first.kill()
    return pid


def test_the_children_of_a_supervisor_end_when_it_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    pid = killed_supervisor(tmp_path, f"open({str(ready)!r}, 'w'); {SLEEP}", ready)
    assert processes.wait_gone(pid, timeout_s=5.0)


def test_the_next_supervisor_ends_a_child_that_stayed_and_its_port_is_free(
    tmp_path: Path, said: Said, others: set[int]
) -> None:
    ready = tmp_path / "port"
    code = f"""
        import os, signal, socket, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        door = socket.create_server(("127.0.0.1", 0))
        open({str(ready)!r} + ".new", "w").write(str(door.getsockname()[1]))
        os.rename({str(ready)!r} + ".new", {str(ready)!r})
        time.sleep(600)
    """
    pid = killed_supervisor(tmp_path, code, ready)
    port = int(ready.read_text())
    with pytest.raises(LocalError, match="in use"):
        choose_port(port)
    with Supervisor(tmp_path, say=said.append, watch=Watch(repair=list, owned=lambda: others)):
        assert not processes.is_alive(pid)
        assert choose_port(port) == port
    assert said.about("left behind")


def test_the_next_supervisor_spares_what_a_child_has_started(tmp_path: Path, said: Said, others: set[int]) -> None:
    ready = tmp_path / "job"
    code = f"""
        import os, signal, subprocess, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        job = subprocess.Popen(["sleep", "600"], start_new_session=True)
        open({str(ready)!r} + ".new", "w").write(str(job.pid))
        os.rename({str(ready)!r} + ".new", {str(ready)!r})
        time.sleep(600)
    """
    killed_supervisor(tmp_path, code, ready)
    job = int(ready.read_text())
    with Supervisor(tmp_path, say=said.append, watch=Watch(repair=list, owned=lambda: others)):
        assert processes.is_alive(job)


def test_a_child_that_was_restarted_still_ends_in_the_order_of_the_stages(
    running: Supervisor, said: Said, tmp_path: Path
) -> None:
    """The thread of the supervisor has started it, and lives for as long as the child must."""
    marks, order = tmp_path / "marks", tmp_path / "order"
    code = f"""
        import pathlib, signal, sys, time
        marks = pathlib.Path({str(marks)!r})
        if not marks.exists():
            marks.touch()
            sys.exit(7)
        def end(*_):
            with open({str(order)!r}, "a") as file: file.write("web ")
            sys.exit()
        signal.signal(signal.SIGTERM, end)
        pathlib.Path({str(tmp_path / "ready")!r}).touch()
        time.sleep(600)
    """
    running.start(child("web", code, stage=1))
    until((tmp_path / "ready").exists)
    slow = f"""
        import pathlib, signal, sys, time
        def end(*_):
            time.sleep(0.3)
            with open({str(order)!r}, "a") as file: file.write("agent ")
            sys.exit()
        signal.signal(signal.SIGTERM, end)
        pathlib.Path({str(tmp_path / "agent")!r}).touch()
        time.sleep(600)
    """
    running.start(child("agent", slow, stage=3))
    until((tmp_path / "agent").exists)
    running.stop()
    assert order.read_text().split() == ["agent", "web"]


def test_a_log_that_has_grown_is_emptied_and_its_content_kept_once(
    running: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.start(child("web", f"print('x' * 5000, flush=True); {SLEEP}"))
    until(lambda: running.log_of("web").stat().st_size > 5000)
    monkeypatch.setattr(supervisor, "_LOG_LIMIT_BYTES", 4000)
    running._limit_log(running.log_of("web"))
    assert running.log_of("web").stat().st_size == 0
    assert "x" * 5000 in (tmp_path / "log" / "web.log.1").read_text()


def test_a_second_interrupt_cuts_the_patience_short(running: Supervisor, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)  # a shell's background job ignores it
    flag = tmp_path / "flag"
    # It does not end by itself within its ten minutes; it answers the first signal by interrupting its supervisor.
    code = f"""
        import os, pathlib, signal, time
        signal.signal(signal.SIGTERM, lambda *_: os.kill({os.getpid()}, signal.SIGINT))
        pathlib.Path({str(flag)!r}).touch()
        while True: time.sleep(600)
    """
    running.start(child("stubborn", code, grace_s=600.0))
    until(flag.exists)
    running.stop()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_program_is_found_by_a_file_that_it_has_open_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    code = f"import time; file = open({str(tmp_path / 'here' / 'lock')!r}, 'w'); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, "a-program"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert processes.users_of(tmp_path / "here", "a-program") == [process.pid]
            assert processes.users_of(tmp_path / "here", "another") == []
            assert processes.users_of(tmp_path / "her", "a-program") == []
        finally:
            process.kill()
