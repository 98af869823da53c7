"""Schedule workers that are killed while jobs come in, one at a time and two at once."""

from __future__ import annotations

import random
import signal
import threading

import pytest

from muster_client.answers.jobs import Job
from tests.faults.cluster import SECOND_WORKER, WORKER, Cluster, until
from tests.faults.layout import ROUNDS

pytestmark = pytest.mark.timeout(240 * ROUNDS)

JOBS_BETWEEN_KILLS = 4
COMMAND = 'echo "$MUSTER_ATTEMPT" >> "$SCRATCH/$MUSTER_JOB_ID.starts"; sleep 0.2; echo "rank $MUSTER_RANK"'
SHAPES = ({"gpus": 1}, {"gpus": 2}, {"gpus": 1, "nodes": 2}, {"gpus": 2, "user": "blue"}, {"gpus": 3})


@pytest.mark.parametrize(
    ("names", "kills"),
    [((WORKER,), 2 * ROUNDS), ((WORKER, SECOND_WORKER), 8 * ROUNDS)],
    ids=["one worker", "two workers at once"],
)
def test_killed_workers_lose_no_job_and_start_none_twice(cluster: Cluster, names: tuple[str, ...], kills: int) -> None:
    chance = random.Random(len(names))
    # What a client was told is stored: the database must know every one of these, whatever was killed when.
    ledger: list[Job] = []
    waiting = {name: cluster.start_soon(name) for name in names if not cluster.runs(name)}
    for number in range(kills):
        victim = names[number % len(names)]
        if victim in waiting:
            waiting.pop(victim)()
        ledger += [cluster.submit(COMMAND, **chance.choice(SHAPES)) for _ in range(JOBS_BETWEEN_KILLS)]
        threading.Event().wait(chance.uniform(0, 0.2))  # the moment of the kill is left to chance
        cluster.kill(victim)
        waiting[victim] = cluster.start_soon(victim)
    for job in ledger:
        assert cluster.wait(job, within_s=90)["state"] == "succeeded", cluster.story(job)
        assert cluster.attempts(job) == [("succeeded", "completed")]
        starts = (cluster.scratch / f"{job['id']}.starts").read_text().split()
        assert starts == ["1"] * job["spec"]["nodes"]
    assert len({job["id"] for job in ledger}) == kills * JOBS_BETWEEN_KILLS


def test_a_frozen_worker_holds_nobody_up_and_changes_nothing_when_it_wakes(cluster: Cluster) -> None:
    cluster.start(SECOND_WORKER)
    # Not within a cycle: then its lock of the pool would be waited for, and taken from it after half a minute.
    held = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"
    while True:
        cluster.kill(WORKER, signal.SIGSTOP)
        if not cluster.sql(held):
            break
        cluster.kill(WORKER, signal.SIGCONT)
        until(lambda: not cluster.sql(held), "the cycle ends")
    jobs = [cluster.submit(COMMAND, **shape) for shape in SHAPES]
    for job in jobs:
        assert cluster.wait(job, within_s=60)["state"] == "succeeded", cluster.story(job)
    query = "SELECT id, state, attempt_count, reason FROM jobs_job ORDER BY id"
    ended = cluster.sql(query)
    cluster.kill(WORKER, signal.SIGCONT)
    cluster.kill(SECOND_WORKER)
    # The woken one does the next job's work, by which time it has looked at everything that waited for it.
    after = cluster.wait(cluster.submit(COMMAND))
    assert after["state"] == "succeeded"
    assert cluster.sql(query)[: len(ended)] == ended
    assert cluster.attempts(after) == [("succeeded", "completed")]
