"""A job that prints without end: it hurts nobody but itself, and its log says what it lost."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest

from muster_client.logs import LogText
from tests.faults.cluster import Cluster, until
from tests.faults.layout import LOG_CAP_BYTES, ROUNDS

pytestmark = pytest.mark.timeout(240 * ROUNDS)

FLOOD_BYTES = 200_000_000
LINE = b"0123456789 this line says nothing at all, and says it very often indeed\n"
# A file fills whole blocks of the file system, and a log has few files.
BLOCKS_BYTES = 64 << 10
LINES, PAUSE_S = 40, 0.1
LATE_S = 1.0  # a machine that does nothing else is at a tenth of it


def test_a_flood_is_kept_within_its_cap_and_hurts_nobody_else(cluster: Cluster) -> None:
    flood = cluster.submit(f"yes '{LINE.decode().strip()}' | head -c {FLOOD_BYTES}", user="blue")
    talk = cluster.submit(f"for n in $(seq {LINES}); do date +%s.%N; sleep {PAUSE_S}; done")
    calls: list[float] = []
    enough = threading.Event()
    caller = threading.Thread(target=_call, args=(cluster, calls, enough))
    caller.start()
    try:
        delays = _delays(cluster, talk["id"])
    finally:
        enough.set()
        caller.join()
    assert len(delays) == LINES
    assert sorted(delays)[len(delays) // 2] < LATE_S, delays
    assert sorted(calls)[int(len(calls) * 0.99)] < LATE_S, sorted(calls)[-5:]
    assert cluster.wait(flood, within_s=60)["state"] == "succeeded", cluster.story(flood)

    query = (
        "SELECT f.size, f.holes, f.complete, a.id FROM logs_logfile f JOIN jobs_allocation a ON a.id = f.allocation_id"
        " JOIN jobs_attempt t ON t.id = a.attempt_id WHERE t.job_id = %s AND f.finished_at IS NOT NULL"
    )
    [(size, holes, complete, _)] = until(lambda: cluster.sql(query, flood["id"]), "its log is closed", 60)
    assert size == FLOOD_BYTES
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


def _delays(cluster: Cluster, job_id: int) -> list[float]:
    """Seconds from each line's print to its arrival at a client that follows the job."""
    delays = []
    rest = ""
    for event in cluster.client().follow_logs(job_id):
        if isinstance(event, LogText):
            *lines, rest = (rest + event.text).split("\n")
            delays += [time.time() - float(line) for line in lines]
    return delays


def _call(cluster: Cluster, calls: list[float], enough: threading.Event) -> None:
    client = cluster.client("blue")
    while not enough.wait(0.05):
        before = time.perf_counter()
        client.me()
        calls.append(time.perf_counter() - before)
