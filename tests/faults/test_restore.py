"""A backup of the running platform, and its restore after everything was killed: agents and their jobs run on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from muster_client.answers.jobs import Job
from muster_client.errors import ApiError
from tests.faults.cluster import WEB, WORKER, Cluster, overlapping_claims, processes_with, until
from tests.faults.layout import NODES

TIMERS = {"stop_after_s": 120, "max_grace_s": 5, "unreachable_after_s": 20}
SOON = {**TIMERS, "stop_after_s": 25}
# Leaves its process and the time ten times a second, until the test says that it may end.
BEATING = """
exec python3 -u - <<'END'
import os, time
path = os.environ["SCRATCH"] + "/" + os.environ["MUSTER_JOB_ID"]
end = time.time() + 600
with open(path + ".beats", "a", buffering=1) as beats:
    while time.time() < end and not os.path.exists(path + ".end"):
        beats.write("%d %.6f\\n" % (os.getpid(), time.time()))
        print("a line")
        time.sleep(0.1)
END
"""
GIVEN = "SELECT t.job_id, t.id, a.id FROM jobs_attempt t JOIN jobs_allocation a ON a.attempt_id = t.id"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of its own, whose database may be replaced."""
    cluster = Cluster()
    try:
        with cluster.timers(TIMERS):
            yield cluster
            assert overlapping_claims(cluster) == []
    finally:
        cluster.stop()


def beats_of(cluster: Cluster, job: Job) -> dict[int, list[float]]:
    """Times at which each process of the job was alive, in the order in which they started."""
    path = cluster.scratch / f"{job['id']}.beats"
    beats: defaultdict[int, list[float]] = defaultdict(list)
    for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):
            pid, at = line.split()
            beats[int(pid)].append(float(at))
    return dict(beats)


def beating(cluster: Cluster, job: Job, *, processes: int = 1) -> None:
    until(lambda: len(beats_of(cluster, job)) == processes, f"process {processes} of job {job['id']} beats", 60)


def test_after_a_restore_agents_come_back_and_nothing_runs_or_is_given_twice(cluster: Cluster, tmp_path: Path) -> None:
    known = cluster.submit(BEATING)
    ends_later = cluster.submit(BEATING, gpus=4)
    for job in (known, ends_later):
        beating(cluster, job)
    waits = cluster.submit(BEATING, gpus=4)
    backup = tmp_path / "backup.tar"
    made = cluster.manage("backup", str(backup))
    assert made.returncode == 0, made.stderr
    assert "It has no keys" in made.stdout
    assert str(cluster.home / "encryption_key") in made.stdout

    # After the backup one job ends, the waiting job starts, and a third job is submitted and starts.
    (cluster.scratch / f"{ends_later['id']}.end").touch()
    assert cluster.wait(ends_later)["state"] == "succeeded"
    beating(cluster, waits)
    late = cluster.submit(BEATING, user="blue")
    beating(cluster, late)
    given = cluster.sql(GIVEN)
    pids = {name: cluster.pid(name) for name in NODES}
    for name in (WEB, WORKER):
        cluster.kill(name)

    refused = cluster.manage("restore", str(backup))
    assert refused.returncode == 1
    assert "the database is not empty: --replace deletes it" in refused.stderr
    restored = cluster.manage("restore", str(backup), "--replace", "--no-new-nodes")
    assert restored.returncode == 0, restored.stderr
    for name in (WEB, WORKER):
        cluster.start(name)

    # The job that the backup knows goes on, under the agents that ran all the time.
    until(lambda: not cluster.sql("SELECT name FROM fleet_node WHERE must_report"), "each node has reported", 60)
    assert {name: cluster.pid(name) for name in NODES if cluster.runs(name)} == pids
    count = len(next(iter(beats_of(cluster, known).values())))
    until(lambda: len(next(iter(beats_of(cluster, known).values()))) > count + 10, "it goes on")
    # What it does not know was stopped before anything was placed.
    beating(cluster, waits, processes=2)
    beating(cluster, ends_later, processes=1)
    assert not processes_with(cluster.mark(late))
    with pytest.raises(ApiError):
        cluster.client("blue").job(late["id"])
    [(resumed_at, unknown)] = cluster.sql("SELECT resumed_at, unknown FROM events_restore")
    assert sorted(one["job"] for one in unknown) == [waits["id"], late["id"]]
    last_beat = max(max(next(iter(beats_of(cluster, job).values()))) for job in (waits, late))
    placed = "SELECT min(extract(epoch FROM placed_at))::float FROM jobs_attempt WHERE id > %s"
    last = [max(ids) for ids in zip(*given, strict=True)]
    [(first_placed,)] = cluster.sql(placed, last[1])
    assert last_beat < resumed_at.timestamp() < first_placed
    # How the other one ended is lost with the database; it is tried again, as another attempt.
    until(lambda: cluster.attempts(ends_later)[:1] == [("lost", "unknown")], "it is lost")
    fresh = cluster.submit(BEATING, user="blue")
    beating(cluster, fresh)
    for job in (known, ends_later, waits, fresh):
        (cluster.scratch / f"{job['id']}.end").touch()
        assert cluster.wait(job, within_s=60)["state"] == "succeeded", cluster.story(job)
    assert cluster.attempts(known) == [("succeeded", "completed")]
    assert cluster.whole_log(known) == b"a line\n" * len(next(iter(beats_of(cluster, known).values())))
    for job in (known, ends_later, waits, late, fresh):
        runs = list(beats_of(cluster, job).values())
        assert all(before[-1] < after[0] for before, after in pairwise(runs)), job["id"]
    # No id is given twice.
    assert fresh["id"] > last[0]
    new = cluster.sql(f"{GIVEN} WHERE t.placed_at >= %s", resumed_at)
    assert len(new) == 3
    assert all(attempt > last[1] and allocation > last[2] for _, attempt, allocation in new)


def test_a_job_on_a_node_that_the_backup_does_not_know_ends_before_it_is_placed_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    with cluster.timers(SOON):
        cluster.sql("UPDATE fleet_node SET admin = 'cordoned', reason = 'so that jobs wait', version = version + 1")
        job = cluster.submit(BEATING)
        assert cluster.manage("backup", str(tmp_path / "backup")).returncode == 0
        cluster.add_node("n3")
        beating(cluster, job)
        for name in (WEB, WORKER):
            cluster.kill(name)
        restored = cluster.manage("restore", str(tmp_path / "backup"), "--replace")
        assert restored.returncode == 0, restored.stderr
        cluster.sql("UPDATE fleet_node SET admin = 'active', reason = '', version = version + 1")
        for name in (WEB, WORKER):
            cluster.start(name)
        until(lambda: not cluster.runs("n3"), "the agent of the unknown node leaves", 40)
        assert cluster.exit_status("n3") == 4
        assert "The platform was restored from a backup of" in cluster.said("n3")
        hold = "SELECT hold->>'detail' FROM jobs_job WHERE id = %s AND hold_reason = 'maintenance'"
        [(detail,)] = until(lambda: cluster.sql(hold, job["id"]), "it says why it waits")
        assert "nodes that joined after the backup until" in detail
        beating(cluster, job, processes=2)
        first, second = beats_of(cluster, job).values()
        assert first[-1] < second[0]
        (cluster.scratch / f"{job['id']}.end").touch()
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
