"""Signals that come in twos and threes, at any moment, or to another thread than the main one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from tests.agent.conftest import ROOT

WAITER = """
import signal, threading
from nodeagent.system.signals import call_on_signals

come, over = threading.Event(), threading.Event()
call_on_signals(
    (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT),
    lambda number: (over if number == signal.SIGINT else come).set(),
)
print("waits", flush=True)
times = 0
while not over.is_set():
    times += come.wait(0.0005)
    come.clear()
print(times)
"""

MISSED = """
import queue, signal, threading
from nodeagent.system.signals import call_on_signals

come = queue.SimpleQueue()
call_on_signals((signal.SIGTERM,), come.put)
# By then the main thread waits.
threading.Timer(0.3, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
print(come.get(timeout=60))
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


def test_a_signal_that_does_not_interrupt_the_main_thread_is_not_missed() -> None:
    said = subprocess.run(
        [sys.executable, "-c", MISSED], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert int(said) == signal.SIGTERM
