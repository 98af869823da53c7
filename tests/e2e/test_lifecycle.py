"""A user's work with jobs, over real processes: web, worker, agents, shims, and the `muster` command."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from muster_client.errors import ApiError
from muster_client.local.pack import pack_folder
from tests import engines
from tests.agent.registry import busybox_layer, running_registry
from tests.documented import undocumented
from tests.faults.cluster import FIRST_USER, ROOT, Cluster, processes_with, until

NOISE_BYTES, NOISE_SEED = 3 << 20, 7
# Only SIGKILL ends it: its children inherit that they ignore SIGTERM.
STUBBORN = "trap '' TERM; setsid sleep 1000 & echo stubborn; while true; do sleep 0.2; done"

pytestmark = pytest.mark.timeout(180)


def upload(cluster: Cluster, folder: Path) -> str:
    with pack_folder(folder) as archive:
        return cluster.client().upload(archive)["sha256"]


def muster(cluster: Cluster, folder: Path, *words: str) -> subprocess.Popen[str]:
    """The command as a user starts it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    own = {"MUSTER_URL": cluster.url, "MUSTER_TOKEN": cluster.tokens[FIRST_USER], "MUSTER_CONFIG": str(folder / "conf")}
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("muster")), *words],
        env=env | own,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_job_is_submitted_prints_and_succeeds(cluster: Cluster) -> None:
    job = cluster.wait(cluster.submit("echo hello; echo error >&2"))
    assert (job["state"], job["exit_code"], job["reason"]) == ("succeeded", 0, "completed")
    assert cluster.whole_log(job) == b"hello\nerror\n"
    assert cluster.attempts(job) == [("succeeded", "completed")]


def test_three_megabytes_of_any_bytes_come_back_exactly(cluster: Cluster) -> None:
    code = f"import random, sys; sys.stdout.buffer.write(random.Random({NOISE_SEED}).randbytes({NOISE_BYTES}))"
    job = cluster.wait(cluster.submit(f"python3 -c '{code}'"))
    cluster.whole_log(job)
    written = random.Random(NOISE_SEED).randbytes(NOISE_BYTES)
    assert b"\0" in written
    answer = httpx.get(
        f"{cluster.url}/api/v1/jobs/{job['id']}/logs?download=1",
        headers={"Authorization": f"Bearer {cluster.tokens[FIRST_USER]}"},
        trust_env=False,
    )
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert hashlib.sha256(answer.content).hexdigest() == hashlib.sha256(written).hexdigest()


def test_the_ranks_of_a_gang_find_each_other_over_tcp(cluster: Cluster) -> None:
    code = upload(cluster, ROOT / "examples" / "gang")
    job = cluster.submit("python3 -u train.py", gpus=2, nodes=2, memory="256MiB", code={"upload": code})
    job = cluster.wait(job, within_s=60)
    assert job["state"] == "succeeded", cluster.story(job)
    cluster.whole_log(job)
    for rank in (0, 1):
        shown = cluster.log(job, rank=rank).decode()
        assert f"rank {rank} of 2: 2 GPUs" in shown
        assert "ranks agree: yes" in shown
    [attempt] = cluster.client().attempts(job["id"])
    assert {allocation["node"] for allocation in attempt["allocations"]} == {"n1", "n2"}


def test_a_job_that_fails_shows_its_traceback_and_its_exit_code(cluster: Cluster) -> None:
    job = cluster.wait(cluster.submit("""python3 -c 'import sys; [][3 if sys.path else 0]'"""))
    assert (job["state"], job["exit_code"], job["reason"]) == ("failed", 1, "exit_nonzero")
    shown = cluster.whole_log(job).decode()
    assert shown.startswith("Traceback (most recent call last):")
    assert shown.endswith("IndexError: list index out of range\n")


def test_a_command_that_does_not_exist_is_named(cluster: Cluster) -> None:
    job = cluster.wait(cluster.submit("no-such-program --epochs 3"))
    assert (job["state"], job["exit_code"], job["reason"]) == ("failed", 127, "command_not_found")
    assert "no-such-program" in job["reason_detail"]


