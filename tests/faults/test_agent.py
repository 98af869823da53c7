"""An agent that is killed, frozen, superseded, or deaf: what its jobs do, and what the platform makes of it."""

from __future__ import annotations

import random
import signal
import threading

import httpx
import pytest

from muster_client.local.pack import pack_folder
from nodeagent.protocol.messages import (
    PROTOCOL_VERSION,
    BatchItem,
    BatchRequest,
    BeatRequest,
    ClaimRequest,
    EndReason,
    EndRequest,
    GpuInfo,
    HelloRequest,
    HelloResponse,
    Inventory,
    RegisterRequest,
)
from nodeagent.protocol.terms import AGAIN
from tests.faults.cluster import ROOT, Cluster, processes_with, until
from tests.faults.conftest import Figure
from tests.faults.jobs import BEATING, let_end, output_of, stamps_of, starts_of, until_it_beats
from tests.faults.layout import HASTY, NODES, PATIENT, ROUNDS
from tests.faults.proxy import Trouble, proxy, through

pytestmark = pytest.mark.timeout(240 * ROUNDS)


def credential_of(cluster: Cluster, node: str) -> str:
    return (cluster.state_of(node) / "credential").read_text()


def register_as(cluster: Cluster, node: str, boot_id: str) -> None:
    """Register a second agent of the node, with the same GPUs as the first one."""
    gpus = cluster.sql(
        "SELECT g.index, g.uuid, g.model, g.memory_mib FROM fleet_gpu g JOIN fleet_node n ON n.id = g.node_id"
        " WHERE n.name = %s ORDER BY g.index",
        node,
    )
    inventory = Inventory(
        hostname=node,
        address="127.0.0.1",
        cpus=16,
        memory_mib=65_536,
        gpus=tuple(GpuInfo(*row, pci_bus_id="", numa_node=0) for row in gpus),
    )
    credential = credential_of(cluster, node)
    [(state_id,)] = cluster.sql("SELECT state_id FROM fleet_node WHERE name = %s", node)
    hello = post(cluster, "hello", credential, HelloRequest(credential).to_dict())
    nonce = HelloResponse.from_dict(hello.json()).nonce
    request = RegisterRequest(PROTOCOL_VERSION, boot_id, "test", credential, inventory, nonce, state_id)
    answer = post(cluster, "register", credential, request.to_dict())
    assert answer.status_code == 200, answer.text


def post(cluster: Cluster, path: str, credential: str, body: object) -> httpx.Response:
    headers = {"Authorization": f"Bearer {credential}"}
    return httpx.post(f"{cluster.url}/agent/v1/{path}", json=body, headers=headers, trust_env=False)


def test_a_job_does_not_notice_that_its_agent_was_killed_and_started_again(cluster: Cluster) -> None:
    job = cluster.submit(BEATING)
    node = cluster.until_attempt_runs(job)
    until(lambda: b"line 3\n" in cluster.log(job), "its output arrives")
    cluster.kill(node)
    cluster.start(node)
    let_end(cluster, job["id"])
    job = cluster.wait(job)
    assert job["state"] == "succeeded", cluster.story(job)
    assert cluster.attempts(job) == [("succeeded", "completed")]
    assert starts_of(cluster, job["id"]) == ["1"]
    assert cluster.whole_log(job) == output_of(cluster, job["id"])


def test_an_agent_killed_at_any_moment_of_a_launch_starts_nothing_twice(cluster: Cluster, figure: Figure) -> None:
    chance = random.Random(4)
    command = 'echo "$MUSTER_ATTEMPT" >> "$SCRATCH/$MUSTER_JOB_ID.starts"'
    jobs = []
    claimed = (
        "SELECT 1 FROM jobs_allocation a JOIN jobs_attempt t ON t.id = a.attempt_id"
        " WHERE t.job_id = %s AND a.claimed_at IS NOT NULL"
    )
    for number in range(4 * ROUNDS):
        jobs += [cluster.submit(command, user=user) for user in ("red", "red", "blue")]
        if number % 2:  # close to a launch, however fast the machine is
            until(lambda last=jobs[-1]["id"]: cluster.sql(claimed, last), "it is claimed", every_s=0.002)
        threading.Event().wait(chance.uniform(0, 0.02 if number % 2 else 0.3))
        for node in NODES:
            cluster.kill(node)
        for node in NODES:
            cluster.start(node)
    for job in jobs:
        assert cluster.wait(job, within_s=60)["state"] == "succeeded", cluster.story(job)
        attempts = cluster.attempts(job)
        # What the agent had not started when it was killed is said to be so, and tried again; nothing ran twice.
        assert attempts[-1] == ("succeeded", "completed")
        assert set(attempts[:-1]) <= {("failed", "never_started")}, cluster.story(job)
        assert starts_of(cluster, job["id"]) == [str(len(attempts))]
    tries = sum(len(cluster.attempts(job)) for job in jobs)
    figure("launches that a kill met, of all", f"{tries - len(jobs)} of {tries}")


