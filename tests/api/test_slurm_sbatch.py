"""Scripts submitted over REST as by sbatch: in place or with code, once for a key, and refused in Slurm's words."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.jobs.models import CodeArchive, Job, JobGroup
from muster.jobs.submit.uploads import open_code
from muster.sbatch.models import SlurmTable
from muster.slurm.call import Call
from muster.slurm.sbatch import Script, sbatch
from tests.api.asking import require_described, send
from tests.api.conftest import World

Api = Callable[[User | None], Client]

SBATCH = "/api/v1/slurm/sbatch"
SCRIPT = "#!/bin/bash\n#SBATCH --job-name=study --gres=gpu:1\npython3 train.py\n"
TABLE = "shared_folders: [/shared]\n"


@pytest.fixture
def client(world: World, api: Api) -> Client:
    return api(world.owner)


@pytest.fixture
def shared(world: World) -> None:
    SlurmTable.objects.create(version=1, text=TABLE, author=world.owner.username)


def submitted(client: Client, key: str = "", **body: Any) -> dict[str, Any]:
    headers = {"Idempotency_Key": key} if key else {}
    answer = send(client, "POST", SBATCH, {"script": SCRIPT, **body}, **headers)
    assert answer.status_code == 200, answer.content
    require_described("POST", SBATCH, answer)
    found: dict[str, Any] = answer.json()
    return found


def test_a_script_is_submitted_as_a_batch_job(client: Client) -> None:
    answer = submitted(client, arguments=["--time=10", "-d", "singleton"], host="login1")
    job = Job.objects.get(pk=answer["job"])
    assert answer == {
        "stdout": f"Submitted batch job {job.pk}\n",
        "stderr": "",
        "exit_code": 0,
        "job": job.pk,
        "array": None,
        "wait": False,
    }
    assert (job.name, job.spec["time"], job.spec["env"]["SLURM_SUBMIT_HOST"]) == ("study", "10m", "login1")
    assert job.spec["batch"]["tasks"] == 1
    assert job.code is None
    assert job.keeps_waiting


def test_in_a_shared_folder_the_environment_goes_along_apart_from_the_spec(client: Client, shared: None) -> None:
    environment = {"SECRET": "hunter2", "MUSTER_TOKEN": "mine", "SBATCH_TIMELIMIT": "7"}
    answer = submitted(client, folder="/shared/ada", environment=environment, arguments=["--export=ALL,A=1"])
    job = Job.objects.get(pk=answer["job"])
    assert job.spec["batch"]["folder"] == "/shared/ada"
    assert "hunter2" not in str(job.spec)
    assert job.spec["time"] == "7m"
    assert job.code is not None
    with tarfile.open(open_code(job.code.sha256)) as archive:
        stored = archive.extractfile(".muster-environment")
        assert stored is not None
        assert stored.read() == b"A=1\0SBATCH_TIMELIMIT=7\0SECRET=hunter2\0"


def test_a_clone_by_another_member_has_no_environment_of_the_submitter(
    world: World, api: Api, client: Client, shared: None
) -> None:
    body = {"folder": "/shared/ada", "environment": {"SECRET": "hunter2"}}
    single = submitted(client, **body)["job"]
    array = submitted(client, **body, arguments=["--array=0-1"])["array"]
    other = api(world.manager)
    clone = send(other, "POST", f"/api/v1/jobs/{single}:clone", {"spec": {}})
    assert clone.status_code == 201, clone.content
    assert Job.objects.get(pk=clone.json()["id"]).code is None
    clones = send(other, "POST", f"/api/v1/arrays/{array}:clone", {"spec": {}})
    assert clones.status_code == 201, clones.content
    assert JobGroup.objects.get(pk=clones.json()["id"]).code is None
    assert not CodeArchive.objects.filter(owners=world.manager).exists()


def test_a_request_that_is_sent_again_submits_nothing(client: Client, shared: None) -> None:
    body = {"arguments": ["--begin=now+1hour", "--parsable"], "folder": "/shared/ada"}
    assert submitted(client, "one", **body) == submitted(client, "one", **body)
    array = {"arguments": ["--array=0-2", "--wait"]}
    assert submitted(client, "two", **array) == submitted(client, "two", **array)
    assert (Job.objects.filter(name="study").count(), JobGroup.objects.count()) == (4, 1)
    assert send(client, "POST", SBATCH, {"script": SCRIPT}, Idempotency_Key="one").status_code == 409


def test_a_script_of_a_job_gets_the_code_of_that_job_but_not_its_environment(
    world: World, client: Client, shared: None
) -> None:
    code = CodeArchive.objects.create(sha256="a" * 64, size=1)
    code.owners.add(world.owner)
    outer = Job.objects.get(pk=submitted(client, code=code.sha256)["job"])
    assert outer.code == code
    call, script = Call(world.owner), Script(SCRIPT, "train.sbatch")
    inner = sbatch(call, script, inside=outer.pk)
    assert Job.objects.get(pk=inner.job).code == code
    in_place = submitted(client, folder="/shared/ada", environment={"A": "1"})["job"]
    assert Job.objects.get(pk=sbatch(call, script, inside=in_place).job).code is None


def test_a_dependency_that_can_never_be_met_is_waited_for_unless_the_script_says_otherwise(client: Client) -> None:
    first = submitted(client)["job"]
    send(client, "POST", f"/api/v1/jobs/{first}:cancel", {})
    waits = submitted(client, arguments=[f"--dependency=afterok:{first}"])
    members = submitted(client, arguments=[f"--dependency=afterok:{first}", "--array=1-2"])
    jobs = [Job.objects.get(pk=waits["job"]), *Job.objects.filter(group=members["array"])]
    assert [(job.state, job.blocked_by) for job in jobs] == [("queued", 1)] * 3
    ends = submitted(client, arguments=[f"--dependency=afterok:{first}", "--kill-on-invalid-dep=yes"])
    assert (ends["exit_code"], ends["job"]) == (1, None)
    unknown = submitted(client, arguments=["--dependency=afterok:999999999"])
    assert unknown["stderr"].startswith("sbatch: error: Batch job submission failed: Job dependency problem\n")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--gress=1"], 255, "sbatch: unrecognized option '--gress=1'\nTry \"sbatch --help\" for more information\n"),
        (["--time=soon"], 255, "sbatch: error: Invalid --time specification\n"),
        (["-n", "0"], 1, 'sbatch: error: Invalid numeric value "0" for --ntasks.\n'),
        (["-A", "speech"], 1, "sbatch: error: Batch job submission failed: Invalid account or account/partition"),
        (["-w", "gpu99"], 1, "sbatch: error: Batch job submission failed: Invalid node name specified\n"),
        (["-N", "99"], 1, "sbatch: error: Batch job submission failed: Node count specification invalid\n"),
        (["--array=5-1"], 1, "sbatch: error: Batch job submission failed: Invalid job array specification\n"),
        (["--licenses=a"], 1, "sbatch: error: --licenses=a: there are no licenses to count\n"),
    ],
)
def test_a_refusal_has_slurms_words_and_exit_code(client: Client, arguments: list[str], code: int, says: str) -> None:
    answer = submitted(client, arguments=arguments)
    assert (answer["stdout"], answer["exit_code"], answer["job"]) == ("", code, None)
    assert answer["stderr"].startswith(says)


def test_a_trial_submits_nothing_and_tells_when_it_would_start(client: Client) -> None:
    answer = submitted(client, arguments=["--test-only", "-n2"])
    assert (answer["exit_code"], answer["stdout"], Job.objects.filter(name="study").exists()) == (0, "", False)
    assert "using 2 processors on 1 nodes in partition main" in answer["stderr"]
