"""Duties of every runtime, tried with real processes. A new runtime joins by a parameter of `under_test`."""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent.disk.rules import Unit
from nodeagent.disk.walk import Walk, deleted
from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.port import EventKind, ExitStatus, Holdings, LaunchError, NotYet, Phase, StopCause, Watched
from nodeagent.runtime.shim import folders, meters, removal
from nodeagent.runtime.shim.commands import Platform
from nodeagent.system import clock
from tests.agent.conftest import KeptForker, RuntimeUnderTest, is_alive, runtime_under_test, stop_everything
from tests.waiting import eventually, stretched

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user")


# What is started at once: a container takes half a second of its own.
ENDS: list[tuple[str, int | None, int | None, EndReason]] = [
    ("true", 0, None, EndReason.COMPLETED),
    ("exit 3", 3, None, EndReason.EXIT_NONZERO),
    ("exit 255", 255, None, EndReason.EXIT_NONZERO),
    ("kill -SEGV $$", None, 11, EndReason.KILLED_BY_SIGNAL),
    ("kill -9 $$", None, 9, EndReason.KILLED_BY_SIGNAL),
    ("no-such-program --flag", 127, None, EndReason.COMMAND_NOT_FOUND),
    ("/no/such/program", 127, None, EndReason.COMMAND_NOT_FOUND),
]


def test_it_tells_how_a_command_ended(under_test: RuntimeUnderTest) -> None:
    numbers = [under_test.start(command) for command, *_ in ENDS]
    found = []
    for number, (command, *_) in zip(numbers, ENDS, strict=True):
        status = under_test.exit(number)
        assert status.started
        found.append((command, status.exit_code, status.signal, status.reason))
    assert found == ENDS


def test_it_names_the_command_that_does_not_exist(under_test: RuntimeUnderTest) -> None:
    commands = ["A=1 no-such-program --flag", "echo fine; no-such-program | cat >&2; exit 127"]
    for number in [under_test.start(command) for command in commands]:
        assert under_test.exit(number).detail == "command not found: no-such-program"


