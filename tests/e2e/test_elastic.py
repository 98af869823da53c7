"""A real training that a policy resizes: it grows and shrinks, and ends as one that keeps its size."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster_client.answers.jobs import Attempt, Job
from muster_client.local.pack import pack_folder
from muster_client.local.spec import read_spec
from tests.faults.cluster import FIRST_USER, POOL_TABLE, ROOT, Cluster, until
from tests.faults.layout import QUOTAS
from tests.oldtorch import OLD_TORCH
from tests.pytorch import python_with_torch

pytestmark = pytest.mark.timeout(300)

EXAMPLE = ROOT / "examples" / "torch-ddp"
STEPS = 60
LOSS = re.compile(rf"^step (\d+)/{STEPS}  loss (\S+)$", re.MULTILINE)
HOLDING = "until [ -e $SCRATCH/$WORD ]; do sleep 0.2; done"


@pytest.fixture
def node(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a policy that resizes jobs, while its second node is full.

    What fills it is within the quotas of its owners.
    """
    change = f"UPDATE {POOL_TABLE} SET policy = %s, policy_params = %s::jsonb"
    cluster.sql(change, "optimus", '{"every_s": 5}')
    try:
        fillers = [hold(cluster, gpus=2, user=user) for user in QUOTAS]
        yield cluster
        for filler in fillers:
            let_end(cluster, filler)
    finally:
        cluster.sql(change, "fifo", "{}")


def hold(cluster: Cluster, *, gpus: int, user: str = FIRST_USER) -> Job:
    """A job that runs until it is told to end."""
    job = cluster.submit(HOLDING, user=user, env={"WORD": uuid.uuid4().hex}, gpus=gpus, cpus=1)
    cluster.until_attempt_runs(job, within_s=60)
    return job


def let_end(cluster: Cluster, job: Job) -> None:
    (cluster.scratch / cluster.client(job["owner"]).job(job["id"])["spec"]["env"]["WORD"]).touch()
    assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)


def submit_training(cluster: Cluster, **keys: Any) -> Job:
    """The example, which may be resized; its checkpoints go to a folder that all attempts see."""
    spec = read_spec(EXAMPLE / "job.yaml")
    with pack_folder(EXAMPLE) as archive:
        spec["code"] = {"upload": cluster.client().upload(archive)["sha256"]}
    env = {**OLD_TORCH, "CHECKPOINTS": str(cluster.scratch), "STEPS": STEPS, "STEP_SECONDS": 0.4}
    return cluster.submit(spec.pop("command"), **{**spec, **keys, "env": env})


def sizes(cluster: Cluster, job: Job) -> list[int]:
    """The GPUs of each attempt."""
    return [size(attempt) for attempt in cluster.client().attempts(job["id"])]


def size(attempt: Attempt) -> int:
    return sum(len(one["gpus"]) for one in attempt["allocations"])


def until_it_trains(cluster: Cluster, job: Job, attempt: int) -> None:
    cluster.until_attempt_runs(job, number=attempt, within_s=60)
    until(lambda: steps(cluster, job, attempt), f"attempt {attempt} trains", 90, every_s=0.3)


def steps(cluster: Cluster, job: Job, attempt: int) -> dict[int, float]:
    """The losses that an attempt has printed, by step."""
    return losses(cluster.log(job, attempt=attempt).decode())


def losses_of_one_size(python: str) -> dict[int, float]:
    """The losses of a run on one GPU that is not stopped."""
    env = {"STEPS": str(STEPS), "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611"}
    done = subprocess.run(
        [python, "train.py"],
        cwd=EXAMPLE,
        env={**env, "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1", "PATH": str(Path(python).parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    return losses(done.stdout)


def losses(said: str) -> dict[int, float]:
    """The losses that a run has printed, by step."""
    return {int(step): float(loss) for step, loss in LOSS.findall(said)}


def test_a_training_grows_and_shrinks_and_ends_with_the_loss_of_one_that_keeps_its_size(node: Cluster) -> None:
    cluster, python = node, python_with_torch(user="nobody")
    three = hold(cluster, gpus=3)
    job = submit_training(
        cluster, nodes=1, gpus=1, elastic={"min": 1, "max": 4}, expected="10m", retry={"max": 0}, time="1h"
    )
    until_it_trains(cluster, job, 1)
    let_end(cluster, three)
    until_it_trains(cluster, job, 2)
    two = hold(cluster, gpus=2)
    until_it_trains(cluster, job, 3)
    done = cluster.wait(job, within_s=120)
    assert (done["state"], done["exit_code"]) == ("succeeded", 0), cluster.story(job)
    assert sizes(cluster, job) == [1, 4, 2]
    let_end(cluster, two)

    cluster.whole_log(job)
    for number, ranks in ((1, 1), (2, 4), (3, 2)):
        assert f"rank 0 of {ranks}: " in cluster.log(job, attempt=number).decode()
    found: dict[int, float] = {}
    for number in (1, 2, 3):
        found |= steps(cluster, job, number)
    assert found == pytest.approx(losses_of_one_size(python), rel=1e-5)
    assert max(found) == STEPS


def test_a_job_that_does_not_come_back_in_its_new_size_goes_on_in_the_former_one(node: Cluster) -> None:
    cluster = node
    command = f"if [ $MUSTER_GPUS = 4 ]; then echo 'ValueError: no batch for 4'; exit 7; fi; {HOLDING}"
    three = hold(cluster, gpus=3)
    job = cluster.submit(
        command, env={"WORD": "end"}, gpus=1, elastic={"min": 1, "max": 4}, expected="10m", retry={"max": 0}
    )
    cluster.until_attempt_runs(job, within_s=60)
    let_end(cluster, three)
    cluster.until_attempt_runs(job, number=3, within_s=60)
    assert sizes(cluster, job) == [1, 4, 1]
    failed = cluster.client().job(job["id"])["failed_resize"]
    assert failed is not None
    assert (failed["before"], failed["wanted"]) == (1, 4)
    assert "no batch for 4" in failed["because"]
    (cluster.scratch / "end").touch()
    assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