def test_a_cancelled_job_leaves_no_process_even_if_it_ignores_signals_and_hides(cluster: Cluster) -> None:
    job = cluster.submit(STUBBORN, gpus=2)
    cluster.until_attempt_runs(job)
    until(lambda: b"stubborn" in cluster.log(job), "it prints")
    assert len(processes_with(cluster.mark(job))) >= 2
    cluster.client().cancel(job["id"])
    job = cluster.wait(job)
    assert (job["state"], job["reason"]) == ("cancelled", "cancelled_by_user")
    assert processes_with(cluster.mark(job)) == set()
    assert not any(gpu["busy"] for gpu in cluster.client().gpus())


def test_a_requeued_job_stops_and_runs_again(cluster: Cluster) -> None:
    job = cluster.submit('echo "attempt $MUSTER_ATTEMPT"; if [ "$MUSTER_ATTEMPT" = 1 ]; then sleep 1000; fi')
    until(lambda: cluster.log(job) == b"attempt 1\n", "it prints")
    cluster.client().requeue(job["id"])
    job = cluster.wait(job)
    assert job["state"] == "succeeded"
    assert cluster.attempts(job) == [("preempted", "requeued_by_user"), ("succeeded", "completed")]
    assert cluster.log(job, attempt=1) + cluster.whole_log(job) == b"attempt 1\nattempt 2\n"


def test_a_job_is_warned_before_its_time_limit_and_stopped_at_it(cluster: Cluster) -> None:
    code = (
        "import signal, time; signal.signal(15, lambda *_: print(2)); print(1); [time.sleep(0.1) for _ in range(999)]"
    )
    # Seven seconds for Python to come to its handler, and three for the handler.
    job = cluster.wait(cluster.submit(f"python3 -uc '{code}'", time="10s", checkpoint={"grace": "3s"}))
    assert (job["state"], job["reason"]) == ("failed", "time_limit")
    assert cluster.whole_log(job) == b"1\n2\n"
    [(ran_s,)] = cluster.sql(
        "SELECT extract(epoch FROM ended_at - starting_at) FROM jobs_attempt WHERE job_id = %s", job["id"]
    )
    assert 10 <= ran_s < 20


def test_a_job_sees_its_own_gpus_only_and_nothing_of_the_platforms_environment(cluster: Cluster) -> None:
    jobs = [cluster.submit("env", gpus=2, env={"GREETING": "hello"}) for _ in range(2)]
    seen = set()
    for job in jobs:
        shown = cluster.whole_log(cluster.wait(job)).decode()
        variables = dict(line.partition("=")[::2] for line in shown.splitlines())
        [attempt] = cluster.client().attempts(job["id"])
        own = attempt["allocations"][0]["gpus"]
        assert variables["CUDA_VISIBLE_DEVICES"].split(",") == own
        assert variables["NVIDIA_VISIBLE_DEVICES"].split(",") == own
        assert len(own) == 2
        assert variables["GREETING"] == "hello"
        assert undocumented(variables) == {"GREETING", "SCRATCH", "TEST_MARK"}  # the cluster adds two of its own
        seen.add(variables["MUSTER_JOB_ID"])
    assert seen == {str(job["id"]) for job in jobs}


def test_uploaded_code_is_there_when_the_job_starts(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "part.txt").write_text("from the archive\n")
    (tmp_path / "run.sh").write_text("cat package/part.txt; pwd\n")
    code = upload(cluster, tmp_path)
    job = cluster.wait(cluster.submit("sh run.sh && echo $MUSTER_WORKDIR", code={"upload": code}))
    first, where, named = cluster.whole_log(job).decode().splitlines()
    assert first == "from the archive"
    assert where == named


def test_the_command_ends_as_the_job_that_it_follows(cluster: Cluster, tmp_path: Path) -> None:
    ends = {"fine": "echo out", "seven": "echo out; exit 7", "endless": "echo out; sleep 1000"}
    (tmp_path / "code").mkdir()
    started = {}
    for name, command in ends.items():
        spec = f"name: {name}\nvc: {FIRST_USER}\ngpus: 1\ncode: code\ncheckpoint: {{grace: 1s}}\ncommand: {command}\n"
        (tmp_path / f"{name}.yaml").write_text(spec)
        started[name] = muster(cluster, tmp_path, "submit", "--follow", f"{name}.yaml")
    endless = until(
        lambda: cluster.client().jobs(search="endless", state=["active"])["results"], "it was submitted", 60
    )
    until(lambda: cluster.log(endless[0]) == b"out\n", "it prints")
    cluster.client().cancel(endless[0]["id"])
    shown = {name: process.communicate(timeout=60) for name, process in started.items()}
    statuses = {name: process.returncode for name, process in started.items()}
    assert statuses == {"fine": 0, "seven": 7, "endless": 130}, shown
    assert {name: out for name, (out, _) in shown.items()} == dict.fromkeys(ends, "out\n")


