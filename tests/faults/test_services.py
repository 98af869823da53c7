"""Postgres crashes and comes back, Valkey vanishes and forgets: the platform goes on by itself."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import redis

from tests.faults.cluster import FIRST_USER, WEB, WORKER, Cluster, until
from tests.faults.conftest import Figure
from tests.faults.jobs import BEATING, let_end, output_of
from tests.faults.layout import PATIENT, ROUNDS
from tests.waiting import stretched

pytestmark = pytest.mark.timeout(240 * ROUNDS)

# Two sweeps of the worker's own timer; an agent that is not woken asks again after five seconds; and a busy machine.
PLACED_WITHIN_S, DONE_WITHIN_S = 10, 30


def submit_directly(cluster: Cluster, command: str = "echo direct") -> httpx.Response:
    """One call and its answer, whatever that is; the client would try again."""
    return httpx.post(
        f"{cluster.url}/api/v1/jobs",
        json={"vc": FIRST_USER, "command": command, "gpus": 1},
        headers={"Authorization": f"Bearer {cluster.tokens[FIRST_USER]}"},
        timeout=30,
        trust_env=False,
    )


def _submit_all_the_time(cluster: Cluster, enough: threading.Event) -> list[httpx.Response]:
    answers = []
    while not enough.wait(0.05):
        answers.append(submit_directly(cluster))
    return answers


def test_postgres_crashes_and_everything_goes_on_where_it_was(cluster: Cluster, figure: Figure) -> None:
    # An outage of less than ten seconds is the platform's word for a pause, which an installation's timers allow for.
    with cluster.timers({**PATIENT, "suspect_after_s": 15, "unreachable_after_s": 30, "stop_after_s": 120}):
        _crash_and_go_on(cluster, figure)


def _crash_and_go_on(cluster: Cluster, figure: Figure) -> None:
    [(begun,)] = cluster.sql("SELECT clock_timestamp()")
    running = cluster.submit(BEATING, gpus=4)
    cluster.until_attempt_runs(running)
    waiting = [cluster.submit("echo done", gpus=4) for _ in range(3)]
    before = {name: cluster.pid(name) for name in (WEB, WORKER)}
    [(newest,)] = cluster.sql("SELECT max(id) FROM jobs_job")
    enough = threading.Event()
    beaten = "SELECT min(seen_at) > %s FROM fleet_nodelease"
    with ThreadPoolExecutor(1) as clients:
        answering = clients.submit(_submit_all_the_time, cluster, enough)
        try:
            for _ in range(2 * ROUNDS):
                cluster.crash_postgres()
                assert submit_directly(cluster, "true").status_code == 503
                assert cluster.services.revive() == ["Postgres"]
                until(lambda: submit_directly(cluster, "true").status_code == 201, "web has found Postgres again")
                # Outages without a beat between them would be one, and longer than the agents may wait.
                [(back,)] = cluster.sql("SELECT clock_timestamp()")
                until(lambda back=back: cluster.sql(beaten, back) == [(True,)], "every agent is heard again", 60)
        finally:
            enough.set()
        answers = answering.result()
    # Every job that a client was told of is there. Of those whose client was told otherwise some may be: an answer can
    # be lost behind the commit.
    ledger = {answer.json()["id"] for answer in answers if answer.status_code == 201}
    refused = sum(answer.status_code != 201 for answer in answers)
    query = "SELECT id FROM jobs_job WHERE id > %s AND spec->>'command' = 'echo direct'"
    stored = {row[0] for row in cluster.sql(query, newest)}
    assert ledger <= stored
    assert len(stored) - len(ledger) <= refused
    figure("crashes of Postgres", 2 * ROUNDS)
    figure("jobs accepted, refused, and stored", f"{len(ledger)}, {refused}, {len(stored)}")
    assert {job["id"] for job in (running, *waiting)} <= {row[0] for row in cluster.sql("SELECT id FROM jobs_job")}
    assert cluster.attempts(running) == [("running", "")]
    assert cluster.sql("SELECT kind FROM events_event WHERE kind = 'node.down' AND at > %s", begun) == []
    let_end(cluster, running["id"])
    for job in (running, *waiting):
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
        assert cluster.attempts(job) == [("succeeded", "completed")]
    assert cluster.whole_log(running) == output_of(cluster, running["id"])
    assert all(cluster.runs(name) and cluster.pid(name) == pid for name, pid in before.items())


def test_jobs_are_accepted_and_run_without_valkey(cluster: Cluster) -> None:
    cluster.crash_valkey()
    answers = [submit_directly(cluster) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    for answer in answers:
        job = cluster.wait(answer.json(), within_s=DONE_WITHIN_S)
        assert job["state"] == "succeeded", cluster.story(job)
        [(delay_s,)] = cluster.sql(
            "SELECT extract(epoch FROM t.placed_at - j.submitted_at) FROM jobs_attempt t"
            " JOIN jobs_job j ON j.id = t.job_id WHERE j.id = %s",
            job["id"],
        )
        assert delay_s < stretched(PLACED_WITHIN_S)
        assert cluster.whole_log(job) == b"direct\n"
    assert cluster.services.revive() == ["Valkey"]
    job = cluster.wait(cluster.submit("echo with it again"))
    assert job["state"] == "succeeded", cluster.story(job)


def test_jobs_run_while_valkey_forgets_everything_all_the_time(cluster: Cluster) -> None:
    enough = threading.Event()

    def forget() -> None:
        with redis.Redis.from_url(cluster.services.redis_url) as link:
            while not enough.wait(0.01):
                link.flushall()

    thread = threading.Thread(target=forget)
    thread.start()
    try:
        jobs = [cluster.submit("echo done", user=user) for user in ("red", "red", "blue") * 5]
        for job in jobs:
            assert cluster.wait(job, within_s=DONE_WITHIN_S)["state"] == "succeeded", cluster.story(job)
            assert cluster.attempts(job) == [("succeeded", "completed")]
    finally:
        enough.set()
        thread.join()


def test_web_and_worker_say_again_that_they_work_after_a_table_was_not_there(cluster: Cluster) -> None:
    # As it is while a new version's migrations have not run yet. Without these ticks no node would ever count as lost.
    last = "SELECT name, at FROM fleet_tick WHERE name IN ('web', 'reaper') ORDER BY name"
    complaints = {WEB: "tick_failed", WORKER: "sweep_failed"}
    before = {name: cluster.said(name).count(text) for name, text in complaints.items()}
    cluster.sql("ALTER TABLE fleet_tick RENAME TO fleet_tick_away")
    try:
        for name, text in complaints.items():
            until(lambda name=name, text=text: cluster.said(name).count(text) > before[name], f"{name} complains")
    finally:
        cluster.sql("ALTER TABLE fleet_tick_away RENAME TO fleet_tick")
    old = dict(cluster.sql(last))
    until(lambda: all(at > old[name] for name, at in cluster.sql(last)), "both go on")
