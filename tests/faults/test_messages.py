"""Messages between agents and platform lost, cut in the middle, doubled and late: logs are exact, or say where not."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable

import pytest

from muster_client.answers.jobs import Job
from tests.faults.cluster import Cluster, until
from tests.faults.conftest import Figure
from tests.faults.layout import ROUNDS
from tests.faults.proxy import Trouble, proxy, through

pytestmark = pytest.mark.timeout(240 * ROUNDS)

NOISE_BYTES = 1 << 20
SHARE_IN_TROUBLE = 0.3
JOBS = 3 * ROUNDS
SPOOL_MIB = 1
# Far more than the spool holds, in a moment.
FLOOD_BYTES = 6 << 20

# Bytes of every value that a test can make again, printed in pieces so that they are many messages.
NOISE = """
exec python3 -u - <<'END'
import os, random, sys, time
noise = random.Random(int(os.environ["MUSTER_JOB_ID"]) * 10 + int(os.environ["MUSTER_RANK"])).randbytes({size})
for start in range(0, {size}, {piece}):
    sys.stdout.buffer.write(noise[start : start + {piece}])
    time.sleep({pause})
END
"""


def noise_of(job: Job, rank: int, size: int) -> bytes:
    return random.Random(job["id"] * 10 + rank).randbytes(size)


def by_chance(seed: int) -> Callable[[str], Trouble]:
    """Trouble for a share of the requests, each kind as often as the others; registrations come through."""
    chance, mutex = random.Random(seed), threading.Lock()
    kinds = [kind for kind in Trouble if kind is not Trouble.NONE]

    def decide(path: str) -> Trouble:
        with mutex:
            in_trouble = chance.random() < SHARE_IN_TROUBLE and not path.endswith("/register")
            return chance.choice(kinds) if in_trouble else Trouble.NONE

    return decide


def test_jobs_run_once_and_their_logs_are_exact_whatever_becomes_of_messages(cluster: Cluster, figure: Figure) -> None:
    with proxy(cluster.url) as way, cluster.agents_as(lambda child: through(child, way.url)):
        way.trouble = by_chance(3)
        command = NOISE.format(size=NOISE_BYTES, piece=NOISE_BYTES // 16, pause=0.05)
        jobs = [cluster.submit(command, nodes=2 if number % 3 == 2 else 1) for number in range(JOBS)]
        for job in jobs:
            assert cluster.wait(job, within_s=120)["state"] == "succeeded", cluster.story(job)
            assert cluster.attempts(job) == [("succeeded", "completed")]
            cluster.whole_log(job, within_s=120)
            for rank in range(job["spec"]["nodes"]):
                written = noise_of(job, rank, NOISE_BYTES)
                stored = cluster.log(job, rank=rank)
                assert hashlib.sha256(stored).hexdigest() == hashlib.sha256(written).hexdigest(), cluster.story(job)
        way.trouble = lambda _path: Trouble.NONE
    happened = {kind: number for kind, number in way.counts.items() if kind is not Trouble.NONE}
    assert len(happened) == len(Trouble) - 1
    figure("requests", ", ".join(f"{number} {kind}" for kind, number in sorted(way.counts.items())))
    figure("jobs with exact logs", f"{len(jobs)}, {NOISE_BYTES} bytes a rank")


def test_what_a_full_spool_gave_up_is_stated_and_the_rest_is_exact(cluster: Cluster, figure: Figure) -> None:
    # No chunk of the log gets through while the job prints, so most of it has to be dropped.
    printed, chance = threading.Event(), by_chance(5)

    def trouble(path: str) -> Trouble:
        return Trouble.LOST if path.endswith("/log") and not printed.is_set() else chance(path)

    with proxy(cluster.url) as way:
        way.trouble = trouble
        with cluster.agents_as(lambda child: through(child, way.url, "--log-spool-mib", str(SPOOL_MIB))):
            job = cluster.wait(cluster.submit(NOISE.format(size=FLOOD_BYTES, piece=FLOOD_BYTES, pause=0)))
            assert job["state"] == "succeeded", cluster.story(job)
            printed.set()
            [(size, holes, complete)] = until(
                lambda: cluster.sql(
                    "SELECT f.size, f.holes, f.complete FROM logs_logfile f"
                    " JOIN jobs_allocation a ON a.id = f.allocation_id JOIN jobs_attempt t ON t.id = a.attempt_id"
                    " WHERE t.job_id = %s AND f.finished_at IS NOT NULL",
                    job["id"],
                ),
                "its log is closed",
                120,
            )
            way.trouble = lambda _path: Trouble.NONE
    written = noise_of(job, 0, FLOOD_BYTES)
    pages = list(cluster.client().read_logs(job["id"]))
    assert all(page.data == written[page.offset : page.offset + len(page.data)] for page in pages)
    lost = sum(end - start for start, end in holes)
    assert size == FLOOD_BYTES
    assert not complete
    assert lost >= FLOOD_BYTES - 2 * (SPOOL_MIB << 20)
    assert sum(len(page.data) for page in pages) == size - lost
    figure("bytes printed, kept, and stated as lost", f"{size}, {size - lost}, {lost}")
