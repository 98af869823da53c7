"""The web process killed, and the whole platform gone for a while: jobs go on and lose no line."""

from __future__ import annotations

import signal

import pytest

from tests.faults.cluster import WEB, WORKER, Cluster, until
from tests.faults.jobs import BEATING, let_end, output_of, stamps_of, starts_of
from tests.faults.layout import HASTY, LONG, PATIENT, ROUNDS

pytestmark = pytest.mark.timeout(240 * ROUNDS)


def test_jobs_go_on_and_keep_every_line_while_web_is_killed(cluster: Cluster) -> None:
    jobs = [cluster.submit(BEATING, user=user) for user in ("red", "blue")]
    for job in jobs:
        cluster.until_attempt_runs(job)
    for _ in range(ROUNDS):
        shown = len(cluster.log(jobs[0]))
        until(lambda shown=shown: len(cluster.log(jobs[0])) > shown, "output arrives")
        cluster.kill(WEB)
        cluster.start(WEB)
    for job in jobs:
        let_end(cluster, job["id"])
    for job in jobs:
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
        assert cluster.attempts(job) == [("succeeded", "completed")]
        assert starts_of(cluster, job["id"]) == ["1"]
        assert cluster.whole_log(job) == output_of(cluster, job["id"])


def test_a_frozen_web_process_costs_nobody_a_lease(cluster: Cluster) -> None:
    # The long run freezes it for longer than a node of an installation may be silent.
    timers = {**PATIENT, "suspect_after_s": 15, "unreachable_after_s": 30, "stop_after_s": 120} if LONG else PATIENT
    frozen_s = 40 if LONG else 3
    with cluster.timers(timers):
        job = cluster.submit(BEATING, gpus=2, nodes=2)
        cluster.until_attempt_runs(job)
        [(frozen_at,)] = cluster.sql("SELECT clock_timestamp()")
        # It keeps its connections and answers nobody, while the worker goes on looking for lost nodes.
        cluster.kill(WEB, signal.SIGSTOP)
        silent_from = stamps_of(cluster, job["id"])[-1]
        until(lambda: stamps_of(cluster, job["id"])[-1] > silent_from + frozen_s, "the job goes on", frozen_s + 30)
        cluster.kill(WEB, signal.SIGCONT)
        cluster.until_whole()
        assert cluster.sql("SELECT kind FROM events_event WHERE kind = 'node.down' AND at > %s", frozen_at) == []
        assert cluster.attempts(job) == [("running", "")]
        let_end(cluster, job["id"])
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
        cluster.whole_log(job)
        for rank in (0, 1):
            assert cluster.log(job, rank=rank) == output_of(cluster, job["id"], rank=rank)


def test_an_outage_of_everything_that_is_shorter_than_stop_after_stops_nobody(cluster: Cluster) -> None:
    # Long enough to make every node look lost, if the platform counted its own silence.
    timers = {**HASTY, "stop_after_s": 60}
    with cluster.timers(timers):
        single, gang = cluster.submit(BEATING, user="blue", gpus=2), cluster.submit(BEATING, gpus=2, nodes=2)
        for job in (single, gang):
            cluster.until_attempt_runs(job)
        cluster.kill(WEB)
        cluster.kill(WORKER)
        cluster.crash_valkey()
        cluster.crash_postgres()
        silent_from = stamps_of(cluster, single["id"])[-1]
        until(
            lambda: stamps_of(cluster, single["id"])[-1] > silent_from + timers["unreachable_after_s"] + 1,
            "the job has outlived the time after which a silent node is unreachable",
        )
        cluster.services.revive()
        ready = [cluster.start_soon(name) for name in (WORKER, WEB)]
        for wait in ready:
            wait()
        cluster.until_whole()
        for job in (single, gang):
            assert cluster.attempts(job) == [("running", "")]
            let_end(cluster, job["id"])
        for job in (single, gang):
            assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
            assert cluster.attempts(job) == [("succeeded", "completed")]
        cluster.whole_log(gang)
        for rank in (0, 1):
            assert cluster.log(gang, rank=rank) == output_of(cluster, gang["id"], rank=rank)
        assert cluster.whole_log(single) == output_of(cluster, single["id"])
