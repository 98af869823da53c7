"""Disks that are full: those of an agent, of the log store, and of Postgres. Jobs go on, and the reason is told."""

from __future__ import annotations

import pytest

from tests.faults.cluster import Cluster, until
from tests.faults.conftest import Figure
from tests.faults.disks import filled, small_disk
from tests.faults.jobs import BEATING, let_end, output_of, stamps_of
from tests.faults.layout import ROUNDS

pytestmark = pytest.mark.timeout(240 * ROUNDS)

SMALL_MIB = 16


def test_a_full_log_store_is_told_and_every_line_arrives_when_there_is_room(cluster: Cluster, figure: Figure) -> None:
    store = cluster.home / "logs"
    store.mkdir(mode=0o700, exist_ok=True)
    told = "SELECT kind FROM events_event WHERE kind LIKE 'logs.%%' ORDER BY id"
    with small_disk(store, SMALL_MIB, with_content=False):
        job = cluster.submit(BEATING)
        cluster.until_attempt_runs(job)
        until(lambda: b"line 3\n" in cluster.log(job), "its output arrives")
        with filled(store):
            # The last block of a file that is there still takes some lines, a new file none.
            other = cluster.wait(cluster.submit("echo $MUSTER_JOB_ID", user="blue"))
            assert other["state"] == "succeeded", cluster.story(other)
            until(lambda: cluster.sql(told) == [("logs.full",)], "that the store is full is told")
            alive = len(stamps_of(cluster, job["id"]))
            until(lambda: len(stamps_of(cluster, job["id"])) > alive + 20, "the job goes on")
            assert cluster.client().me()
            stored = len(cluster.log(job))
        let_end(cluster, job["id"])
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
        written = output_of(cluster, job["id"])
        assert cluster.whole_log(job, within_s=60) == written
        assert cluster.whole_log(other, within_s=60) == b"%d\n" % other["id"]
        assert cluster.sql(told) == [("logs.full",), ("logs.room",)]
        figure("bytes that waited for room", len(written) - stored)


def test_a_job_lives_on_while_its_nodes_disk_is_full(cluster: Cluster, figure: Figure) -> None:
    node = "n1"
    state = cluster.state_of(node)
    cluster.kill(node)
    with small_disk(state, SMALL_MIB, with_content=True):
        cluster.start(node)
        # It runs on both nodes, so on the one with the small disk as well.
        gang = cluster.submit(BEATING, nodes=2)
        cluster.until_attempt_runs(gang)
        with filled(state):
            for rank in (0, 1):
                alive = len(stamps_of(cluster, gang["id"], rank=rank))
                until(
                    lambda rank=rank, alive=alive: len(stamps_of(cluster, gang["id"], rank=rank)) > alive + 20,
                    "the rank goes on",
                )
            refused = cluster.submit("echo done", nodes=2, user="blue")
            [(_, detail)] = until(
                lambda: cluster.sql(
                    "SELECT state, reason_detail FROM jobs_attempt WHERE job_id = %s AND reason = 'launch_failed'"
                    " ORDER BY number LIMIT 1",
                    refused["id"],
                ),
                "what cannot be started there is said to be so",
            )
            assert "No space left on device" in detail
        let_end(cluster, gang["id"])
        assert cluster.wait(gang)["state"] == "succeeded", cluster.story(gang)
        cluster.kill(node)
    cluster.start(node)
