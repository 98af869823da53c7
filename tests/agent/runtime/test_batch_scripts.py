"""A batch script under the shim: its end, and a stop that leaves the tasks of its steps their time."""

from __future__ import annotations

import json
import secrets
import signal

import pytest

from tests.agent.conftest import RuntimeUnderTest
from tests.waiting import eventually

BATCH = {
    "batch": {"output": "out-%j.txt"}, "job_id": 4242, "array_id": None, "array_index": None, "array": None,
    "name": "train", "user": "ann", "nodes": ["n1"], "addresses": ["127.0.0.1"], "rank": 0, "cpus": [2],
    "memory_mib": [1024], "gpus": [[]], "restarts": 0, "time_limit_s": None, "cluster": "lab", "partition": "gpu",
    "account": "lab1", "qos": "normal", "secret": secrets.token_hex(32), "port": 29500, "submit_dir": "",
    "submit_host": "",
}  # fmt: skip
SCRIPT = """cat > script <<'END' && chmod u+x script && exec "$MUSTER_COMMANDS/muster-batch" "$PWD/script"
#!/bin/sh
{}
END
"""


def environment() -> dict[str, str]:
    return {"MUSTER_BATCH": json.dumps(BATCH)}


@pytest.mark.parametrize("under_test", ["process"], indirect=True)
def test_it_ends_as_its_script_does(under_test: RuntimeUnderTest) -> None:
    status, output = under_test.run(SCRIPT.format("srun -n2 -l echo hi | sort; kill -9 $$"), env=environment())
    assert (status.signal, output) == (signal.SIGKILL, b"0: hi\n1: hi\n")
    status, _ = under_test.run(SCRIPT.format("srun sh -c 'exit 3'"), env=environment())
    assert status.exit_code == 3


@pytest.mark.parametrize("under_test", ["process"], indirect=True)
def test_a_stop_leaves_its_tasks_their_time(under_test: RuntimeUnderTest) -> None:
    task = 'trap "sleep 0.6; echo saved; exit 0" TERM; echo ready; while :; do sleep 0.02; done'
    number = under_test.start(SCRIPT.format(f"srun -n2 sh -c '{task}'"), env=environment())
    eventually(lambda: under_test.output(number).count(b"ready") == 2, "both tasks run")
    under_test.runtime.stop(number, "TERM", 20.0)
    assert under_test.exit(number).signal == signal.SIGTERM  # of the script, which waited for srun
    output = under_test.output(number)
    assert output.count(b"saved") == 2
    assert b"*** JOB 4242 ON n1 CANCELLED AT " in output
