"""srun in a batch script, on one node and on several: output, input, files, ends, and what dies with what."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from nodeagent.jobside.slurm import options, wire
from nodeagent.jobside.slurm.options import Wrong
from tests.agent.jobside.batch_jobs import Nodes
from tests.waiting import eventually

# The words of srun 22.05.8 on wrong command lines, and its exit code.
WRONG = {
    "--nonsense x": ("unrecognized option '--nonsense'", 255),
    "-n": ("option requires an argument -- 'n'", 255),
    "-n abc x": ('error: Invalid numeric value "abc" for --ntasks.', 1),
    "-n 0 x": ('error: Invalid numeric value "0" for --ntasks.', 1),
    "-N x y": ('error: "x" is not a valid node count', 255),
    "--label=3 x": ("option '--label' doesn't allow an argument", 255),
    "--mem=abc x": ("error: Invalid --mem specification", 255),
    "--gres=foo x": ("error: Invalid generic resource (gres) specification", 1),
    "--multi-prog x": ("error: --multi-prog: write a script that looks at SLURM_PROCID", 1),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_options_are_refused_as_srun_does(words: str) -> None:
    from nodeagent.jobside.slurm.srun import request_of

    with pytest.raises(Wrong) as wrong:
        request_of(options.parse(words.split(), {}))
    assert (wrong.value.args[0], wrong.value.code) == WRONG[words]


def test_options_beat_variables_and_rule_them_out() -> None:
    environment = {"SLURM_NTASKS": "4", "SLURM_MEM_PER_NODE": "4096", "SLURM_CPUS_PER_TASK": "8"}
    parsed = options.parse(["-n2", "--mem-per-cpu=1G", "--cpu-bind=none", "-lK", "prog", "-n9"], environment)
    assert parsed.given == {
        "ntasks": "2",
        "mem-per-cpu": "1G",
        "cpu-bind": "none",
        "label": "1",
        "kill-on-bad-exit": "1",
    }
    assert parsed.command == ["prog", "-n9"]
    assert "cpus-per-task" not in parsed.given  # since 22.05 srun reads SRUN_CPUS_PER_TASK


def test_tasks_on_three_nodes_have_their_places_and_variables(nodes: Nodes) -> None:
    tell = "echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME $SLURM_GTIDS $CUDA_VISIBLE_DEVICES $HOME"
    ran = nodes.run(
        f"""srun bash -c '{tell} $MUSTER_JOB_TOKEN $PWD'
        srun -n4 --gpus-per-task=1 bash -c 'echo $SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $SLURM_STEP_GPUS'
        srun -N2 -n2 -w n3 -x n1 bash -c 'echo $SLURM_STEP_ID $SLURM_STEP_NODELIST $SLURM_NTASKS $SLURM_JOB_NUM_NODES'
        """,
        nodes=3, shared=False, env={"SLURM_NTASKS": "6"}, batch={"tasks_per_node": [2, 2, 2]},
        gpus=[[0, 1], [2, 3], [4, 5]],
    )  # fmt: skip
    # Each node has an allocation of its own: paths of the first one become those of the node.
    work = [nodes.folder / f"node{rank}" for rank in range(3)]
    expected = [
        f"{rank} {rank % 2} {rank // 2} n{rank // 2 + 1} {rank // 2 * 2},{rank // 2 * 2 + 1} "
        f"{rank // 2 * 2},{rank // 2 * 2 + 1} {work[rank // 2]}/home mj-1-secret {work[rank // 2]}/work"
        for rank in range(6)
    ]
    lines = (work[0] / "work" / "out.txt").read_text().splitlines()
    assert sorted(lines[:6]) == expected
    assert sorted(lines[6:10]) == ["0 n1 0 0", "1 n1 1 1", "2 n2 2 2", "3 n3 4 4"]
    assert lines[10:] == ["2 n[2-3] 2 3"] * 2
    assert ran.statuses == [0, 0, 0]


def test_codes_signals_and_messages_are_those_of_slurm(nodes: Nodes) -> None:
    ran = nodes.run("""
        srun -n2 sh -c 'exit $((SLURM_PROCID * 5))'; echo rc $?
        srun -n2 sh -c 'exit 3'; echo rc $?
        srun -n2 sh -c '[ $SLURM_PROCID = 1 ] && kill -SEGV $$; exit 7' 2>&1 | sort; echo rc ${PIPESTATUS[0]}
        srun -n2 -K sh -c '[ $SLURM_PROCID = 1 ] && exit 5; exec sleep 60'; echo rc $?
        srun -n1 nothing-of-this-name; echo rc $?
        srun -n1 -D /nowhere pwd
        srun -n99 true; echo rc $?
        srun; echo rc $?
    """)
    lines = [line for line in ran.lines() if "CANCELLED AT" not in line]
    assert lines == [
        "srun: error: n1: task 1: Exited with exit code 5", "rc 5",
        "srun: error: n1: tasks 0-1: Exited with exit code 3", "rc 3",
        "srun: error: n1: task 0: Exited with exit code 7", "srun: error: n1: task 1: Segmentation fault", "rc 139",
        "srun: error: n1: task 1: Exited with exit code 5",
        "srun: launch/slurm: _step_signal: Terminating StepId=4242.3",
        "srun: error: n1: task 0: Terminated", "srun: Force Terminated StepId=4242.3", "rc 143",
        "slurmstepd: error: execve(): nothing-of-this-name: No such file or directory",
        "srun: error: n1: task 0: Exited with exit code 2", "rc 2",
        "slurmstepd: error: couldn't chdir to `/nowhere': No such file or directory: going to /tmp instead", "/tmp",
        "srun: error: Unable to create step for job 4242: More processors requested than permitted", "rc 1",
        "srun: fatal: No command given to execute.", "rc 1",
    ]  # fmt: skip


def test_output_is_labelled_split_and_whole(nodes: Nodes) -> None:
    ran = nodes.run("""
        srun -n2 -l sh -c 'echo a; printf part' | sort
        srun -n12 -O -l sh -c '[ $SLURM_PROCID != 3 ] || echo b'
        srun -n2 -o 'f-%j-%J-%s-%t-%n-%2t' -e err.txt sh -c 'echo o$SLURM_PROCID; echo e$SLURM_PROCID >&2'
        srun -n2 -o 1 sh -c 'echo from $SLURM_PROCID'
        srun -n2 sh -c 'printf "p$SLURM_PROCID "; sleep 0.2; echo end' | sort
        srun -n2 -o missing/x true; echo rc $?
        srun -n1 sh -c '(sleep 0.2; echo late) & echo main'
    """)
    assert ran.lines() == [
        "0: a", "0: part", "1: a", "1: part", " 3: b", "from 1", "p0 end", "p1 end",
        "srun: error: Could not open stdout file: No such file or directory", "rc 1", "main", "late",
    ]  # fmt: skip
    assert [ran.text(f"f-4242-4242.2-2-{task}-0-0{task}") for task in range(2)] == ["o0\n", "o1\n"]
    assert sorted(ran.lines("err.txt")) == ["e0", "e1"]


def test_input_goes_to_all_tasks_to_one_or_to_none(nodes: Nodes) -> None:
    ran = nodes.run("""
        printf 'a\\nb\\n' > in.txt
        srun -n2 -l cat < in.txt | sort
        srun -n2 -l -i 1 cat < in.txt
        srun -n2 -i none cat < in.txt
        srun -n1 -i in.txt wc -l
        head -c 9000000 /dev/zero | srun -n2 sh -c 'sleep 0.1; wc -c'
        yes | srun -n1 true
        while read -r line; do echo got $line; srun -n1 true; done < in.txt
    """)
    assert ran.lines() == ["0: a", "0: b", "1: a", "1: b", "1: a", "1: b", "2", "9000000", "9000000", "got a"]


def test_steps_wait_for_each_other_unless_they_fit(nodes: Nodes) -> None:
    ran = nodes.run("""
        srun -n1 sh -c 'touch first; while [ ! -e go ]; do sleep 0.02; done; echo first' &
        while [ ! -e first ]; do sleep 0.02; done
        srun -n1 --overlap echo overlaps
        srun -n1 -I echo never; echo rc $?
        srun -n1 sh -c 'echo second $(ls go)' 2> told &
        while [ ! -s told ]; do sleep 0.02; done; touch go; wait; cat told
        for i in 0 1; do srun --exact -n1 --mem=1G --gpus=1 sh -c 'touch here.$CUDA_VISIBLE_DEVICES
            while [ ! -e here.0 ] || [ ! -e here.3 ]; do sleep 0.02; done' & done; wait; echo together
    """)
    busy = "(Requested nodes are busy)"
    assert ran.lines() == [
        "overlaps", "srun: error: Unable to create step for job 4242: Requested nodes are busy", "rc 1", "first",
        "second go", f"srun: Job 4242 step creation temporarily disabled, retrying {busy}",
        "srun: Step created for job 4242", "together",
    ]  # fmt: skip


def test_export_names_what_tasks_get(nodes: Nodes) -> None:
    ran = nodes.run("""export MINE=1 OTHER=2
        srun -n1 --export=ALL,MINE=3 /bin/sh -c 'echo $MINE $OTHER'
        srun -n1 --export=OTHER /bin/sh -c 'echo x$MINE $OTHER $SLURM_JOB_ID'
        srun -n1 --export=NONE /bin/sh -c 'echo x$MINE x$OTHER $SLURM_STEP_ID'
    """)
    assert ran.lines() == ["3 2", "x 2 4242", "x x 2"]


def test_a_step_ends_with_its_srun_and_on_its_signals(nodes: Nodes) -> None:
    ran = nodes.run("""
        task='touch ready; trap "echo got USR1; exit 4" USR1; while :; do sleep 0.05; done'
        begin() { rm -f ready; srun -n1 sh -c "$task" & while [ ! -e ready ]; do sleep 0.02; done; }
        begin; kill -USR1 $!; wait $!; echo rc $?
        begin; kill -TERM $!; wait $! 2> /dev/null; echo rc $?
        begin; kill -KILL $!; wait $! 2> /dev/null
        srun -n1 echo the next one runs
    """)
    lines = ran.lines()
    assert [line for line in lines if line.startswith(("got", "rc", "the"))] == [
        "got USR1", "rc 4", "rc 137", "the next one runs",
    ]  # fmt: skip


@pytest.mark.parametrize("victim", [0, 2], ids=["the first node", "another node"])
def test_no_task_outlives_a_supervisor(nodes: Nodes, victim: int) -> None:
    nodes.start(
        "srun sh -c 'echo $$ > pid.$SLURM_PROCID; exec sleep 600'; echo srun ended $?", nodes=3,
    )  # fmt: skip
    files = [nodes.work / f"pid.{task}" for task in range(3)]
    eventually(lambda: all(file.exists() and file.read_text() for file in files), within_s=20.0)
    nodes.processes[victim].kill()
    if victim:  # what a node of a gang that has gone had of a step is lost, and the platform ends the others
        eventually(lambda: not _lives(files[victim]), within_s=20.0)
        for process in nodes.processes:
            process.terminate()
        os.kill(int(files[0].read_text()), signal.SIGTERM)
        os.kill(int(files[1].read_text()), signal.SIGTERM)
    ran = nodes.wait()
    eventually(lambda: not any(map(_lives, files)), within_s=20.0)
    assert ran.statuses[victim] == -signal.SIGKILL
    if victim:
        assert "srun: error: Node failure on n3" in ran.text()
    else:
        assert ran.statuses[1:] == [1, 1]


def test_a_gang_whose_script_ends_at_once_ends_on_all_nodes(nodes: Nodes) -> None:
    assert nodes.run("exit 3", nodes=3).statuses == [3, 0, 0]


def test_a_caller_without_the_secret_gets_nothing(nodes: Nodes) -> None:
    nodes.start("touch ready; while [ ! -e go ]; do sleep 0.02; done; srun -n2 hostname > /dev/null", nodes=2)
    eventually((nodes.work / "ready").exists, within_s=20.0)
    told = json.loads(
        Path(f"/proc/{nodes.processes[0].pid}/environ").read_bytes().split(b"MUSTER_BATCH=")[1].split(b"\0")[0]
    )
    address = ("127.0.0.1", told["port"])
    with socket.create_connection(address) as caller:
        wire.read_line(caller)
        caller.sendall(wire.line({"nonce": "1", "rank": 1, "step": None, "proof": "0" * 64}))
        assert caller.recv(100) == b""
    with socket.create_connection(address) as caller:
        wire.read_line(caller)
        caller.sendall(b"no JSON\n")
        assert caller.recv(100) == b""
    # A listener in its place learns nothing either: the caller wants a proof of the same secret.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pid = os.fork()
        if pid == 0:
            connection, _ = listener.accept()
            connection.sendall(wire.line("challenge") + wire.line("0" * 64))
            os._exit(0)
        with pytest.raises(ConnectionError, match="does not have the secret"):
            wire.join(("127.0.0.1", listener.getsockname()[1]), told["secret"], 1, None, 5)
        os.waitpid(pid, 0)
    (nodes.work / "go").touch()
    assert nodes.wait().statuses == [0, 0]


def _lives(file: Path) -> bool:
    try:
        return Path(f"/proc/{file.read_text().strip()}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
