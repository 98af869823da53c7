"""Slurm's commands over REST: what they show of whose jobs, and how they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.arrays.services import submit_array
from muster.common.clock import utc_now
from muster.jobs.models import Job, JobGroup
from muster.jobs.services import submit_job
from scheduler.model.lifecycle import JobState
from scheduler.model.reasons import Reason
from tests.api.asking import require_described, send
from tests.api.conftest import World
from tests.factories import make_attempt, make_job, make_node

Api = Callable[[User | None], Client]
Slurm = Callable[..., tuple[str, str, int]]


@pytest.fixture
def array(world: World) -> JobGroup:
    """An array as by `--array=1-9:2%2 --job-name=arr`, of which the member 1 runs on gpu02."""
    data = {"command": "true", "gpus": 2, "vc": "vision-vc", "name": "arr", "time": "1h"}
    group, _ = submit_array(user=world.owner, data={**data, "array": {"indices": "1-9:2", "max_parallel": 2}})
    make_attempt(Job.objects.get(group=group, array_index=1), [make_node(world.pool, "gpu02", gpus=4)])
    return group


@pytest.fixture
def slurm(world: World, api: Api) -> Slurm:
    """Runs a command, as olivia or another user; returns what it prints, on both outputs, and its exit code."""

    def run(command: str, *arguments: str, user: User | None = None, **environment: str) -> tuple[str, str, int]:
        body = {"arguments": arguments, "environment": environment}
        answer = send(api(user or world.owner), "POST", f"/api/v1/slurm/{command}", body)
        assert answer.status_code == 200, answer.content
        require_described("POST", "/api/v1/slurm/{name}", answer)
        found: dict[str, Any] = answer.json()
        # A job that runs has done so for a moment.
        return re.sub(r" 0:0\d ", " 0:00 ", found["stdout"]), found["stderr"], found["exit_code"]

    return run


def test_squeue_has_slurms_columns(world: World, slurm: Slurm) -> None:
    waiting, running = world.waiting.pk, world.running.pk
    assert slurm("squeue") == (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        f"{waiting:>18}      main  waiting   olivia PD       0:00      1 (None)\n"
        f"{running:>18}      main  running   olivia  R       0:00      1 gpu01\n",
        "",
        0,
    )


def test_jobs_of_another_tenant_are_not_shown(world: World, slurm: Slurm) -> None:
    assert slurm("squeue", "-h", user=world.stranger)[0].split() == [
        str(world.others.pk), "main", world.others.name, "stan", "PD", "0:00", "1", "(None)",
    ]  # fmt: skip


def test_members_of_an_array_that_wait_are_one_line(slurm: Slurm, array: JobGroup) -> None:
    folded = slurm("squeue", "-h", "-n", "arr")[0]
    assert folded == (
        f"{array.pk}_[3,5,7,9%2]".rjust(18) + "      main      arr   olivia PD       0:00      1 (None)\n"
        f"{f'{array.pk}_1':>18}      main      arr   olivia  R       0:00      1 gpu02\n"
    )


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("-r", "-o", "%i %K"), "N_3 3\nN_5 5\nN_7 7\nN_9 9\nN_1 1\n"),
        (("-j", "N_5", "-o", "%i"), "N_5\n"),
        (("-jN_5,N_7", "-o%i"), "N_[5,7]\n"),
        (("--jobs=N_[7-9],N_1", "-o", "%i|%t"), "N_[7,9]|PD\nN_1|R\n"),
        (
            ("-o", "%.5t|%5T|%i|%l|%D|%b"),
            "   PD|PENDI|N_[3,5,7,9%2]|1:00:00|1|gres:gpu:2\n    R|RUNNI|N_1|1:00:00|1|gres:gpu:2\n",
        ),
        (
            ("-O", "Name:.6,statecompact:4,numnodes"),
            "   arrPD  1                   \n   arrR   1                   \n",
        ),
        (("-t", "running", "-o", "id=%i x%%"), "id=N_1 x%\n"),
        (("-S", "t-i", "-o", "%i"), "N_[3,5,7,9%2]\nN_1\n"),
        (("-w", "gpu02", "-o", "%i %t %R"), "N_1 R gpu02\n"),
    ],
)
def test_squeue_selects_and_formats(arguments: tuple[str, ...], printed: str, slurm: Slurm, array: JobGroup) -> None:
    """The texts are those of Slurm 22.05.8 for such an array."""
    given = [word.replace("N_", f"{array.pk}_") for word in arguments]
    assert slurm("squeue", "-h", "-n", "arr", *given) == (printed.replace("N_", f"{array.pk}_"), "", 0)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("-j", "99999"), ("", "slurm_load_jobs error: Invalid job id specified\n", 1)),
        (("-h", "-j", "99999,99998"), ("", "", 0)),
        (("-j", "1,abc"), ("", "squeue: error: Invalid job id: abc\n", 1)),
        (("-h", "-u", "nobody"), ("", "squeue: error: Invalid user: nobody\n\n", 0)),
        (("-h", "-p", "nope"), ("", "", 0)),
        (("-w", "gpu[1-3]"), ("", "squeue: error: Invalid node name gpu1\n", 1)),
        (("-y",), ("", "squeue: invalid option -- 'y'\nTry \"squeue --help\" for more information\n", 1)),
        (("more",), ("", "squeue: error: Unrecognized option: more\n", 1)),
        (("-S", "i,~"), ("", "squeue: error: Invalid sort specification: ~\n", 1)),
        (("-h", "-j", ""), ("", "", 0)),
        (("--version",), ("slurm-wlm 22.05.8\n", "", 0)),
    ],
)
def test_squeue_refuses_as_slurm_does(arguments: tuple[str, ...], answer: tuple[str, str, int], slurm: Slurm) -> None:
    assert slurm("squeue", *arguments) == answer


def test_a_job_of_another_tenant_is_an_invalid_number(world: World, slurm: Slurm) -> None:
    assert slurm("squeue", "-j", str(world.others.pk))[1:] == ("slurm_load_jobs error: Invalid job id specified\n", 1)
    assert slurm("squeue", "-h", "-u", "stan") == ("", "squeue: error: Invalid user: stan\n\n", 0)


def test_variables_set_options_of_squeue(world: World, slurm: Slurm) -> None:
    job = world.waiting.pk
    assert slurm("squeue", "-h", SQUEUE_FORMAT="%i %j", SQUEUE_STATES="PD")[0] == f"{job} waiting\n"
    assert slurm("squeue", "-h", "-tPD", SQUEUE_FORMAT2="jobid:6,name:9")[0] == f"{job:<6}waiting  \n"
    submitted = world.waiting.submitted_at.astimezone(ZoneInfo("Asia/Tokyo"))
    told = slurm("squeue", "-h", "-o%V", f"-j{job}", TZ="Asia/Tokyo", SLURM_TIME_FORMAT="%H:%M")[0]
    assert told == f"{submitted:%H:%M}\n"


def test_dependencies_are_written_as_slurm_writes_them(world: World, slurm: Slurm, array: JobGroup) -> None:
    job, vc = world.waiting.pk, world.vc.name
    after = [f"{array.pk}_3:ok", f"{job}:failed?{array.pk}:any", "singleton"]
    data = {"command": "true", "vc": vc, "name": "arr", "after": after}
    waits, _ = submit_job(user=world.owner, data=data)
    assert slurm("squeue", "-h", "-j", str(waits.pk), "-o", "%r %E")[0] == (
        f"Dependency afterok:{array.pk}_3(unfulfilled),afternotok:{job}(unfulfilled)"
        f"?afterany:{array.pk}_*(unfulfilled),singleton(unfulfilled)\n"
    )


def test_jobs_that_ended_are_known_for_five_minutes(world: World, slurm: Slurm) -> None:
    late, early = (
        make_job(world.vc, world.owner, name=name, state=JobState.FAILED, reason=Reason.EXIT_NONZERO, ended_at=ended_at)
        for name, ended_at in (("late", utc_now()), ("early", utc_now() - timedelta(minutes=6)))
    )
    assert slurm("squeue", "-h", "-j", str(late.pk)) == ("", "", 0)
    assert slurm("squeue", "-h", "-t", "all", "-n", "late,early", "-o", "%i %T %R")[0] == (
        f"{late.pk} FAILED (NonZeroExitCode)\n"
    )
    assert slurm("squeue", "-j", str(early.pk))[2] == 1


def test_an_unknown_command_is_not_found(world: World, api: Api) -> None:
    answer = send(api(world.owner), "POST", "/api/v1/slurm/sreport", {})
    assert answer.status_code == 404
    assert "there is no command sreport" in answer.json()["detail"]


def test_a_wrong_option_is_told_as_slurm_tells_it(slurm: Slurm) -> None:
    assert slurm("squeue", "--nope") == (
        "",
        "squeue: unrecognized option '--nope'\nTry \"squeue --help\" for more information\n",
        1,
    )