@contextlib.contextmanager
def volume(cluster: Cluster, name: str, folder: Path) -> Iterator[None]:
    """A volume of the first user's tenant while the block lasts, as an operator makes it."""
    cluster.sql("UPDATE fleet_pool SET mount_roots = %s", str(folder.parent))
    cluster.sql(
        "INSERT INTO tenants_volume (tenant_id, name, path, writable)"
        " SELECT tenant_id, %s, %s, false FROM tenants_virtualcluster WHERE name = %s",
        *(name, str(folder), FIRST_USER),
    )
    try:
        yield
    finally:
        cluster.sql("DELETE FROM tenants_volume")
        cluster.sql("UPDATE fleet_pool SET mount_roots = ''")


def test_where_the_nodes_have_an_engine_a_job_runs_in_its_image_with_its_volumes(
    cluster: Cluster, tmp_path: Path
) -> None:
    socket = engines.docker_socket()
    data = tmp_path / "volumes" / "data"
    data.mkdir(parents=True)
    (data / "x").write_text("from the volume\n")
    (tmp_path / "here.txt").write_text("from the archive\n")
    code = upload(cluster, tmp_path)
    words = ("--runtime", "docker", "--docker-socket", socket, "--network", "none", "--mount-root", str(data.parent))
    # A bridge for gangs would change the addresses of this machine, and the tests' browser then stops what it loads.
    with cluster.agents_with(*words, "--gang-network", "host"), running_registry() as registry:
        with pytest.raises(ApiError, match="image"):
            cluster.submit("true")
        image = registry.add("team/tool", busybox_layer())
        job = cluster.submit(
            "cat here.txt; cat /proc/[0-9]*/comm; exit 3", image=image, shm="8MiB", code={"upload": code}
        )
        job = cluster.wait(job)
        assert (job["state"], job["exit_code"]) == ("failed", 3), cluster.story(job)
        first, *programs = cluster.whole_log(job).decode().splitlines()
        assert first == "from the archive"
        assert set(programs) <= {"sh", "cat"}
        told = [event["data"]["text"] for event in cluster.client().events(job["id"]) if "progress" in event["kind"]]
        assert told[0] == f"pulling {image}"
        assert told[-1].startswith(f"pulled {image} in ")
        with volume(cluster, "data", data):
            look = "cat /data/x; touch /data/y 2>/dev/null || echo it cannot be written"
            reader = cluster.wait(cluster.submit(look, image=image, mounts=["data:/data"]))
            assert reader["state"] == "succeeded", cluster.story(reader)
            assert cluster.whole_log(reader) == b"from the volume\nit cannot be written\n"
            with pytest.raises(ApiError, match="no volume 'data'"):
                cluster.submit(look, user="blue", image=image, mounts=["data:/data"])
        # The first one stays until the other has read what it says: a connection, whatever comes through, tells that.
        says = "echo hello from rank 0 >hello; httpd -p $MASTER_PORT; nc -l -p $((MASTER_PORT + 1))"
        reads = (
            "until wget -q -O - http://$MASTER_ADDR:$MASTER_PORT/hello 2>/dev/null; do sleep 0.1; done;"
            " until nc $MASTER_ADDR $((MASTER_PORT + 1)) </dev/null; do sleep 0.1; done"
        )
        talk = f"if [ $RANK = 0 ]; then {says}; else {reads}; fi"
        gang = cluster.wait(cluster.submit(talk, image=engines.IMAGE, nodes=2))
        assert gang["state"] == "succeeded", cluster.story(gang)
        cluster.whole_log(gang)
        assert cluster.log(gang, rank=1) == b"hello from rank 0\n"
        absent = cluster.wait(cluster.submit("true", image=f"{registry.address}/team/none:latest"))
        assert (absent["state"], absent["reason"]) == ("failed", "image_not_found")
        assert cluster.attempts(absent) == [("failed", "image_not_found")]
