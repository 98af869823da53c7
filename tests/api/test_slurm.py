"""Slurm's commands over REST: what they show of whose jobs, and how they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from tests.api.asking import require_described, send
from tests.api.conftest import World

Api = Callable[[User | None], Client]
Slurm = Callable[..., tuple[str, str, int]]


@pytest.fixture
def slurm(world: World, api: Api) -> Slurm:
    """Runs a command, as olivia or another user; returns what it prints, on both outputs, and its exit code."""

    def run(command: str, *arguments: str, user: User | None = None, **environment: str) -> tuple[str, str, int]:
        body = {"arguments": arguments, "environment": environment}
        answer = send(api(user or world.owner), "POST", f"/api/v1/slurm/{command}", body)
        assert answer.status_code == 200, answer.content
        require_described("POST", "/api/v1/slurm/{name}", answer)
        found: dict[str, Any] = answer.json()
        return found["stdout"], found["stderr"], found["exit_code"]

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
