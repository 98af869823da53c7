"""The deadlines that end a job, the same in every runtime: its time limit, and a lease that is not renewed."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable

from nodeagent.protocol.messages import EndReason, OnDisconnect
from nodeagent.runtime.port import Phase
from nodeagent.runtime.process import runtime as process_runtime
from nodeagent.runtime.process.runtime import ProcessRuntime
from nodeagent.runtime.shim import tree
from nodeagent.system import clock
from tests.agent.conftest import KeptForker, RuntimeUnderTest, is_alive
from tests.waiting import eventually

# How long a lease lasts that is to run out, or not to: longer than a busy machine keeps a test from renewing it.
LEASE_S = 2.0


def test_the_signal_comes_at_the_time_limit_and_the_kill_after_the_grace(under_test: RuntimeUnderTest) -> None:
    command = "trap 'echo warned' TERM; echo ready; while true; do sleep 0.02; done"
    grace_s, limit_s = 1.0, 2.0
    number = under_test.start(command, time_limit_s=1000.0, grace_s=grace_s)
    under_test.printed(number, b"ready")
    began = clock.boottime()
    under_test.runtime.limit(number, limit_s)
    under_test.printed(number, b"warned")
    warned_s = clock.boottime() - began
    status = under_test.exit(number)
    assert status.reason is EndReason.TIME_LIMIT
    assert status.signal == signal.SIGKILL
    assert under_test.output(number).count(b"warned") == 1
    assert limit_s <= warned_s
    assert limit_s + grace_s <= clock.boottime() - began


def test_the_time_limit_of_the_spec_holds(under_test: RuntimeUnderTest) -> None:
    began = clock.boottime()
    status, _ = under_test.run("sleep 1000", time_limit_s=1.0)
    assert status.reason is EndReason.TIME_LIMIT
    assert clock.boottime() - began >= 1.0


def test_a_job_stops_itself_when_the_lease_runs_out_without_its_agent(under_test: RuntimeUnderTest) -> None:
    command = "trap '' TERM; echo ready; while true; do sleep 0.02; done"
    number = under_test.start(command, stop_after_s=LEASE_S, grace_s=0.2)
    under_test.renewing(lambda: b"ready" in under_test.output(number), "its output", LEASE_S)
    under_test.runtime.close()
    status = under_test.exit(number)
    assert (status.reason, status.signal) == (EndReason.AGENT_STOPPED, signal.SIGKILL)
    under_test.restart()


def test_a_renewed_lease_lets_a_job_go_on(under_test: RuntimeUnderTest) -> None:
    number = under_test.start(f"sleep {LEASE_S + 1}; exit 4", stop_after_s=LEASE_S)
    status = under_test.renewing(lambda: under_test.runtime.observe(number).exit, "an exit", LEASE_S)
    assert (status.reason, status.exit_code) == (EndReason.EXIT_NONZERO, 4)


def test_a_lease_of_another_agent_in_its_place_keeps_no_job(
    under_test: RuntimeUnderTest, forkers: Callable[[str], KeptForker], seconds: str
) -> None:
    number = under_test.start(f"sleep {seconds} & sleep {seconds}", stop_after_s=LEASE_S, grace_s=0.2)
    under_test.renewing(
        lambda: is_alive(seconds) and under_test.runtime.observe(number).phase is Phase.RUNNING, "the job runs", LEASE_S
    )
    shim = under_test.shim(number)
    under_test.runtime.close()
    taken = under_test.state.with_name("taken")
    under_test.state.rename(taken)
    # Its agent is of the kind that looks at no container that it may have left.
    other = ProcessRuntime(str(under_test.state), lambda _id, _kind: None, forker=forkers(process_runtime.JOBS))

    def has_ended() -> bool:
        other.renew(clock.boottime(), 1000.0)
        return tree.read_process(shim) is None

    eventually(has_ended, "the shim ends", within_s=20.0)
    assert not is_alive(seconds)
    assert other.allocations() == ()
    other.close()
    shutil.rmtree(under_test.state)
    taken.rename(under_test.state)
    under_test.restart()


def test_a_job_that_is_kept_needs_no_lease(under_test: RuntimeUnderTest) -> None:
    under_test.runtime.renew(clock.boottime() - 100, 0.1)
    status, _ = under_test.run("exit 4", stop_after_s=0.1, on_disconnect=OnDisconnect.KEEP)
    assert status.exit_code == 4
