"""Disks that are full: those of an agent, of the log store, and of Postgres. Jobs go on, and the reason is told."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest

from tests.faults.cluster import FIRST_USER, Cluster, until
from tests.faults.conftest import Figure
from tests.faults.disks import filled, small_disk
from tests.faults.jobs import BEATING, let_end, output_of, stamps_of, until_it_beats
from tests.faults.layout import LONG, ROUNDS

pytestmark = pytest.mark.timeout(240 * ROUNDS)

SMALL_MIB = 16
# What Postgres has left at first: some hundred large jobs.
ROOM_BYTES = 4 << 20
BYTES = "the node's disk is full, and this job takes the most of it"
FILES = "the node's disk has no room for more files (inodes), and this job has the most of them"


def test_a_full_log_store_is_told_and_every_line_arrives_when_there_is_room(cluster: Cluster, figure: Figure) -> None:
    store = cluster.home / "logs"
    store.mkdir(mode=0o700, exist_ok=True)
    told = "SELECT kind FROM events_event WHERE kind LIKE 'logs.%%' ORDER BY id"
    with small_disk(store, SMALL_MIB, with_content=False):
        # Twenty lines of it are more than the last block of a file that is there still takes.
        more = " " + "." * 1000
        job = cluster.submit(BEATING, env={"MORE": more})
        cluster.until_attempt_runs(job)
        until(lambda: b"line 3 " in cluster.log(job), "its output arrives")
        with filled(store):
            other = cluster.wait(cluster.submit("echo $MUSTER_JOB_ID", user="blue"))
            assert other["state"] == "succeeded", cluster.story(other)
            until(lambda: cluster.sql(told) == [("logs.full",)], "that the store is full is told")
            alive = len(stamps_of(cluster, job["id"]))
            until(lambda: len(stamps_of(cluster, job["id"])) > alive + 20, "the job goes on")
            assert cluster.client().me()
            stored, printed = len(cluster.log(job)), len(output_of(cluster, job["id"], more=more))
            assert stored < printed
        let_end(cluster, job["id"])
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
        written = output_of(cluster, job["id"], more=more)
        assert cluster.whole_log(job, within_s=60) == written
        assert cluster.whole_log(other, within_s=60) == b"%d\n" % other["id"]
        assert cluster.sql(told) == [("logs.full",), ("logs.room",)]
        figure("bytes that waited for room", printed - stored)


def test_a_job_lives_on_while_its_nodes_disk_is_full(cluster: Cluster, figure: Figure) -> None:
    node = "n1"
    state = cluster.state_of(node)
    cluster.kill(node)
    with small_disk(state, SMALL_MIB, with_content=True):
        cluster.start(node)
        # It runs on both nodes, so on the one with the small disk as well.
        gang = cluster.submit(BEATING, nodes=2)
        until_it_beats(cluster, gang)
        with filled(state):
            for rank in (0, 1):
                alive = len(stamps_of(cluster, gang["id"], rank=rank))
                until(
                    lambda rank=rank, alive=alive: len(stamps_of(cluster, gang["id"], rank=rank)) > alive + 20,
                    "the rank goes on",
                )
            until(lambda: node_of(cluster, node)["barred"] == "its disk is full", "nothing new may start there")
            waits = cluster.submit("echo done", nodes=2, user="blue")
            until(lambda: cluster.client("blue").job(waits["id"])["hold"], "it is said that the job waits")
            assert cluster.attempts(waits) == []
        assert cluster.wait(waits)["state"] == "succeeded", cluster.story(waits)
        let_end(cluster, gang["id"])
        assert cluster.wait(gang)["state"] == "succeeded", cluster.story(gang)
        # No job filled the disk, so no job was stopped.
        assert [cluster.attempts(job) for job in (gang, waits)] == [[("succeeded", "completed")]] * 2
        cluster.kill(node)
    cluster.start(node)


@pytest.mark.parametrize(
    ("fill", "fast", "why"),
    [
        pytest.param("dd if=/dev/zero bs=64k count=4 status=none >> big; sleep 0.02", False, BYTES, id="bit by bit"),
        pytest.param(
            "trap '' TERM; dd if=/dev/zero bs=1M >> big", True, BYTES, id="as fast as it can, deaf to any signal"
        ),
        pytest.param("n=$((n + 1)); true 2> /dev/null > file.$n", True, FILES, id="with empty files"),
    ],
)
def test_a_job_that_fills_the_disk_is_stopped_and_its_neighbour_goes_on(
    cluster: Cluster, fill: str, fast: bool, why: str
) -> None:
    node = "n1"
    state = cluster.state_of(node)
    cluster.kill(node)
    with small_disk(state, 64, with_content=True, inodes=20_000):
        cluster.start(node)
        # Both run on both nodes, so on the one with the small disk as well.
        neighbour = cluster.submit(BEATING, nodes=2)
        cluster.until_attempt_runs(neighbour)
        before = cluster.sql("SELECT coalesce(max(id), 0) FROM events_event")[0][0]
        strikes = cluster.sql("SELECT id FROM fleet_strike")
        there = f'[ "$MUSTER_NODE" = {node} ] || exec sleep 120'
        hog = cluster.submit(f"{there}; while :; do {fill}; done", nodes=2, user="blue")
        assert cluster.wait(hog, within_s=60)["state"] == "failed", cluster.story(hog)
        assert cluster.attempts(hog) == [("failed", "disk_exceeded")]
        [(detail,)] = cluster.sql("SELECT reason_detail FROM jobs_attempt WHERE job_id = %s", hog["id"])
        assert why in detail
        assert "in work" in detail
        failure = cluster.client("blue").job(hog["id"])["failure"]
        assert failure is not None
        assert failure["class"] == "disk_quota"
        said = "SELECT detail FROM fleet_healthreport WHERE kind = 'disk_full' ORDER BY id DESC LIMIT 1"
        short_of_files = "has no room for more files (inodes)"
        until(lambda: [short_of_files in words for (words,) in cluster.sql(said)] == [why == FILES], "it is said why")
        told = "SELECT kind FROM events_event WHERE id > %s AND kind LIKE 'node.disk%%' ORDER BY id"
        both = [("node.disk_full",), ("node.disk_room",)]
        until(lambda: cluster.sql(told, before) == both, "it is told that the disk was full, and that there is room")
        until(lambda: node_of(cluster, node)["barred"] is None, "the node takes jobs again")
        assert cluster.sql("SELECT id FROM fleet_strike") == strikes
        alive = len(stamps_of(cluster, neighbour["id"]))
        until(lambda: len(stamps_of(cluster, neighbour["id"])) > alive + 20, "the neighbour goes on")
        after = cluster.submit("echo done", nodes=2, user="blue")
        assert cluster.wait(after)["state"] == "succeeded", cluster.story(after)
        let_end(cluster, neighbour["id"])
        assert cluster.wait(neighbour)["state"] == "succeeded", cluster.story(neighbour)
        assert cluster.attempts(neighbour) == [("succeeded", "completed")]
        cluster.whole_log(neighbour, within_s=60)
        for rank in (0, 1):
            stored, printed = cluster.log(neighbour, rank=rank), output_of(cluster, neighbour["id"], rank=rank)
            # What fills the disk between two looks leaves no room for lines of others: then their log says so.
            assert stored == printed if not fast else stored[-100:] == printed[-100:]
        cluster.kill(node)
    cluster.start(node)


@pytest.mark.skipif(not LONG, reason="it takes a cluster of its own: `make faults`")
def test_postgres_without_room_loses_no_accepted_job_and_stops_none(figure: Figure) -> None:
    cluster = Cluster()
    try:
        assert cluster.services.places is not None
        data = cluster.services.places.postgres_data
        job = cluster.submit(BEATING, nodes=2)
        until_it_beats(cluster, job)
        cluster.crash_postgres()
        used = sum(path.stat().st_blocks * 512 for path in data.rglob("*") if path.is_file())
        with small_disk(data, (used >> 20) + 64, with_content=True):
            cluster.services.revive()
            until(lambda: _submit(cluster) is not None, "jobs are accepted")
            ledger = []
            with filled(data, but_bytes=ROOM_BYTES):
                while (accepted := _submit(cluster)) is not None:
                    ledger.append(accepted)
                alive = len(stamps_of(cluster, job["id"]))
                until(lambda: len(stamps_of(cluster, job["id"])) > alive + 100, "the job goes on", 60)
            # A Postgres that could not write its WAL has ended; its supervisor starts it again.
            until(lambda: bool(cluster.services.revive()) or _submit(cluster) is not None, "Postgres is back", 60)
            until(lambda: _submit(cluster) is not None, "jobs are accepted again", 60)
            assert ledger
            assert set(ledger) <= {row[0] for row in cluster.sql("SELECT id FROM jobs_job")}
            assert cluster.attempts(job) == [("running", "")]
            let_end(cluster, job["id"])
            assert cluster.wait(job, within_s=60)["state"] == "succeeded", cluster.story(job)
            for rank in (0, 1):
                cluster.whole_log(job, within_s=60)
                assert cluster.log(job, rank=rank) == output_of(cluster, job["id"], rank=rank)
            figure("jobs accepted before Postgres had no room, and still there", len(ledger))
            cluster.stop()
    finally:
        cluster.stop()


def node_of(cluster: Cluster, name: str) -> dict[str, Any]:
    """The node as the interface tells it."""
    return dict(cluster.client().node(name))


def _submit(cluster: Cluster) -> int | None:
    """The number of a new job, or None where the call was refused; it is large, so that little room is soon none."""
    answer = httpx.post(
        f"{cluster.url}/api/v1/jobs",
        json={"vc": FIRST_USER, "command": "true", "env": {"LARGE": random.randbytes(16_000).hex()}},
        headers={"Authorization": f"Bearer {cluster.tokens[FIRST_USER]}"},
        timeout=30,
        trust_env=False,
    )
    assert answer.status_code in {201, 503}, answer.text
    return int(answer.json()["id"]) if answer.status_code == 201 else None
