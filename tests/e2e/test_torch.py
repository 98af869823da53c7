"""PyTorch under `torchrun` on agents that stand for servers: each has a network of its own, and ranks must meet."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from muster.local.supervisor import Child
from muster_client.answers.jobs import Attempt, Job
from muster_client.answers.outputs import OutputFile
from muster_client.local.pack import pack_folder
from muster_client.local.spec import read_spec
from tests.faults.cluster import FIRST_USER, POOL_TABLE, ROOT, Cluster, overlapping_claims, until
from tests.faults.proxy import proxy, through
from tests.namespaces import Network, network
from tests.oldtorch import OLD_TORCH
from tests.pytorch import python_with_torch

pytestmark = pytest.mark.timeout(300)

EXAMPLES = ROOT / "examples"
NODES = ("n1", "n2", "n3", "n4")
# A gang of two has two whole nodes.
GANG: dict[str, Any] = {"nodes": 2, "gpus": 1, "cpus": 16, "memory": "1GiB"}
STEPS = 40
# The cluster runs no worker `default`: this is what its clock does.
LOOK = "from muster.sweeps.tasks import look; look()"
# Ends once it is told to.
HOLDING = "until [ -e $SCRATCH/$WORD ]; do sleep 0.2; done"
# The first attempt is slow, so that there is time to stop it in the middle.
SLOW_AT_FIRST = "if [ $MUSTER_ATTEMPT = 1 ]; then export STEP_SECONDS=1; fi; exec torchrun train.py"


@pytest.fixture(scope="module")
def network_of_nodes() -> Iterator[Network]:
    with network(len(NODES)) as net:
        yield net


@pytest.fixture(scope="module")
def rack(network_of_nodes: Network) -> Iterator[Cluster]:
    """A cluster whose agents reach the platform, and each other, over a bridge; higher priorities take from lower."""
    net = network_of_nodes
    with contextlib.ExitStack() as stack:
        way = cache(lambda url: stack.enter_context(proxy(url, net.listen())).url)

        def inside(child: Child) -> Child:
            own = net.members[NODES.index(child.name)]
            url = child.argv[child.argv.index("--url") + 1]
            moved = through(child, way(url), "--address", own.address)
            return replace(moved, argv=own.command(moved.argv))

        cluster = Cluster(NODES, place=inside)
        stack.callback(cluster.stop)
        cluster.sql(
            f"UPDATE {POOL_TABLE} SET policy = %s, policy_params = %s::jsonb", "priority", '{"preemptive": true}'
        )
        yield cluster
        cluster.settle()
        assert overlapping_claims(cluster) == []


@pytest.fixture(scope="module")
def python() -> str:
    """A Python with PyTorch that the users of jobs may run; without one the test is skipped."""
    return python_with_torch(user="nobody")


def submit_example(cluster: Cluster, folder: str, command: str = "", **keys: Any) -> Job:
    """The example as it is but for some keys; what it keeps goes to a folder that all nodes see."""
    spec = read_spec(EXAMPLES / folder / "job.yaml")
    with pack_folder(EXAMPLES / folder) as archive:
        spec["code"] = {"upload": cluster.client().upload(archive)["sha256"]}
    usual = spec.pop("command")
    env = {**spec["env"], "CHECKPOINTS": str(cluster.scratch), **keys.pop("env", {})}
    return cluster.submit(command or usual, **{**spec, **keys, "env": env})


def hold(cluster: Cluster, word: str, **keys: Any) -> Job:
    """A job that ends once it is told to."""
    return cluster.submit(HOLDING, env={"WORD": word}, **keys)


def let_end(cluster: Cluster, word: str) -> None:
    (cluster.scratch / word).touch()


def nodes_of(attempt: Attempt) -> list[str]:
    """The nodes of the ranks, in their order."""
    return [one["node"] for one in sorted(attempt["allocations"], key=lambda one: one["rank"])]


def lines(cluster: Cluster, job: Job, attempt: int, rank: int) -> list[str]:
    return cluster.log(job, attempt=attempt, rank=rank).decode().splitlines()


def peers(cluster: Cluster, node: str) -> set[tuple[str, str]]:
    """The two addresses of each connection that the node's network has open."""
    table = Path(f"/proc/{cluster.pid(node)}/net/tcp").read_text().splitlines()[1:]
    ends = [line.split()[1:4] for line in table]
    return {(_address(here), _address(there)) for here, there, state in ends if state == "01"}


