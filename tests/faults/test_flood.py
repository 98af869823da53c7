"""A job that prints without end does not slow other jobs, and its log states what it lost."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from muster_client.answers.jobs import Job
from muster_client.calls.logs import LogText
from tests.faults.cluster import Cluster, until
from tests.faults.conftest import Figure, shares
from tests.faults.jobs import let_end
from tests.faults.layout import LOG_CAP_BYTES, LONG, ROUNDS
from tests.waiting import stretched

pytestmark = pytest.mark.timeout(240 * ROUNDS)

LINE = b"0123456789 this line says nothing at all, and says it very often indeed\n"
# It prints this many portions at least, and goes on for as long as anything is measured.
PORTION_BYTES, PORTIONS = len(LINE) * 250_000, 12 * ROUNDS
FLOOD = f"""
n=0
until [ -e $SCRATCH/$MUSTER_JOB_ID.end ] && [ $n -ge {PORTIONS} ]; do
  yes '{LINE.decode().strip()}' | head -c {PORTION_BYTES}
  n=$((n + 1))
  echo $n > $SCRATCH/$MUSTER_JOB_ID.portions
done
"""
# A file fills whole blocks of the file system, and a log has few files.
BLOCKS_BYTES = 64 << 10
LINES, PAUSE_S = 400 if LONG else 40, 0.1
LATE_S = 1.0  # a machine that does nothing else is at a tenth of it
# With few calls, the slowest says more of the machine than of the flood; with two hundred, one in a hundred is no
# accident. A call without an answer is a failure in both.
SHARE_IN_TIME, CALLS = (0.99, 200) if LONG else (0.9, 20)
BETWEEN_CALLS_S = 0.02 if LONG else 0.05


def test_a_flood_is_kept_within_its_cap_and_hurts_nobody_else(cluster: Cluster, figure: Figure) -> None:
    flood = cluster.submit(FLOOD, user="blue")
    until(lambda: portions_of(cluster, flood), "the flood has begun")
    talk = cluster.submit(f"for n in $(seq {LINES}); do date +%s.%N; sleep {PAUSE_S}; done")
    enough = threading.Event()
    with ThreadPoolExecutor(1) as caller:
        calling = caller.submit(_call, cluster, enough)
        try:
            delays = _delays(cluster, talk["id"])
        finally:
            enough.set()
        calls = calling.result()
    assert cluster.attempts(flood) == [("running", "")]
    let_end(cluster, flood["id"])
    assert len(delays) == LINES
    late_s = stretched(LATE_S)
    assert sorted(delays)[len(delays) // 2] < late_s, delays
    assert len(calls) >= CALLS
    assert sum(took_s < late_s for took_s in calls) >= SHARE_IN_TIME * len(calls), sorted(calls)[-5:]
    figure(f"{len(calls)} calls of the API (s)", shares(calls))
    figure(f"{len(delays)} lines, from their print to a reader (s)", shares(delays))
    assert cluster.wait(flood, within_s=60)["state"] == "succeeded", cluster.story(flood)

    query = (
        "SELECT f.size, f.holes, f.complete, a.id FROM logs_logfile f JOIN jobs_allocation a ON a.id = f.allocation_id"
        " JOIN jobs_attempt t ON t.id = a.attempt_id WHERE t.job_id = %s AND f.finished_at IS NOT NULL"
    )
    [(size, holes, complete, _)] = until(lambda: cluster.sql(query, flood["id"]), "its log is closed", 60)
    assert size == portions_of(cluster, flood) * PORTION_BYTES
    figure("bytes of the flood", size)
    assert not complete
    lost = sum(end - start for start, end in holes)
    assert 0 < size - lost <= LOG_CAP_BYTES
    folder = cluster.home / "logs" / f"{flood['id'] % 1000:03d}" / str(flood["id"])
    stored = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    assert stored <= LOG_CAP_BYTES + BLOCKS_BYTES
    # What is kept is what was printed there: the beginning, and the end.
    pages = list(cluster.client("blue").read_logs(flood["id"]))
    assert pages[0].offset == 0
    assert len(pages[0].data) >= LOG_CAP_BYTES // 8
    assert all(before.next_offset <= after.offset for before, after in pairwise(pages))
    whole = LINE * 2
    assert pages[0].data.startswith(whole)
    assert pages[-1].next_offset == size


def portions_of(cluster: Cluster, flood: Job) -> int:
    """The number of portions that the flood has printed."""
    path = cluster.scratch / f"{flood['id']}.portions"
    # It may be empty for the moment in which it is written.
    return int(path.read_text() or 0) if path.exists() else 0


def _delays(cluster: Cluster, job_id: int) -> list[float]:
    """Seconds from each line's print to its arrival at a client that follows the job."""
    delays = []
    rest = ""
    for event in cluster.client().follow_logs(job_id):
        if isinstance(event, LogText):
            *lines, rest = (rest + event.text).split("\n")
            delays += [time.time() - float(line) for line in lines]
    return delays


def _call(cluster: Cluster, enough: threading.Event) -> list[float]:
    """The seconds of each call; fails with the first that is not answered in the client's time."""
    client = cluster.client("blue")
    calls = []
    while not enough.wait(BETWEEN_CALLS_S):
        before = time.perf_counter()
        client.me()
        calls.append(time.perf_counter() - before)
    return calls
