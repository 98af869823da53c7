"""Many submissions at once, and many slow readers: no job is lost, and other calls are served."""

from __future__ import annotations

import contextlib
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from muster_client.errors import ApiError
from tests.faults.cluster import Cluster, until
from tests.faults.conftest import Figure, shares
from tests.faults.jobs import let_end
from tests.faults.layout import LOG_CAP_BYTES, LONG, QUOTAS, ROUNDS
from tests.waiting import stretched

pytestmark = pytest.mark.timeout(240 * ROUNDS)

SUBMISSIONS, CLIENTS = (10_000, 200) if LONG else (300, 20)
READERS = 200 if LONG else 20
LINE_BYTES = 100_000_000 if LONG else 5_000_000
CALLS, LATE_S = 40, 1.0
# A machine that is busy with other tests may be late with a call now and then.
IN_TIME = 0.9

# One line, and a job that goes on until it is told to end.
ONE_LINE = """
exec python3 -u - <<'END'
import os, sys, time
for _ in range({size} // 1000):
    sys.stdout.write("0123456789" * 100)
sys.stdout.write("\\n")
while not os.path.exists(os.environ["SCRATCH"] + "/" + os.environ["MUSTER_JOB_ID"] + ".end"):
    time.sleep(0.05)
END
"""


def test_a_burst_of_submissions_is_accounted_for_to_the_last_one(cluster: Cluster, figure: Figure) -> None:
    if not LONG:
        _burst(cluster, figure)
        _cancel_the_rest(cluster)
        return
    own = Cluster()  # to cancel ten thousand jobs takes longer than to submit them: they go with their cluster
    try:
        _burst(own, figure)
    finally:
        own.stop()


def _burst(cluster: Cluster, figure: Figure) -> None:
    users = list(QUOTAS)
    [(newest,)] = cluster.sql("SELECT coalesce(max(id), 0) FROM jobs_job")

    def send(client: int) -> list[tuple[int, float, int | None]]:
        user = users[client % len(users)]
        headers = {"Authorization": f"Bearer {cluster.tokens[user]}"}
        answers = []
        with httpx.Client(base_url=cluster.url, headers=headers, timeout=60, trust_env=False) as http:
            for _ in range(SUBMISSIONS // CLIENTS):
                before = time.perf_counter()
                answer = _submit(http, {"vc": user, "command": "true", "gpus": 1, "name": "burst"}, broken)
                accepted = answer.json()["id"] if answer.status_code == 201 else None
                answers.append((answer.status_code, time.perf_counter() - before, accepted))
        return answers

    broken: list[str] = []
    with ThreadPoolExecutor(CLIENTS) as clients:
        began = time.perf_counter()
        answers = [answer for sent in clients.map(send, range(CLIENTS)) for answer in sent]
        took_s = time.perf_counter() - began
    assert len(answers) == SUBMISSIONS
    assert {status for status, _, _ in answers} <= {201, 429}
    ledger = {accepted for _, _, accepted in answers if accepted is not None}
    stored = {row[0] for row in cluster.sql("SELECT id FROM jobs_job WHERE id > %s AND name = 'burst'", newest)}
    assert len(ledger) == sum(status == 201 for status, _, _ in answers)
    assert ledger == stored
    figure("submissions, clients, 201, 429", f"{SUBMISSIONS}, {CLIENTS}, {len(ledger)}, {SUBMISSIONS - len(ledger)}")
    figure(f"seconds a submission took ({SUBMISSIONS / took_s:.0f} a second)", shares([s for _, s, _ in answers]))
    figure("calls that broke off, and were sent again with their key", len(broken))


def _submit(http: httpx.Client, spec: dict[str, object], broken: list[str]) -> httpx.Response:
    """The answer; a call that broke off is sent again by its key, as any client would: it makes one job, not two."""
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    while True:
        try:
            return http.post("/api/v1/jobs", json=spec, headers=headers)
        except httpx.TransportError as error:
            broken.append(repr(error))
            assert len(broken) < SUBMISSIONS / 10, broken[-1]


def test_a_line_without_end_and_readers_who_do_not_read_hold_nobody_up(cluster: Cluster, figure: Figure) -> None:
    job = cluster.submit(ONE_LINE.format(size=LINE_BYTES))
    cluster.until_attempt_runs(job)
    address = urlsplit(cluster.url)
    request = (
        f"GET /api/v1/jobs/{job['id']}/logs?follow=1 HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Authorization: Bearer {cluster.tokens[job['owner']]}\r\nAccept: text/event-stream\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        for _ in range(READERS):
            reader = stack.enter_context(socket.socket())
            # What the kernel would take in for a reader must not be mistaken for reading.
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.settimeout(60)
            reader.connect((address.hostname, address.port))
            reader.sendall(request.encode())
            assert reader.recv(15) == b"HTTP/1.1 200 OK"
        calls = []
        for _ in range(CALLS):
            before = time.perf_counter()
            cluster.client("blue").me()
            calls.append(time.perf_counter() - before)
        assert sum(took_s < stretched(LATE_S) for took_s in calls) >= IN_TIME * len(calls), sorted(calls)
        other = cluster.wait(cluster.submit("echo done", user="blue"))
        assert other["state"] == "succeeded", cluster.story(other)
        let_end(cluster, job["id"])
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
        query = (
            "SELECT f.size, f.holes FROM logs_logfile f JOIN jobs_allocation a ON a.id = f.allocation_id"
            " JOIN jobs_attempt t ON t.id = a.attempt_id WHERE t.job_id = %s AND f.finished_at IS NOT NULL"
        )
        [(size, holes)] = until(lambda: cluster.sql(query, job["id"]), "its log is closed", 60)
    written = b"0123456789" * (LINE_BYTES // 10) + b"\n"
    pages = list(cluster.client().read_logs(job["id"]))
    assert size == len(written)
    assert all(page.data == written[page.offset : page.offset + len(page.data)] for page in pages)
    kept = sum(len(page.data) for page in pages)
    assert kept == size - sum(end - start for start, end in holes)
    assert bool(holes) == (size > LOG_CAP_BYTES)
    figure(f"{len(calls)} calls beside {READERS} readers who do not read (s)", shares(calls))
    figure("bytes of one line, and kept of it", f"{size}, {kept}")


def _cancel_the_rest(cluster: Cluster) -> None:
    """Ends what still waits, by many hands: one after the other would take as long as the burst."""

    def cancel(job: tuple[str, int]) -> None:
        owner, job_id = job
        with contextlib.suppress(ApiError):  # it has ended meanwhile
            cluster.client(owner).cancel(job_id)

    waiting = cluster.sql(
        "SELECT u.username, j.id FROM jobs_job j JOIN accounts_user u ON u.id = j.owner_id"
        " WHERE j.state IN ('queued', 'active') ORDER BY j.id DESC"
    )
    with ThreadPoolExecutor(CLIENTS) as hands:
        list(hands.map(cancel, waiting))
    until(lambda: not cluster.sql("SELECT id FROM jobs_job WHERE state IN ('queued', 'active')"), "all has ended", 120)