def test_an_agent_killed_between_its_claim_and_the_start_says_that_nothing_ran(cluster: Cluster) -> None:
    with pack_folder(ROOT / "examples" / "gang") as archive:
        code = cluster.client().upload(archive)["sha256"]
    with proxy(cluster.url) as way:
        way.trouble = lambda path: Trouble.LOST if "/code/" in path else Trouble.NONE
        with cluster.agents_as(lambda child: through(child, way.url)):
            job = cluster.submit(
                'echo "$MUSTER_ATTEMPT" >> "$SCRATCH/$MUSTER_JOB_ID.starts"', gpus=2, nodes=2, code={"upload": code}
            )
            placed = (
                "SELECT n.name, a.id FROM jobs_allocation a JOIN jobs_attempt t ON t.id = a.attempt_id"
                " JOIN fleet_node n ON n.id = a.node_id WHERE t.job_id = %s"
            )
            places = until(lambda: cluster.sql(placed, job["id"]), "it is placed")
            folders = [cluster.state_of(node) / "allocations" / str(number) for node, number in places]
            # Both have noted that they will start it and made its folder; the code does not come.
            until(lambda: all(folder.exists() for folder in folders), "both have begun")
            for node in NODES:
                cluster.kill(node)
    job = cluster.wait(job, within_s=60)
    assert job["state"] == "succeeded", cluster.story(job)
    assert cluster.attempts(job) == [("failed", "never_started"), ("succeeded", "completed")]
    assert starts_of(cluster, job["id"]) == ["2", "2"]


def test_a_frozen_agents_job_ends_before_the_fence_and_then_runs_elsewhere(cluster: Cluster) -> None:
    with cluster.timers(HASTY):
        job = cluster.submit(BEATING)
        node = until_it_beats(cluster, job)
        cluster.kill(node, signal.SIGSTOP)
        query = (
            "SELECT extract(epoch FROM fence_at)::float FROM jobs_attempt WHERE job_id = %s AND fence_at IS NOT NULL"
        )
        [(fence_at,)] = until(lambda: cluster.sql(query, job["id"]), "its attempt is marked unreachable")
        assert until_it_beats(cluster, job, attempt=2) != node
        assert cluster.attempts(job)[0] == ("lost", "node_lost")
        first, second = stamps_of(cluster, job["id"], attempt=1), stamps_of(cluster, job["id"], attempt=2)
        assert max(first) < fence_at < min(second)
        # The agent comes back with what it knew: it may clean up, and change nothing.
        before = cluster.attempts(job)
        assert before == [("lost", "node_lost"), ("running", "")]
        lost = cluster.sql("SELECT * FROM jobs_attempt WHERE job_id = %s AND number = 1", job["id"])
        cluster.kill(node, signal.SIGCONT)
        cluster.until_whole()
        until(lambda: len(stamps_of(cluster, job["id"], attempt=2)) > len(second) + 20, "the second attempt lives on")
        assert cluster.attempts(job) == before
        assert cluster.sql("SELECT * FROM jobs_attempt WHERE job_id = %s AND number = 1", job["id"]) == lost
        assert stamps_of(cluster, job["id"], attempt=1) == first
        assert starts_of(cluster, job["id"]) == ["1", "2"]


def test_a_superseded_agent_leaves_its_jobs_alone_and_is_refused(cluster: Cluster) -> None:
    job = cluster.submit(BEATING)
    node = cluster.until_attempt_runs(job)
    [(allocation_id, fence, boot_id, state_id, epoch)] = cluster.sql(
        "SELECT a.id, t.id, a.boot_id, a.state_id, l.epoch"
        " FROM jobs_allocation a JOIN jobs_attempt t ON t.id = a.attempt_id"
        " JOIN fleet_nodelease l ON l.node_id = a.node_id WHERE t.job_id = %s",
        job["id"],
    )
    credential = credential_of(cluster, node)
    register_as(cluster, node, boot_id)
    until(lambda: not cluster.runs(node), "the older agent ends")
    assert cluster.exit_status(node) == 3
    assert processes_with(cluster.mark(job))
    # A stale caller, and one with another fence, change nothing.
    assert post(cluster, "beat", credential, BeatRequest(epoch, 10_000, boot_id).to_dict()).status_code == 409
    claim = BatchItem(allocation_id, claim=ClaimRequest(fence, boot_id, epoch, state_id))
    end = BatchItem(allocation_id, end=EndRequest(fence - 1, boot_id, state_id, EndReason.COMPLETED, exit_code=0))

    def statuses() -> list[int]:
        answer = post(cluster, "batch", credential, BatchRequest((claim, end)).to_dict())
        found = [one["status"] for one in answer.json()["outcomes"]]
        return [] if AGAIN in found else found  # a cycle may hold what it needs: agents ask again, too

    assert until(statuses, "both are answered") == [409, 409]
    cluster.start(node)
    let_end(cluster, job["id"])
    job = cluster.wait(job)
    assert job["state"] == "succeeded", cluster.story(job)
    assert cluster.attempts(job) == [("succeeded", "completed")]
    assert cluster.whole_log(job) == output_of(cluster, job["id"])


def test_what_nobody_claims_is_taken_back_and_runs_elsewhere(cluster: Cluster) -> None:
    # The node's silence must not be noticed first: that would be another story.
    with cluster.timers({**PATIENT, "claim_timeout_s": 2, "suspect_after_s": 25, "unreachable_after_s": 28}):
        full = cluster.submit("sleep 1000", gpus=4)
        busy = cluster.until_attempt_runs(full)
        idle = next(name for name in NODES if name != busy)
        cluster.kill(idle)
        job = cluster.submit("echo done", user="blue", gpus=2)
        until(lambda: cluster.attempts(job)[:1] == [("failed", "not_claimed")], "it is taken back")
        assert cluster.client("blue").job(job["id"])["state"] == "queued"
        cluster.client().cancel(full["id"])
        job = cluster.wait(job)
        assert job["state"] == "succeeded", cluster.story(job)
        assert cluster.attempts(job)[-1] == ("succeeded", "completed")
        assert cluster.client("blue").attempts(job["id"])[-1]["allocations"][0]["node"] == busy
        cluster.start(idle)