def _address(text: str) -> str:
    """The address that the kernel's table writes as 0200400A:1F90."""
    return socket.inet_ntoa(bytes.fromhex(text.partition(":")[0])[::-1])


def losses(said: list[str]) -> dict[int, str]:
    """The losses that a run prints, by step and to the last digit."""
    found = (re.fullmatch(rf"step (\d+)/{STEPS}  loss (\S+)", line) for line in said)
    return {int(match[1]): match[2] for match in found if match}


def test_a_training_gives_way_and_goes_on_elsewhere_as_if_it_had_not(
    rack: Cluster, network_of_nodes: Network, python: str
) -> None:
    cluster, client = rack, rack.client()
    address = {name: member.address for name, member in zip(NODES, network_of_nodes.members, strict=True)}
    env = {**OLD_TORCH, "STEPS": STEPS, "STEP_SECONDS": 0}
    low = submit_example(cluster, "torch-ddp", SLOW_AT_FIRST, priority="low", env=env, **GANG)
    # The uninterrupted run has the other two nodes, and keeps them when it is done. It needs no torchrun.
    alone = f"{python} train.py && {HOLDING}"
    whole = submit_example(cluster, "torch-ddp", alone, env={**env, "WORD": "whole"}, **GANG)
    cluster.until_attempt_runs(low, within_s=60)
    until(lambda: losses(lines(cluster, low, 1, 0)), "it trains", 90, every_s=0.3)
    [first] = client.attempts(low["id"])
    one, other = nodes_of(first)
    assert (address[one], address[other]) in peers(cluster, one)
    assert (address[other], address[one]) in peers(cluster, other)
    submitted_at = client.job(low["id"])["submitted_at"]

    high = hold(cluster, "high", **GANG)
    cluster.until_attempt_runs(high, within_s=60)
    [first] = client.attempts(low["id"])
    assert (first["state"], first["reason"]) == ("preempted", "preempted")
    waiting = client.job(low["id"])
    assert (waiting["state"], waiting["submitted_at"]) == ("queued", submitted_at)
    [(served,)] = cluster.sql("SELECT attained_gpu_s FROM jobs_job WHERE id = %s", low["id"])
    assert served > 0

    until(lambda: STEPS in losses(lines(cluster, whole, 1, 0)), "the other has ended", 90, every_s=0.3)
    let_end(cluster, "whole")
    done = cluster.wait(low, within_s=120)
    assert (done["state"], done["exit_code"]) == ("succeeded", 0), cluster.story(low)
    assert client.job(high["id"])["state"] == "active"
    first, second = client.attempts(low["id"])
    assert (second["state"], second["reason"]) == ("succeeded", "completed")
    assert set(nodes_of(first)) | set(nodes_of(second)) == set(NODES)
    [(attained, ran_s)] = cluster.sql("SELECT attained_gpu_s, ran_s FROM jobs_job WHERE id = %s", low["id"])
    assert attained > served
    assert attained == pytest.approx(2 * ran_s)

    cluster.whole_log(low)
    cluster.whole_log(whole)
    for number, attempt in ((1, first), (2, second)):
        meeting = address[nodes_of(attempt)[0]]
        for rank, node in enumerate(nodes_of(attempt)):
            begin = rf"rank {rank} of 2: {node} on cpu, met the others at {re.escape(meeting)}:2\d{{4}} over gloo"
            assert re.fullmatch(begin, lines(cluster, low, number, rank)[0])
    before, after = (lines(cluster, low, number, 0) for number in (1, 2))
    [saved] = [int(match[1]) for line in before if (match := re.match(r"saved step (\d+) to ", line))]
    assert 0 < saved < STEPS
    assert f"resumed after step {saved}" in after
    assert min(losses(after)) > saved
    undisturbed = lines(cluster, whole, 1, 0)
    assert losses(before) | losses(after) == losses(undisturbed)
    [end] = [line for line in undisturbed if line.startswith("rank 0: done at step")]
    assert end in after
    let_end(cluster, "high")
    for job in (high, whole):
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)


