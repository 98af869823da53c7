"""The whole agent as a process, against a platform that checks every message."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from nodeagent.protocol.messages import MAX_TAIL_BYTES, CodeRef, EndReason, Timers
from nodeagent.runtime.shim.tree import all_processes
from nodeagent.system import clock
from tests import hostile
from tests.agent.conftest import AgentProcess
from tests.agent.fake_platform import TIMERS, Allocation, FakePlatform
from tests.waiting import eventually


def finished(platform: FakePlatform, allocation_id: int, within_s: float = 10.0) -> Allocation:
    """The allocation, once its end and its log are known."""
    allocation = platform.allocations[allocation_id]
    eventually(lambda: allocation.end and allocation.finish, f"the end of {allocation_id}", within_s)
    return allocation


def logged(platform: FakePlatform, allocation_id: int, text: str) -> Allocation:
    allocation = platform.allocations[allocation_id]
    eventually(lambda: text in allocation.text, f"{text!r} in the log")
    return allocation


def let_go(agent: AgentProcess, allocation_id: int) -> None:
    """Make the file that a job waits for."""
    (agent.allocation_folder(allocation_id) / "work" / "go").touch()


def archive(**files: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name.replace("__", "/"))
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content.encode()))
    return buffer.getvalue()


def test_it_runs_a_job_and_ships_its_log(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    allocation = finished(platform, platform.place("echo hello; exit 3"))
    assert allocation.text == "hello\n"
    assert allocation.end is not None
    assert (allocation.end.exit_code, allocation.end.reason) == (3, EndReason.EXIT_NONZERO)
    assert allocation.end.started
    assert allocation.finish is not None
    assert allocation.finish.sha256 == hashlib.sha256(b"hello\n").hexdigest()


def test_the_newest_of_the_log_comes_with_the_end_of_what_failed(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    write = "seq 1 40000; printf 'caf\\351 \\000 end'; exit 1"
    failed = finished(platform, platform.place(write), within_s=30)
    well = finished(platform, platform.place("echo hello"))
    assert failed.end is not None
    assert well.end is not None
    assert failed.end.tail.endswith("39999\n40000\ncaf\ufffd  end")
    assert len(failed.end.tail) == MAX_TAIL_BYTES - 1  # without the NUL
    assert well.end.tail == ""


def test_a_line_arrives_while_the_job_runs_and_it_is_reported_running(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.start()
    number = platform.place("echo ready; sleep 1000")
    allocation = logged(platform, number, "ready")
    eventually(lambda: "running" in allocation.observed, "a report")
    platform.stop(number)
    finished(platform, number)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_end_that_cannot_be_read_is_told_again_without_what_the_job_wrote(
    platform: FakePlatform, agent: AgentProcess, status: int
) -> None:
    agent.start()
    platform.fault("/end", status, times=2)
    number = platform.place('echo "{\\"step\\": 1, \\"loss\\": 2}" > "$MUSTER_METRICS"; echo words; exit 3')
    end = finished(platform, number).end
    assert end is not None
    assert (end.reason, end.exit_code) == (EndReason.EXIT_NONZERO, 3)
    assert (end.tail, end.points, end.detail) == ("", (), "")
    eventually(lambda: not agent.allocation_folder(number).exists(), "it is forgotten")
    assert platform.allocations[number].ends == 1


@pytest.mark.parametrize("status", [404, 409])
def test_an_end_that_nobody_wants_is_told_once(platform: FakePlatform, agent: AgentProcess, status: int) -> None:
    agent.start()
    platform.fault("/end", status, times=1000)
    number = platform.place("exit 3")
    eventually(lambda: platform.allocations[number].finish, "the end of its log")
    platform.forget(number)
    eventually(lambda: not agent.allocation_folder(number).exists(), "it is forgotten")
    assert sum(call.endswith("/end") for call in platform.calls) == 1


def test_a_stop_reaches_the_job(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("trap 'echo bye; exit 0' INT; echo ready; while true; do sleep 0.05; done")
    logged(platform, number, "ready")
    platform.stop(number, "INT", 5.0)
    assert "bye" in finished(platform, number).text


def test_a_stop_of_what_was_never_here_is_answered(platform: FakePlatform, agent: AgentProcess) -> None:
    number = platform.place("true")
    platform.stop(number)
    agent.start()
    allocation = platform.allocations[number]
    end = eventually(lambda: allocation.end, "an end")
    assert (end.reason, end.started) == (EndReason.NEVER_STARTED, False)


def test_a_job_gets_its_code(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    code = archive(run="echo from the code", data__x="y")
    sha256 = hashlib.sha256(code).hexdigest()
    platform.codes[sha256] = code
    number = platform.place("sh run; cat data/x", code=CodeRef(sha256, len(code)))
    assert finished(platform, number).text == "from the code\ny"


@pytest.mark.parametrize(
    ("code", "sha256", "size"),
    [
        (None, "0" * 64, 10),
        (archive(a="b"), "0" * 64, None),
        (archive(a="b"), None, 3),
        (archive(____="b", **{"..__x": "b"}), None, None),
        (b"no archive", None, None),
        (hostile.tar((hostile.deep(1200), b"")), None, None),
        (hostile.HEADERS["headers before headers"], None, None),
    ],
    ids=["missing", "another hash", "another size", "unsafe", "broken", "too deep", "too many headers"],
)
def test_code_that_cannot_be_had_ends_the_job(
    platform: FakePlatform, agent: AgentProcess, code: bytes | None, sha256: str | None, size: int | None
) -> None:
    agent.start()
    name = sha256 or hashlib.sha256(code or b"").hexdigest()
    if code is not None:
        platform.codes[name] = code
    number = platform.place("echo never", code=CodeRef(name, len(code or b"") if size is None else size))
    allocation = finished(platform, number)
    assert allocation.end is not None
    assert (allocation.end.reason, allocation.end.started) == (EndReason.CODE_UNAVAILABLE, False)
    assert allocation.text == ""
    assert finished(platform, platform.place("echo next")).text == "next\n"


BREAKS = """
import sys
from nodeagent.cli.main import main
from nodeagent.runtime.shim.folders import FolderRuntime
make = FolderRuntime._make_working_folder
def make_or_break(self, folder, workdir):
    if workdir == "breaks":
        raise OverflowError
    make(self, folder, workdir)