def test_it_tells_what_happens_as_it_happens(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo hello; sleep 0.1")
    heard = [under_test.events.get(timeout=stretched(20))]
    while heard[-1] != (number, EventKind.EXITED):
        heard.append(under_test.events.get(timeout=stretched(20)))
    assert heard[0] == (number, EventKind.RUNNING)
    assert (number, EventKind.LOG) in heard


def test_a_batch_script_finds_the_commands_and_another_job_does_not(
    under_test: RuntimeUnderTest, tmp_path: Path
) -> None:
    certificates = tmp_path / "ca.pem"
    certificates.write_text("certificates")
    under_test.runtime.platform = Platform("https://muster.example.org/", str(certificates))  # type: ignore[attr-defined]
    command = 'cat "$MUSTER_CA_FILE"; echo; echo $MUSTER_URL; test -x "$MUSTER_COMMANDS/muster-batch" && echo there'
    if not under_test.in_containers:  # the image of these tests has no Python
        command += '; PATH="$MUSTER_COMMANDS:$PATH" PYTHONHOME=/nowhere scontrol show hostnames "n[1-2]"'
    _, output = under_test.run(command, env={"MUSTER_BATCH": "{}", "MUSTER_URL": "http://another.example.org"})
    expected = b"certificates\nhttps://muster.example.org\nthere\n"
    assert output == expected + (b"" if under_test.in_containers else b"n1\nn2\n")
    _, output = under_test.run('echo "$MUSTER_PYTHON$MUSTER_COMMANDS$MUSTER_URL"; ls "$HOME/.muster-modules"')
    assert output == b"\nmuster_report.py\n"


def test_the_log_has_every_byte_of_both_streams_in_order(under_test: RuntimeUnderTest) -> None:
    status, output = under_test.run(r"for i in 1 2 3; do printf 'o%d\0\xff' $i; printf 'e%d\r\n' $i >&2; done")
    assert output == b"".join(b"o%d\0\xffe%d\r\n" % (i, i) for i in (1, 2, 3))
    assert status.log_size == len(output)


def test_a_large_binary_output_is_exact(under_test: RuntimeUnderTest) -> None:
    content = os.urandom(900_000)
    _, output = under_test.run("cat source", files={"source": content})
    assert output == content


def test_a_flood_is_bounded_and_never_makes_the_job_wait(under_test: RuntimeUnderTest) -> None:
    size = 8 << 20
    status, output = under_test.run(f"printf first; head -c {size - 9} /dev/zero; printf last")
    assert status.reason is EndReason.COMPLETED
    assert status.log_size == size
    assert output.startswith(b"first\0")
    assert output.endswith(b"last")
    assert len(output) <= 1 << 20
    first = 1 << 17  # an eighth of the spool
    start, _ = under_test.runtime.log(1).read(first, 1)
    assert start == size - (len(output) - first)


def test_what_a_command_leaves_behind_goes_with_it(under_test: RuntimeUnderTest, seconds: str) -> None:
    status, _ = under_test.run(f"setsid sleep {seconds} >/dev/null 2>&1 & exit 0")
    assert status.reason is EndReason.COMPLETED
    assert not is_alive(seconds)


def test_a_stop_reaches_every_process_also_after_setsid(under_test: RuntimeUnderTest, seconds: str) -> None:
    inner = b"trap 'echo inner got it; exit 0' TERM\necho ready\nwhile true; do sleep 0.05; done\n"
    command = f"trap 'exit 5' TERM; setsid sh ./inner.sh {seconds} & while true; do sleep 0.05; done"
    number = under_test.start(command, files={"inner.sh": inner})
    under_test.printed(number, b"ready")
    under_test.runtime.stop(number, "TERM", 5.0)
    status = under_test.exit(number)
    assert status.exit_code == 5
    assert b"inner got it" in under_test.output(number)
    assert not is_alive(seconds)


def test_a_process_may_use_its_grace_after_the_shell_is_gone(under_test: RuntimeUnderTest) -> None:
    inner = b"trap 'sleep 0.3; echo checkpoint; exit 0' TERM\necho ready\nwhile true; do sleep 0.05; done\n"
    number = under_test.start("sh inner.sh; echo never", files={"inner.sh": inner})
    under_test.printed(number, b"ready")
    under_test.runtime.stop(number, "TERM", 5.0)
    status = under_test.exit(number)
    assert status.signal == signal.SIGTERM
    assert under_test.output(number).endswith(b"checkpoint\n")


def test_what_ignores_the_stop_is_killed_after_the_grace(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("trap '' TERM; echo ready; while true; do sleep 0.05; done")
    under_test.printed(number, b"ready")
    began = clock.boottime()
    under_test.runtime.stop(number, "TERM", 0.3)
    status = under_test.exit(number)
    assert status.signal == signal.SIGKILL
    assert clock.boottime() - began >= 0.3


def test_the_stop_signal_is_the_one_that_was_asked_for(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("trap 'echo usr1; exit 9' USR1; echo ready; while true; do sleep 0.05; done")
    under_test.printed(number, b"ready")
    under_test.runtime.stop(number, "SIGUSR1", 5.0)
    assert under_test.exit(number).exit_code == 9


def test_a_stop_of_the_agents_own_ends_with_the_first_cause_that_it_had(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    under_test.printed(number, b"ready")
    under_test.runtime.stop(number, "TERM", 20.0, StopCause(EndReason.DISK_EXCEEDED, "900 MiB in work"))
    under_test.runtime.stop(number, "TERM", 20.0)
    under_test.runtime.stop(number, "TERM", 20.0, StopCause(EndReason.DISK_EXCEEDED, "something else"))
    status = under_test.exit(number)
    assert (status.reason, status.detail) == (EndReason.DISK_EXCEEDED, "900 MiB in work")
    assert status.exit_code == 0


@pytest.mark.parametrize("restarted", [False, True])
def test_a_stop_that_was_asked_for_gets_no_cause_from_a_later_one_of_the_agents_own(
    under_test: RuntimeUnderTest, restarted: bool
) -> None:
    number = under_test.start("trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done")
    under_test.printed(number, b"ready")
    under_test.runtime.stop(number, "TERM", 60.0)
    under_test.printed(number, b"asked")
    if restarted:
        under_test.restart()
        under_test.runtime.adopt(number)
    under_test.runtime.stop(number, "TERM", 0.0, StopCause(EndReason.DISK_EXCEEDED, "900 MiB in work"))
    status = under_test.exit(number)
    assert (status.reason, status.signal) == (EndReason.KILLED_BY_SIGNAL, signal.SIGKILL)


def test_what_an_allocation_holds_is_found_and_is_nothing_once_it_is_removed(under_test: RuntimeUnderTest) -> None:
    # The shell keeps the second file open, and no folder has it any more.
    number = under_test.start(
        "head -c 300000 /dev/urandom > a; head -c 200000 /dev/urandom > ~/b; exec 3< ~/b; rm ~/b; sync; echo ready;"
        "sleep 60"
    )
    under_test.printed(number, b"ready")
    held = under_test.runtime.holdings(number)
    device = under_test.state.stat().st_dev
    taken = {name: Walk(device, Unit.BYTES).count(path).amount for name, path in held.folders}
    assert list(taken)[:4] == ["work", "home", "tmp", "log"]
    assert 300_000 <= taken["work"] < 400_000
    assert taken["home"] < 150_000
    assert 200_000 <= deleted(held.pids, {device, *held.devices}, Unit.BYTES) < 300_000
    assert under_test.runtime.disks()[0] == str(under_test.state / "allocations")
    under_test.runtime.stop(number, "KILL", 0.0)
    under_test.exit(number)
    # The head tells the exit status, and ends after that.
    eventually(lambda: under_test.runtime.holdings(number).pids == (), "its head is gone")
    under_test.runtime.remove(number)
    assert [name for name, _ in under_test.runtime.holdings(number).folders] == ["what is removed"]
    under_test.runtime.clear()
    assert under_test.runtime.holdings(number) == Holdings()


def test_a_stop_before_the_start_means_never_started(under_test: RuntimeUnderTest) -> None:
    spec = under_test.spec("echo no")
    under_test.runtime.prepare(spec)
    under_test.runtime.stop(spec.allocation_id, "TERM", 1.0)
    under_test.runtime.launch(spec)
    status = under_test.exit(spec.allocation_id)
    assert (status.reason, status.started) == (EndReason.NEVER_STARTED, False)
    assert under_test.output(spec.allocation_id) == b""


def test_a_stop_just_after_the_start_is_not_lost(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("sleep 1000")
    assert under_test.events.get(timeout=stretched(20)) == (number, EventKind.RUNNING)
    under_test.runtime.stop(number, "TERM", 60.0)
    assert under_test.exit(number).signal == signal.SIGTERM


def test_a_new_agent_adopts_what_runs(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo before; sleep 60; echo after")
    under_test.printed(number, b"before")
    under_test.restart()
    assert under_test.runtime.allocations() == (number,)
    assert under_test.runtime.observe(number).phase is Phase.RUNNING
    assert under_test.runtime.spec(number) is not None
    assert under_test.runtime.adopt(number) is None
    under_test.runtime.stop(number, "TERM", 3.0)
    assert under_test.exit(number).signal == signal.SIGTERM


def test_a_new_agent_learns_that_a_stop_had_begun(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("trap '' TERM; echo ready; sleep 1000")
    under_test.printed(number, b"ready")
    under_test.runtime.stop(number, "INT", 60.0)
    under_test.restart()
    assert under_test.runtime.adopt(number) == ("INT", 60.0)


def test_an_exit_while_no_agent_ran_is_found(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("echo ready; exit 6")
    under_test.exit(number)
    under_test.restart()
    assert under_test.exit(number).exit_code == 6
    assert under_test.output(number) == b"ready\n"


def test_when_the_watcher_is_killed_its_job_is_gone_and_the_end_unknown(
    under_test: RuntimeUnderTest, seconds: str
) -> None:
    number = under_test.start(f"setsid sleep {seconds} & echo ready; wait")
    under_test.printed(number, b"ready")
    eventually(lambda: is_alive(seconds), "the sleeper")
    os.kill(under_test.shim(number), signal.SIGKILL)
    eventually(lambda: under_test.runtime.observe(number).phase is Phase.GONE)
    status = under_test.runtime.settle(number, ExitStatus(EndReason.UNKNOWN, detail="gone"))
    assert status.reason is EndReason.UNKNOWN
    assert not is_alive(seconds)
    assert under_test.runtime.observe(number).exit == status


def test_a_process_that_cannot_be_killed_is_not_over_yet(
    tmp_path: Path, forkers: Callable[[str], KeptForker], monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    # The kernel kills what is in a PID namespace with the shim, so the job has none.
    monkeypatch.setattr("nodeagent.runtime.process.runtime.namespaces_problem", lambda: "not in this test")
    made = runtime_under_test("process", tmp_path / "state", forkers)
    number = made.start(f"setsid sleep {seconds} & echo ready; wait")
    made.printed(number, b"ready")
    eventually(lambda: is_alive(seconds), "the sleeper")
    os.kill(made.shim(number), signal.SIGKILL)
    eventually(lambda: made.runtime.observe(number).phase is Phase.GONE)
    with monkeypatch.context() as stubborn:
        stubborn.setattr("nodeagent.runtime.process.runtime.tree.signal_all", lambda *_: None)
        stubborn.setattr("nodeagent.runtime.process.runtime._SWEEP_WAIT_S", 0.0)
        with pytest.raises(NotYet, match="cannot be killed"):
            made.runtime.settle(number, ExitStatus(EndReason.UNKNOWN))
        assert made.runtime.observe(number).phase is Phase.GONE
    assert made.runtime.settle(number, ExitStatus(EndReason.UNKNOWN)).reason is EndReason.UNKNOWN
    assert not is_alive(seconds)
    stop_everything(made.runtime)


def test_what_was_prepared_but_not_launched_is_absent_and_can_be_settled(under_test: RuntimeUnderTest) -> None:
    spec = under_test.spec("true")
    under_test.runtime.prepare(spec)
    assert under_test.runtime.observe(spec.allocation_id).phase is Phase.ABSENT
    under_test.runtime.settle(spec.allocation_id, ExitStatus(EndReason.NEVER_STARTED, started=False))
    # A launch that comes late finds the status and does nothing.
    under_test.runtime.launch(spec)
    assert under_test.exit(spec.allocation_id).reason is EndReason.NEVER_STARTED
    assert under_test.output(spec.allocation_id) == b""


def test_what_a_shim_watches_is_not_settled(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("mkfifo go; echo ready; cat go; exit 4")
    under_test.printed(number, b"ready")
    with pytest.raises(Watched):
        under_test.runtime.settle(number, ExitStatus(EndReason.UNKNOWN))
    assert under_test.runtime.observe(number).phase is Phase.RUNNING
    (under_test.folder(number) / "work" / "go").write_text("on")
    assert under_test.exit(number).exit_code == 4


def test_a_shim_that_comes_while_somebody_looks_is_not_taken_for_a_dead_one(
    under_test: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = under_test.spec("true")
    under_test.runtime.prepare(spec)
    folder = under_test.folder(spec.allocation_id)
    looks = 0

    def comes_at_the_second_look(path: str) -> ExitStatus | None:
        nonlocal looks
        looks += 1
        if looks == 2:
            with (folder / "lock").open("a") as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / "shim.json").write_text("{}")
        return None

    monkeypatch.setattr(folders, "read_exit", comes_at_the_second_look)
    assert under_test.runtime.observe(spec.allocation_id).phase is Phase.ABSENT
    assert looks == 2


def test_nothing_is_prepared_twice(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("true")
    under_test.exit(number)
    with pytest.raises(LaunchError):
        under_test.runtime.prepare(under_test.spec("true", allocation_id=number))


def test_a_removed_allocation_is_gone(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("mkdir -p a/b; touch a/b/c")
    under_test.exit(number)
    under_test.runtime.remove(number)
    assert under_test.runtime.allocations() == ()
    assert under_test.runtime.observe(number).phase is Phase.ABSENT
    assert under_test.runtime.adopt(number) is None
    under_test.runtime.clear()
    assert list((under_test.state / "allocations").iterdir()) == []


def test_what_an_earlier_run_left_half_removed_is_removed(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("mkdir -p a/b; touch a/b/c")
    under_test.exit(number)
    under_test.runtime.remove(number)
    under_test.restart()
    assert under_test.runtime.allocations() == ()
    under_test.runtime.clear()
    assert list((under_test.state / "allocations").iterdir()) == []


def test_what_takes_too_long_to_remove_is_left_for_the_next_clearing_and_goes_last(
    under_test: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = [under_test.start("true") for _ in range(3)]
    for number in numbers:
        under_test.exit(number)
        under_test.runtime.remove(number)
    gone = [str(under_test.state / "allocations" / f"{number}.gone") for number in numbers]
    tried: list[str] = []
    remove_tree = removal.remove_tree

    def endless(path: str) -> None:
        tried.append(path)
        if path in gone[:2]:
            remove_tree(path, 0.0)
        remove_tree(path)

    with monkeypatch.context() as context:
        context.setattr(folders, "remove_tree", endless)
        under_test.runtime.clear()
        assert sorted(tried) == sorted(gone)
        assert caplog.text.count("is not removed yet") == 2
        last = under_test.start("true")
        under_test.exit(last)
        under_test.runtime.remove(last)
        tried.clear()
        under_test.runtime.clear()
    assert tried[0].endswith(f"{last}.gone")
    assert sorted(tried[1:]) == sorted(gone[:2])
    under_test.runtime.clear()
    assert list((under_test.state / "allocations").iterdir()) == []


def test_what_cannot_be_removed_is_tried_once_by_each_run(
    under_test: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    number = under_test.start("true")
    under_test.exit(number)
    under_test.runtime.remove(number)
    with monkeypatch.context() as context:
        context.setattr(removal.os, "fchmod", refuse)
        under_test.runtime.clear()
        under_test.runtime.clear()
    assert caplog.text.count("cannot be removed") == 1
    under_test.restart()
    under_test.runtime.clear()
    assert list((under_test.state / "allocations").iterdir()) == []


def refuse(*_: object) -> None:
    raise PermissionError("not this one")


def test_the_environment_is_the_specs_and_the_agents_word_on_gpus_is_final(under_test: RuntimeUnderTest) -> None:
    env = {"FOO": "bar baz", "CUDA_VISIBLE_DEVICES": "0", "NVIDIA_VISIBLE_DEVICES": "all", "PYTHONUNBUFFERED": "0"}
    _, output = under_test.run("env", env=env, gpu_uuids=("GPU-a", "GPU-b"))
    found = dict(line.split("=", 1) for line in output.decode().splitlines())
    assert found["FOO"] == "bar baz"
    assert found["CUDA_VISIBLE_DEVICES"] == found["NVIDIA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert found["PYTHONUNBUFFERED"] == "0"


def test_a_job_without_gpus_sees_none(under_test: RuntimeUnderTest) -> None:
    _, output = under_test.run('echo "$NVIDIA_VISIBLE_DEVICES/$CUDA_VISIBLE_DEVICES/$PYTHONUNBUFFERED"')
    assert output == b"void//1\n"


def test_the_agents_own_environment_stays_with_it(
    under_test: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "secret")
    _, output = under_test.run("env")
    assert b"secret" not in output


def test_the_working_folder_is_the_jobs_own(under_test: RuntimeUnderTest) -> None:
    command = 'pwd; echo "$MUSTER_WORKDIR"; touch here "$HOME/h" "$TMPDIR/t"'
    below = {"/workspace": "", "sub/dir": "/sub/dir", "./a/": "/a"}
    numbers = {under_test.start(command, workdir=workdir): end for workdir, end in below.items()}
    for number, end in numbers.items():
        assert under_test.exit(number).exit_code == 0
        here, named = under_test.output(number).decode().splitlines()
        assert here == named == under_test.work(number) + end


def test_a_working_folder_outside_is_refused(under_test: RuntimeUnderTest) -> None:
    spec = under_test.spec("true", workdir="../../etc")
    under_test.runtime.prepare(spec)
    with pytest.raises(LaunchError, match="leads out"):
        under_test.runtime.launch(spec)


def test_files_that_were_put_into_the_prepared_folder_are_there(under_test: RuntimeUnderTest) -> None:
    spec = under_test.spec("cat data/x.txt")
    folder = Path(under_test.runtime.prepare(spec))
    (folder / "data").mkdir()
    (folder / "data" / "x.txt").write_text("content")
    under_test.runtime.launch(spec)
    under_test.exit(spec.allocation_id)
    assert under_test.output(spec.allocation_id) == b"content"


@AS_ROOT
def test_as_root_a_job_runs_as_its_user_and_owns_its_files(under_test: RuntimeUnderTest, tmp_path: Path) -> None:
    spec = under_test.spec(
        'id -u; id -g; id -G; echo x >> f.txt; cat f.txt; touch "$HOME/h"', uid=4321, gids=(7770, 7780)
    )
    folder = Path(under_test.runtime.prepare(spec))
    (folder / "f.txt").write_text("code\n")
    under_test.runtime.launch(spec)
    status = under_test.exit(spec.allocation_id)
    assert under_test.output(spec.allocation_id) == b"4321\n7770\n7770 7780\ncode\nx\n"
    assert status.exit_code == 0


@AS_ROOT
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"uid": None, "gids": ()}, "uid: none, and no job runs as root. An operator gives alice a uid in the admin"),
        ({"uid": None, "gids": (4321,)}, "uid: none"),
        ({"uid": 0, "gids": (4321,)}, "uid 0: it is root's. An operator gives alice another one"),
        ({"uid": 33, "gids": (4321,)}, "uid 33: numbers below 1000 belong to system accounts"),
        ({"uid": 65_534, "gids": ()}, "uid 65534: it is reserved"),
        ({"uid": 2**32 - 1, "gids": (4321,)}, "uid 4294967295: it is reserved"),
        ({"uid": 4321, "gids": (4321, 0)}, "gid 0: it is root's"),
        ({"uid": 4321, "gids": (42,)}, "gid 42: numbers below 1000 belong to system accounts"),
    ],
)
def test_as_root_no_job_runs_with_ids_of_the_system(
    under_test: RuntimeUnderTest, ids: dict[str, object], message: str
) -> None:
    spec = under_test.spec("id", **ids)
    for start in (under_test.runtime.prepare, under_test.runtime.launch):
        with pytest.raises(LaunchError, match=message) as caught:
            start(spec)
        assert caught.value.reason is EndReason.SPEC_REFUSED
    assert under_test.runtime.observe(spec.allocation_id).phase is Phase.ABSENT


@AS_ROOT
def test_as_root_no_job_has_a_privileged_group(under_test: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = grp.struct_group(("docker", "x", 5000, []))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: {5000: docker}[gid])
    with pytest.raises(LaunchError, match="gid 5000: the group docker has rights over the whole machine"):
        under_test.runtime.prepare(under_test.spec("id", gids=(4321, 5000)))


@AS_ROOT
def test_as_root_a_job_has_no_rights_but_its_users(under_test: RuntimeUnderTest, tmp_path: Path) -> None:
    secret = tmp_path / "secret_key"
    secret.write_text("the key of the platform")
    secret.chmod(0o600)
    _, output = under_test.run(f"cat /proc/self/status {secret}")
    lines = output.decode().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    assert status["Uid"].split() == status["Gid"].split() == ["4321"] * 4
    assert status["Groups"].split() == ["4321"]
    assert {int(status[f"Cap{name}"], 16) for name in ("Prm", "Eff", "Amb")} == {0}
    assert "the key of the platform" not in output.decode()


@AS_ROOT
def test_as_root_a_folder_is_the_users_only_when_all_in_it_is(
    under_test: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    def chown(path: str, *_: object, **__: object) -> None:
        given.append(path)

    spec = under_test.spec("true", uid=4321, gids=(7770,))
    work = Path(under_test.runtime.prepare(spec))
    (work / "a/b").mkdir(parents=True)
    (work / "a/b/c").touch()
    with monkeypatch.context() as context:
        context.setattr(folders.os, "chown", chown)
        folders._give(str(work), 4321, 7770)
    assert sorted(given) == [str(work / name) for name in ("", "a", "a/b", "a/b/c")]
    assert given[-1] == str(work)


@AS_ROOT
def test_a_users_job_can_touch_nothing_that_is_the_agents(under_test: RuntimeUnderTest, tmp_path: Path) -> None:
    tries = ["cat launch.json", "rm -r work", "echo y > exit", "echo y > ../../events", "echo safe"]
    command = 'cd "$MUSTER_ALLOCATION_DIR"; ' + " || ".join(tries)
    _, output = under_test.run(command, uid=4321, gids=(7770,))
    assert output.splitlines()[-1] == b"safe"


def test_usage_tells_of_processes_memory_and_processor_time(under_test: RuntimeUnderTest) -> None:
    number = under_test.start("while true; do :; done")
    under_test.runtime.usage()
    usage = eventually(lambda: (seen := under_test.runtime.usage().get(number)) and seen.cpu_fraction > 0.05 and seen)
    assert usage.processes == 1
    assert usage.rss_mib >= 1


def test_usage_tells_what_a_job_writes_and_what_the_kernel_keeps_for_it(under_test: RuntimeUnderTest) -> None:
    mib = 8
    number = under_test.start(f"dd if=/dev/zero of=it bs=1048576 count={mib} conv=fsync && echo written; sleep 1000")
    under_test.printed(number, b"written")
    usage = under_test.runtime.usage()[number]
    if under_test.in_containers:
        assert usage.page_cache_mib is not None
    else:
        assert usage.page_cache_mib is None  # all processes share one
    before = meters.io_of([os.getpid()])
    with (under_test.state / "ours").open("wb") as file:
        file.write(bytes(mib << 20))
        file.flush()
        os.fsync(file.fileno())
    after = meters.io_of([os.getpid()])
    assert before is not None
    assert after is not None
    if after.write_bytes - before.write_bytes < mib << 20:
        pytest.skip("the kernel keeps no account of what is written to this file system")
    assert usage.disk_write_bytes is not None
    assert usage.disk_write_bytes >= mib << 20


def test_usage_tells_how_far_a_job_says_that_it_is(under_test: RuntimeUnderTest) -> None:
    number = under_test.start('echo 12 > "$MUSTER_PROGRESS"; echo 40.5 >> "$MUSTER_PROGRESS"; echo said; sleep 1000')
    under_test.printed(number, b"said")
    silent = under_test.start("echo ready; sleep 1000")
    under_test.printed(silent, b"ready")
    usage = under_test.runtime.usage()
    assert (usage[number].progress, usage[silent].progress) == (40.5, None)
    under_test.restart()
    assert under_test.runtime.usage()[number].progress == 40.5


def test_many_processes_that_fork_on_are_all_stopped(under_test: RuntimeUnderTest) -> None:
    command = "f() { while true; do (sleep 0.05; true) & sleep 0.01; done; }; f & f & f & echo ready; wait"
    number = under_test.start(command)
    under_test.printed(number, b"ready")
    under_test.runtime.stop(number, "KILL", 0.0)
    assert under_test.exit(number).signal == signal.SIGKILL
