"""Signals that come in twos and threes, at any moment, to a process that waits for an event."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from tests.agent.conftest import ROOT

WAITER = """
import signal, threading
from nodeagent.signals import call_on_signals

come, over = threading.Event(), threading.Event()
call_on_signals((signal.SIGTERM, signal.SIGUSR1), lambda _: come.set())
call_on_signals((signal.SIGINT,), lambda _: over.set())
print("waits", flush=True)
times = 0
while not over.is_set():
    times += come.wait(0.0005)
    come.clear()
print(times)
"""


def test_signals_at_any_moment_leave_an_event_usable() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as waiter:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "waits\n"
        end = time.monotonic() + 2
        while time.monotonic() < end and waiter.poll() is None:
            waiter.send_signal(signal.SIGTERM)
            waiter.send_signal(signal.SIGUSR1)
            time.sleep(0.0002)
        waiter.send_signal(signal.SIGINT)
        said, _ = waiter.communicate(timeout=10)
    assert waiter.returncode == 0
    assert int(said) > 10