FolderRuntime._make_working_folder = make_or_break
sys.exit(main())
"""


def test_a_start_that_breaks_ends_its_job_and_nothing_else(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.program = [sys.executable, "-c", BREAKS]
    agent.start()
    number = platform.place("echo never", workdir="breaks")
    end = finished(platform, number).end
    assert end is not None
    assert (end.reason, end.started) == (EndReason.LAUNCH_FAILED, False)
    assert "the agent could not start it: OverflowError" in end.detail
    assert "Traceback" in agent.output.read_text()
    assert finished(platform, platform.place("echo next")).text == "next\n"


DEEP = """
import os
os.makedirs("wide/r", exist_ok=True)
os.symlink("/", "wide/link")
for level in range(3000):
    os.mkdir("d")
    os.chdir("d")
open("f", "w").close()
"""


def test_a_job_that_makes_folders_in_folders_takes_no_agent_along(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place(f"python3 -c '{DEEP}' && echo made")
    assert finished(platform, number).text == "made\n"
    root = agent.state / "allocations"
    eventually(lambda: list(root.iterdir()) == [], "the removal")
    assert finished(platform, platform.place("echo next")).text == "next\n"
    assert agent.end() == 0


def test_an_agent_starts_whatever_jobs_have_left(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("echo ready; sleep 1000")
    logged(platform, number, "ready")
    agent.kill()
    root = agent.state / "allocations"
    left = root / "9999.gone"
    left.mkdir()
    subprocess.run([sys.executable, "-c", DEEP], cwd=left, check=True)
    (root / "9998.gone").write_text("no folder")
    agent.start()
    eventually(lambda: not left.exists(), "the removal")
    assert finished(platform, platform.place("echo next")).text == "next\n"
    assert "9998.gone cannot be removed" in agent.output.read_text()
    platform.stop(number)
    finished(platform, number)


def test_what_the_platform_forgets_is_stopped_after_a_grace(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("echo ready; sleep 1000")
    logged(platform, number, "ready")
    platform.forget(number)
    eventually(lambda: not agent.allocation_folder(number).exists(), "the removal")


def test_it_forgets_what_is_over_and_no_longer_wanted(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("true")
    finished(platform, number)
    eventually(lambda: not agent.allocation_folder(number).exists(), "the removal")
    assert platform.allocations[number].ends == 1


def test_a_killed_agent_comes_back_adopts_and_the_log_is_exact(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("for i in $(seq 1 300); do echo line $i; sleep 0.005; done")
    logged(platform, number, "line 20\n")
    agent.kill()
    agent.start()
    allocation = finished(platform, number)
    assert allocation.text == "".join(f"line {i}\n" for i in range(1, 301))
    assert allocation.end is not None
    assert allocation.end.reason is EndReason.COMPLETED
    assert allocation.finish is not None
    assert (allocation.finish.holes, bool(allocation.finish.sha256)) == ((), True)


def test_what_failed_and_is_kept_is_told_by_each_agent_until_it_is_stopped(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.start()
    number = platform.place("echo hello; exit 3", keep_failed_s=600.0)
    reports = platform.allocations[number].kept_reports
    eventually(lambda: bool(reports), "the failure")
    agent.kill()
    reports.clear()
    agent.start()
    eventually(lambda: bool(reports), "the failure, as the next agent tells it")
    told = reports[-1]
    assert (told.reason, told.exit_code, told.detail) == (EndReason.EXIT_NONZERO, 3, "exit status 3")
    assert 0 < told.left_s <= 600
    assert platform.allocations[number].observed[-1] == "running"
    assert platform.allocations[number].end is None
    platform.stop(number, grace_s=600.0)
    allocation = finished(platform, number)
    assert allocation.end is not None
    assert (allocation.end.exit_code, allocation.end.reason) == (3, EndReason.EXIT_NONZERO)
    assert allocation.text == "hello\n"


def test_an_end_while_no_agent_ran_is_told_later(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("echo ready; until [ -e go ]; do sleep 0.05; done; exit 7")
    logged(platform, number, "ready")
    agent.kill()
    let_go(agent, number)
    eventually((agent.allocation_folder(number) / "exit").exists, "the exit")
    agent.start()
    end = finished(platform, number).end
    assert end is not None
    assert end.exit_code == 7


def test_an_intent_without_a_start_is_told_as_never_started(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    # The claim is answered and the intent written, but the code hangs; then the agent is killed.
    platform.fault("GET /agent/v1/code", 503, times=1000)
    number = platform.place("echo never", code=CodeRef("0" * 64, 10))
    eventually(lambda: any("/code/" in call for call in platform.calls), "the fetch")
    agent.kill()
    agent.start()
    end = finished(platform, number).end
    assert end is not None
    assert (end.reason, end.started) == (EndReason.NEVER_STARTED, False)


def test_an_outage_stops_no_job_and_loses_no_line(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    lines = "for i in $(seq $1 $2); do echo line $i; done"
    number = platform.place(f"f() {{ {lines}; }}; f 1 3; until [ -e go ]; do sleep 0.05; done; f 4 60")
    logged(platform, number, "line 3\n")
    platform.outage()
    let_go(agent, number)
    eventually((agent.allocation_folder(number) / "exit").exists, "the exit")
    platform.back()
    allocation = finished(platform, number)
    assert allocation.text == "".join(f"line {i}\n" for i in range(1, 61))
    assert allocation.end is not None
    assert allocation.end.exit_code == 0


def test_lost_and_cut_messages_change_nothing(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    for call in ("claim", "/log$", "/end", "log:finish"):
        platform.fault(call, "deaf")
        platform.fault(call, "cut")
        platform.fault(call, 503)
    number = platform.place("seq 1 20000; sleep 0.1; seq 1 20000")
    allocation = finished(platform, number)
    assert allocation.text == "".join(f"{i}\n" for i in range(1, 20001)) * 2
    assert allocation.ends >= 1


def test_the_end_of_a_job_and_of_its_log_are_one_message(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("true")
    finished(platform, number)
    said = [call for call in platform.calls if "sync" not in call and "beat" not in call]
    assert [call.rsplit("/")[-1] for call in said][-3:] == ["batch", "log:finish", "end"]


def test_without_an_answer_for_too_long_jobs_stop_themselves(tmp_path: Path) -> None:
    platform = FakePlatform(Timers(**{**TIMERS.to_dict(), "stop_after_s": 0.8}))
    agent = AgentProcess(platform, tmp_path / "state").start()
    number = platform.place("echo ready; sleep 1000", stop_after_s=0.8, grace_s=0.5)
    logged(platform, number, "ready")
    agent.kill()
    platform.outage()
    eventually((agent.allocation_folder(number) / "exit").exists, "the self-stop")
    platform.back()
    agent.start()
    end = finished(platform, number).end
    assert end is not None
    assert end.reason is EndReason.AGENT_STOPPED
    assert agent.end() == 0
    platform.outage()


def test_nothing_starts_before_the_lease_that_ran_out_is_renewed(tmp_path: Path) -> None:
    platform = FakePlatform(Timers(**{**TIMERS.to_dict(), "stop_after_s": 0.8}))
    agent = AgentProcess(platform, tmp_path / "state").start()
    platform.fault("/beat", "deaf", times=1000)
    silent_from = clock.boottime()
    eventually(lambda: clock.boottime() > silent_from + 1, "the lease has run out")
    # The other conversations go on, so the agent hears of a job that it may not start yet.
    number = platform.place("echo done", stop_after_s=0.8, grace_s=0.5)
    heard = len(platform.calls)
    eventually(lambda: sum("sync" in call for call in platform.calls[heard:]) > 0, "it has asked again")
    assert not any("claim" in call for call in platform.calls)
    with platform.lock:
        platform.faults.clear()
    allocation = finished(platform, number)
    assert allocation.end is not None
    assert (allocation.end.reason, allocation.text) == (EndReason.COMPLETED, "done\n")
    assert agent.end() == 0
    platform.outage()


def test_what_a_state_folder_knew_that_was_taken_away_starts_no_second_time_and_stops_by_itself(
    tmp_path: Path,
) -> None:
    platform = FakePlatform(Timers(**{**TIMERS.to_dict(), "stop_after_s": 1.5}))
    agent = AgentProcess(platform, tmp_path / "state").start()
    number = platform.place('echo "$$"; sleep 1000 & exec sleep 1000', stop_after_s=1.5, grace_s=0.3)
    allocation = platform.allocations[number]
    head = int(eventually(lambda: "\n" in allocation.text and allocation.text, "the job runs"))
    session = os.getsid(head)
    agent.kill()
    taken = tmp_path / "taken"
    agent.state.rename(taken)
    credential, platform.credential = platform.credential, ""  # an operator has made another token for the node
    agent.start()
    claims = sum(call.endswith(f"/{number}/claim") for call in platform.calls)
    assert finished(platform, platform.place("echo meanwhile")).text == "meanwhile\n"
    # The other agent renews its lease all the time, in a file at the very same path.
    eventually(lambda: not [one for one in all_processes().values() if one.session == session], "its processes end")
    platform.stop(number)
    assert finished(platform, platform.place("echo later")).text == "later\n"
    assert (sum(call.endswith(f"/{number}/claim") for call in platform.calls), allocation.ends) == (claims, 0)
    # The folder that comes back answers for what it has started.
    agent.kill()
    agent.state.rename(tmp_path / "other")
    taken.rename(agent.state)
    platform.credential = credential
    agent.start()
    end = finished(platform, number).end
    assert end is not None
    assert (end.reason, end.started) == (EndReason.UNKNOWN, True)
    assert agent.end() == 0
    platform.outage()
    assert platform.violations == []


def test_asked_to_end_it_ends_and_jobs_go_on(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("echo ready; sleep 1000")
    logged(platform, number, "ready")
    assert agent.end() == 0
    assert not (agent.allocation_folder(number) / "exit").exists()


def test_two_agents_do_not_share_a_state_folder(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    second = AgentProcess(platform, agent.state)
    second.launch()
    assert second.wait() == 1
    assert "another agent" in agent.output.read_text()


def test_the_time_limit_of_the_spec_holds_and_can_be_extended(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    limited = platform.place("sleep 1000", time_limit_s=0.5, grace_s=0.2)
    # The new limit must be heard of before the old one is over.
    extended = platform.place("sleep 5; echo done", time_limit_s=4.0, grace_s=0.1)
    with platform.changed:
        platform.allocations[extended].time_left_s = 100.0
        platform.bump()
    first, second = finished(platform, limited).end, finished(platform, extended).end
    assert first is not None
    assert second is not None
    assert (first.reason, second.reason) == (EndReason.TIME_LIMIT, EndReason.COMPLETED)


def test_readings_of_gpus_and_host_ride_on_the_sync(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    sync = eventually(lambda: next((sync for sync in platform.syncs if sync.gpus), None), "a sample")
    assert len(sync.gpus) == 3
    assert sync.host is not None
    assert sync.host.memory_used_mib


def test_a_gpu_fault_is_told(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    (agent.state / "emulated-faults").write_text('{"gpu": 2, "kind": "xid", "detail": "Xid 79"}\n')
    agent.kill()
    agent.start()
    event = eventually(lambda: next((event for sync in platform.syncs for event in sync.health), None), "the event")
    assert (event.kind, event.detail) == ("xid", "Xid 79")


def test_its_gpus_have_the_same_names_after_a_restart(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    assert platform.registered is not None
    before = platform.registered.inventory.gpus
    agent.kill()
    agent.start()
    assert platform.registered.inventory.gpus == before


def test_many_short_jobs_all_end_once_and_exactly(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    numbers = [platform.place(f"echo {i}; exit {i % 3}") for i in range(40)]
    for i, number in enumerate(numbers):
        allocation = finished(platform, number, within_s=30)
        assert allocation.end is not None
        assert (allocation.text, allocation.end.exit_code, allocation.ends) == (f"{i}\n", i % 3, 1)


def test_the_zipapp_runs_on_its_own(platform: FakePlatform, agent: AgentProcess, tmp_path: Path) -> None:
    from nodeagent.cli.build import build

    program = tmp_path / "muster-agent.pyz"
    build(str(program))
    assert os.access(program, os.X_OK)
    agent.program = [str(program)]
    agent.start()
    assert finished(platform, platform.place("echo zipped")).text == "zipped\n"
