"""The web process killed, and the whole platform gone for a while: jobs go on and lose no line."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest

from muster.fleet.leases import MAX_SILENCE_S
from tests.faults.cluster import WEB, WORKER, Cluster, until
from tests.faults.jobs import BEATING, let_end, output_of, stamps_of, starts_of, until_it_beats
from tests.faults.layout import LONG, PATIENT, ROUNDS

pytestmark = pytest.mark.timeout(240 * ROUNDS)

# A shorter silence of the platform counts as the nodes' own. Those here are longer, and so long that every node would
# be given up if they counted.
SILENT_FOR: Mapping[str, float] = {
    **PATIENT,
    "suspect_after_s": MAX_SILENCE_S / 2,
    "unreachable_after_s": MAX_SILENCE_S + 2,
    "stop_after_s": 120,
}
INSTALLED: Mapping[str, float] = {
    **PATIENT,
    "suspect_after_s": 15,
    "unreachable_after_s": 30,
    "stop_after_s": 120,
}


def until_judged(cluster: Cluster, moment: object, *, after_s: float) -> None:
    """Returns when the worker has looked for lost nodes, and again, later than so long after the moment."""
    query = "SELECT at FROM fleet_tick WHERE name = 'reaper' AND at > %s + make_interval(secs => %s)"
    [(first,)] = until(lambda: cluster.sql(query, moment, after_s), "the worker looks")
    until(lambda: cluster.sql(query, first, 0), "the worker has looked")


def down_since(cluster: Cluster, moment: object) -> list[tuple[str]]:
    """The events of nodes that were given up since then."""
    return cluster.sql("SELECT kind FROM events_event WHERE kind = 'node.down' AND at > %s", moment)


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
    timers = INSTALLED if LONG else SILENT_FOR
    frozen_s = 40 if LONG else timers["unreachable_after_s"] + 3
    with cluster.timers(timers):
        job = cluster.submit(BEATING, gpus=2, nodes=2)
        until_it_beats(cluster, job)
        [(frozen_at,)] = cluster.sql("SELECT clock_timestamp()")
        # It keeps its connections and answers no call, while the worker goes on looking for lost nodes.
        cluster.kill(WEB, signal.SIGSTOP)
        silent_from = stamps_of(cluster, job["id"])[-1]
        until(lambda: stamps_of(cluster, job["id"])[-1] > silent_from + frozen_s, "the job goes on", frozen_s + 30)
        until_judged(cluster, frozen_at, after_s=timers["unreachable_after_s"] + 1)
        cluster.kill(WEB, signal.SIGCONT)
        cluster.until_whole()
        assert down_since(cluster, frozen_at) == []
        assert cluster.attempts(job) == [("running", "")]
        let_end(cluster, job["id"])
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
        cluster.whole_log(job)
        for rank in (0, 1):
            assert cluster.log(job, rank=rank) == output_of(cluster, job["id"], rank=rank)


def test_an_outage_of_everything_that_is_shorter_than_stop_after_stops_nobody(cluster: Cluster) -> None:
    with cluster.timers(SILENT_FOR):
        single, gang = cluster.submit(BEATING, user="blue", gpus=2), cluster.submit(BEATING, gpus=2, nodes=2)
        for job in (single, gang):
            until_it_beats(cluster, job)
        [(gone_at,)] = cluster.sql("SELECT clock_timestamp()")
        cluster.kill(WEB)
        cluster.kill(WORKER)
        cluster.crash_valkey()
        cluster.crash_postgres()
        silent_from = stamps_of(cluster, single["id"])[-1]
        until(
            lambda: stamps_of(cluster, single["id"])[-1] > silent_from + SILENT_FOR["unreachable_after_s"] + 1,
            "the job has outlived the time after which a silent node is unreachable",
            60,
        )
        cluster.services.revive()
        # The worker judges the nodes before one of them can have been heard.
        cluster.start(WORKER)
        until_judged(cluster, gone_at, after_s=SILENT_FOR["unreachable_after_s"] + 1)
        cluster.start(WEB)
        cluster.until_whole()
        assert down_since(cluster, gone_at) == []
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