def test_the_rank_that_fails_first_is_the_reason_and_the_others_have_their_grace(rack: Cluster) -> None:
    command = (
        "trap 'echo told; sleep 0.3; echo left; exit 0' TERM;"
        " if [ $RANK = 1 ]; then until [ -e $SCRATCH/fail ]; do sleep 0.1; done; exit 3; fi;"
        " echo here; while true; do sleep 0.1; done"
    )
    job = rack.submit(command, checkpoint={"grace": "30s"}, **GANG)
    until(lambda: rack.log(job, rank=0) == b"here\n", "the first rank runs", 60)
    let_end(rack, "fail")
    job = rack.wait(job)
    assert (job["state"], job["exit_code"], job["reason"]) == ("failed", 3, "exit_nonzero"), rack.story(job)
    assert job["reason_detail"] == "rank 1: exit status 3"
    [attempt] = rack.client().attempts(job["id"])
    ranks = sorted(attempt["allocations"], key=lambda one: one["rank"])
    assert [one["exit_code"] for one in ranks] == [0, 3]
    rack.whole_log(job)
    assert [line for line in lines(rack, job, 1, 0) if line in {"here", "told", "left"}] == ["here", "told", "left"]


def test_the_other_examples_run(rack: Cluster, python: str) -> None:
    client = rack.client()
    finetune = submit_example(
        rack, "finetune", f"{python} train.py", env={"EPOCHS": 3, "EPOCH_SECONDS": 0, "OMP_NUM_THREADS": 1}
    )
    prepare = submit_example(rack, "prepare-data", env={"MAX_FILES": 40})
    spec = {**read_spec(EXAMPLES / "sweep" / "job.yaml"), "vc": FIRST_USER, "env": {"STEP_SECONDS": 0}}
    spec["sweep"] = {"method": "grid", "metric": "val_loss", "params": {"lr": [0.01, 1.0], "momentum": [0.9]}}
    with pack_folder(EXAMPLES / "sweep") as archive:
        sweep = client.submit_sweep({**spec, "code": {"upload": client.upload(archive)["sha256"]}})["id"]

    def is_over() -> bool:
        rack.manage("shell", "-c", LOOK)
        return client.sweep(sweep)["state"] == "succeeded"

    until(is_over, "all members have ended", 60, every_s=0.3)
    best = client.sweep(sweep)["best"]
    assert best is not None
    assert best["params"]["lr"] == 1.0
    for job in (finetune, prepare):
        assert rack.wait(job, within_s=90)["state"] == "succeeded", rack.story(job)
    assert re.search(r"^result: {.accuracy.: 0\.[89]", rack.whole_log(finetune).decode(), re.MULTILINE)
    told = {figure["name"]: figure for figure in client.training(finetune["id"])["newest"]}
    assert (told["loss"]["step"], told["total"]["value"]) == (3, 3), "what it reported last came with its end"

    def kept() -> dict[str, OutputFile]:
        return {file["path"]: file for file in client.files(prepare["id"])["results"] if file["state"] == "kept"}

    until(lambda: len(kept()) == 18, "what was prepared is kept", 60, every_s=0.3)
    files = kept()
    manifest = json.loads(b"".join(client.read_file(prepare["id"], files["prepared/manifest.json"])))
    sizes = {f"prepared/{name}": 2 * tokens for name, tokens in (manifest["training"] | manifest["validation"]).items()}
    assert len(sizes) == 16
    assert {path: files[path]["size"] for path in sizes} == sizes
