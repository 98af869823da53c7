"""The jobs of these tests, and what they leave behind for them."""

from __future__ import annotations

from muster_client.answers.jobs import Job
from tests.faults.cluster import Cluster, until

# Each attempt leaves a line when it starts, and a stamp and a line of output twenty times a second for as long as it
# lives: until the test says that it may end, and ten minutes at most. `MORE` in its environment ends each line.
BEATING = """
exec python3 -u - <<'END'
import os, time
path = os.environ["SCRATCH"] + "/" + os.environ["MUSTER_JOB_ID"]
with open(path + ".starts", "a") as starts:
    starts.write(os.environ["MUSTER_ATTEMPT"] + "\\n")
number, end = 0, time.time() + 600
with open(path + "." + os.environ["MUSTER_ATTEMPT"] + "." + os.environ["MUSTER_RANK"], "a", buffering=1) as stamps:
    while time.time() < end and not os.path.exists(path + ".end"):
        stamps.write("%.6f\\n" % time.time())
        print("line %d%s" % (number, os.environ.get("MORE", "")))
        number += 1
        time.sleep(0.05)
END
"""


def let_end(cluster: Cluster, job_id: int) -> None:
    """Lets a beating job end with success."""
    (cluster.scratch / f"{job_id}.end").touch()


def starts_of(cluster: Cluster, job_id: int) -> list[str]:
    """The attempt of each start of a rank, in the order in which they happened."""
    return (cluster.scratch / f"{job_id}.starts").read_text().split()


def until_it_beats(cluster: Cluster, job: Job, *, attempt: int = 1, within_s: float = 30.0) -> str:
    """Returns the name of the (first) node when every rank of the attempt has left a stamp.

    An attempt runs from the start of its shell; the program that leaves stamps may take seconds longer.
    """
    node = cluster.until_attempt_runs(job, number=attempt, within_s=within_s)
    ranks = range(int(job["spec"]["nodes"]))
    until(
        lambda: all(stamps_of(cluster, job["id"], attempt=attempt, rank=rank) for rank in ranks), "it beats", within_s
    )
    return node


def stamps_of(cluster: Cluster, job_id: int, *, attempt: int = 1, rank: int = 0) -> list[float]:
    """Times at which a rank of a beating job was alive; none where it has not begun."""
    path = cluster.scratch / f"{job_id}.{attempt}.{rank}"
    if not path.exists():
        return []
    # The last line may be half written.
    return [float(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def output_of(cluster: Cluster, job_id: int, *, attempt: int = 1, rank: int = 0, more: str = "") -> bytes:
    """The expected output of a beating job that has ended by itself."""
    return b"".join(
        b"line %d%s\n" % (number, more.encode())
        for number in range(len(stamps_of(cluster, job_id, attempt=attempt, rank=rank)))
    )
