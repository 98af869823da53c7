"""Schedule workers that are killed while jobs come in, one at a time and two at once."""

from __future__ import annotations

import random
import threading

import pytest

from muster_client.shapes import Job
from tests.faults.cluster import SECOND_WORKER, WORKER, Cluster

pytestmark = pytest.mark.timeout(240)

JOBS_BETWEEN_KILLS = 4
COMMAND = 'echo "$MUSTER_ATTEMPT" >> "$SCRATCH/$MUSTER_JOB_ID.starts"; sleep 0.2; echo "rank $MUSTER_RANK"'
SHAPES = ({"gpus": 1}, {"gpus": 2}, {"gpus": 1, "nodes": 2}, {"gpus": 2, "user": "blue"}, {"gpus": 3})


@pytest.mark.parametrize(
    ("names", "kills"), [((WORKER,), 3), ((WORKER, SECOND_WORKER), 8)], ids=["one worker", "two workers at once"]
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
