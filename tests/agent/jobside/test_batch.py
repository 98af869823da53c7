"""muster-batch on one node: the script's files, its environment, its end and its signals, as Slurm has them."""

from __future__ import annotations

import glob
import os
import signal

import pytest

from nodeagent.jobside.slurm.patterns import Facts
from tests.agent.jobside.batch_jobs import Nodes, tree_of
from tests.waiting import eventually

MEMBER = Facts("700018", "a b", "ann", "n1", array_id="700010", array_index=4)
# What Slurm 22.05.8 made of each pattern.
PATTERNS = {
    "o-%j-%J-%s-%t-%n-%u-%x-%a-%A-%%-%3t-%5j-%10j-%4a-%q-%": (
        "o-700110-700110-batch-0-0-ann-s.sh-4294967294-700110-%-000-700110-0000700110-4294967294-%q-%"
    ),
    "plain.txt": "plain.txt",
    "%12j": "0000700110",
    "\\%j": "%j",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_become_the_names_that_slurm_gives(pattern: str) -> None:
    assert Facts("700110", "s.sh", "ann", "n1").fill(pattern) == PATTERNS[pattern]


def test_patterns_of_a_member_of_an_array_and_of_a_task() -> None:
    assert MEMBER.fill("%A_%4a %x %N") == "700010_0004 a b n1"
    assert Facts("7", "s", "ann", "n2", step="3", task=1, node_index=1).fill("%J-%s-%t-%n") == "7.3-3-1-1"


def test_a_script_has_the_variables_that_slurm_sets_and_none_of_a_gang(nodes: Nodes) -> None:
    (nodes.folder / "node0" / "work").mkdir(parents=True)
    submitted = nodes.folder / "node0" / "work" / ".muster-environment"
    submitted.write_bytes(
        b"PATH=/opt/own:/usr/bin:/bin\0HOME=/nfs/ann\0MINE=a=b\0MUSTER_JOB_TOKEN=outer\0SLURM_NTASKS=9\0"
    )
    array = {"count": 3, "min": 2, "max": 9, "step": 1}
    ran = nodes.run(
        "env -0 > env.bin; echo done",
        batch={"tasks_per_node": [2]},
        env={"SLURM_NTASKS": "2", "SLURM_MEM_PER_NODE": "4096"},
        array=array, array_id=4240, array_index=2, restarts=1,
    )  # fmt: skip
    assert ran.statuses == [0]
    found = dict(pair.split("=", 1) for pair in ran.text("env.bin").split("\0") if pair)
    expected = {
        "PATH": f"{nodes.commands}:/opt/own:/usr/bin:/bin", "HOME": "/nfs/ann", "MINE": "a=b",
        "MUSTER_JOB_TOKEN": "mj-1-secret", "CUDA_VISIBLE_DEVICES": "0,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "SLURM_JOB_GPUS": "0,3", "SLURM_GPUS_ON_NODE": "2", "SLURM_NTASKS": "2", "SLURM_MEM_PER_NODE": "4096",
        "SLURM_ARRAY_JOB_ID": "4240", "SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "3",
        "SLURM_ARRAY_TASK_MIN": "2", "SLURM_ARRAY_TASK_MAX": "9", "SLURM_ARRAY_TASK_STEP": "1",
        "SLURM_RESTART_COUNT": "1", "SLURM_JOB_ID": "4242", "SLURM_JOBID": "4242", "SLURM_JOB_NAME": "train",
        "SLURM_JOB_NODELIST": "n1", "SLURM_NODELIST": "n1", "SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1",
        "SLURM_TASKS_PER_NODE": "2", "SLURM_CPUS_ON_NODE": "4", "SLURM_JOB_CPUS_PER_NODE": "4", "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURMD_NODENAME": "n1", "SLURM_SUBMIT_DIR": str(nodes.work),
        "SLURM_SUBMIT_HOST": "login", "SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_ACCOUNT": "lab1",
        "SLURM_JOB_QOS": "normal", "SLURM_JOB_USER": "ann", "SLURM_CLUSTER_NAME": "lab",
        "SLURM_JOB_UID": str(os.getuid()), "SLURM_JOB_GID": str(os.getgid()), "ENVIRONMENT": "BATCH",
    }  # fmt: skip
    assert {name: found.get(name) for name in expected} == expected
    assert not {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "MUSTER_BATCH"} & found.keys()
    assert not submitted.exists()


def test_output_goes_to_its_files_and_to_the_log_in_its_order(nodes: Nodes) -> None:
    script = "for i in 1 2 3; do echo $i; echo err $i >&2; done; cat; pwd; echo $1"
    (nodes.work / "in.txt").write_text("from the file\n")
    (nodes.work / "log-4242.txt").write_text("of an earlier run\n")
    ran = nodes.run(script, batch={"output": "log-%j.txt", "input": "in.txt"}, arguments=("two words",))
    expected = f"1\nerr 1\n2\nerr 2\n3\nerr 3\nfrom the file\n{nodes.work}\ntwo words\n"
    assert (ran.text("log-4242.txt"), ran.log) == (expected, expected)


def test_errors_have_a_file_of_their_own_and_append_keeps_what_is_there(nodes: Nodes) -> None:
    (nodes.work / "out.txt").write_text("before\n")
    ran = nodes.run("echo out; echo err >&2", batch={"error": "err.txt", "open_mode": "append"})
    assert (ran.text(), ran.text("err.txt")) == ("before\nout\n", "err\n")
    assert sorted(ran.log.split()) == ["err", "out"]


def test_nothing_is_lost_of_much_output(nodes: Nodes) -> None:
    ran = nodes.run("seq 200000; seq 200000 | srun -n2 -l cat | grep -c ^1:")
    assert ran.lines() == [*map(str, range(1, 200001)), "200000"]
    assert len(ran.log.splitlines()) == 200001


@pytest.mark.parametrize(
    ("script", "batch", "status"),
    [
        ("exit 21", {}, 21),
        ("kill -SEGV $$", {}, -signal.SIGSEGV),
        ("kill -KILL $$", {}, -signal.SIGKILL),
        ("echo never", {"output": "missing/%j.txt"}, -53),
    ],
    ids=["code", "segv", "kill", "no folder"],
)
def test_it_ends_as_the_script_does(nodes: Nodes, script: str, batch: dict[str, str], status: int) -> None:
    ran = nodes.run(script, batch=batch)
    assert ran.statuses == [status]
    assert "never" not in ran.log.replace("Could not open", "")


def test_a_folder_that_is_missing_is_tmp(nodes: Nodes) -> None:
    ran = nodes.run("pwd; echo $SLURM_SUBMIT_DIR", batch={"folder": "/nowhere", "output": str(nodes.work / "out.txt")})
    told = "slurmstepd: error: couldn't chdir to `/nowhere': No such file or directory: going to /tmp instead"
    assert ran.lines() == [told, "/tmp", str(nodes.work)]


def test_a_script_that_waits_is_stopped_and_its_trap_runs(nodes: Nodes) -> None:
    nodes.start("trap 'echo trapped; exit 7' TERM; touch ready; while :; do sleep 0.05; done")
    eventually((nodes.work / "ready").exists, within_s=20.0)
    for pid in tree_of(nodes.processes[0].pid):  # as the agent does: every process of the job
        os.kill(pid, signal.SIGTERM)
    ran = nodes.wait()
    assert ran.statuses == [7]
    assert ran.lines()[0].startswith("slurmstepd: error: *** JOB 4242 ON n1 CANCELLED AT ")
    assert ran.lines()[-1] == "trapped"


@pytest.mark.parametrize(("to_script", "got"), [(True, "script"), (False, "task")])
def test_the_signal_before_the_limit_goes_to_the_script_or_to_the_tasks(
    nodes: Nodes, *, to_script: bool, got: str
) -> None:
    script = """trap 'echo got script' USR1
    srun bash -c 'trap "echo got task; exit 0" USR1; for i in {1..20}; do sleep 0.05; done' &
    wait; wait; exit 4
    """
    batch = {"signal": "USR1", "signal_before_s": 59, "signal_script": to_script}
    ran = nodes.run(script, batch=batch, time_limit_s=59.5)
    assert ran.statuses == [4]
    assert [line for line in ran.lines() if line.startswith("got")] == [f"got {got}"]


def test_a_script_signals_itself_and_its_tasks_by_scancel(nodes: Nodes) -> None:
    ran = nodes.run("""trap 'echo got script' USR1
    srun -n1 bash -c 'trap "echo got task" USR1; touch ready; while [ ! -e go ]; do sleep 0.02; done' &
    while [ ! -e ready ]; do sleep 0.02; done
    scancel -s USR1 $SLURM_JOB_ID; sleep 0.2; echo between
    scancel --batch --signal=SIGUSR1 $SLURM_JOB_ID; sleep 0.2; touch go; wait
    """)
    assert [line for line in ran.lines() if "User defined" not in line] == ["got task", "between", "got script"]


def test_a_job_without_gpus_has_no_variables_of_them(nodes: Nodes) -> None:
    (nodes.folder / "node0" / "work").mkdir(parents=True)
    outer = nodes.folder / "node0" / "work" / ".muster-environment"
    outer.write_bytes(
        b"SLURM_JOB_GPUS=1\0SLURM_GPUS_ON_NODE=1\0CUDA_VISIBLE_DEVICES=1\0SLURM_ARRAY_TASK_ID=3\0PATH=/bin\0"
    )
    ran = nodes.run("env | grep -E 'CUDA|GPUS|ARRAY'; srun -n1 /bin/env | grep -E 'CUDA|GPUS'; true", gpus=[[]])
    seen = [] if not glob.glob("/dev/nvidia[0-9]*") else ["CUDA_VISIBLE_DEVICES="]
    assert ran.lines() == ["SLURM_ARRAY_TASK_ID=3", *seen]


def test_steps_of_a_whole_node_have_gpus_only_where_the_job_named_some(nodes: Nodes) -> None:
    ran = nodes.run("echo $CUDA_VISIBLE_DEVICES; srun -n1 sh -c 'echo x$SLURM_STEP_GPUS'", batch={"step_gpus": False})
    assert ran.lines() == ["0,3", "x"]
