"""The commands about arrays against the real REST API: what they submit, show, cancel, run again and clone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from typer.testing import Result

from muster.arrays.ends import end_arrays
from muster.jobs.models import Job
from scheduler.model.lifecycle import JobState
from tests.api.conftest import World
from tests.api.test_sweep_commands import Rest
from tests.unit.client.fake_server import muster

Commands = Callable[..., Result]


@pytest.fixture
def run(world: World, api: Callable[..., Client], tmp_path: Path) -> Commands:
    rest = Rest(api(world.owner))

    def call(*args: str, spec: dict[str, Any] | None = None) -> Result:
        return muster(rest, *args, home=tmp_path, stdin=json.dumps(spec) if spec else None)

    return call


@pytest.fixture
def array_id(run: Commands) -> int:
    told = run("submit", "-", spec={"name": "folds", "command": "true", "gpus": 1, "array": "1-9:4"})
    assert told.exit_code == 0, told.stderr
    number = int(told.stdout.split()[2])
    assert told.stdout.startswith(f"Submitted array {number} (folds) with 3 members in ")
    return number


def test_an_array_is_shown_by_its_number_and_its_members_by_their_index(run: Commands, array_id: int) -> None:
    job = Job.objects.get(group=array_id, array_index=5)
    for shown in (run("show", str(array_id)), run("array", "show", str(array_id))):
        assert "3, 3 at once: 3 waiting" in shown.stdout
        assert f"{array_id}_5" in shown.stdout
    assert f"{array_id} folds, index 5 of 3" in run("show", f"{array_id}_5").stdout
    document = json.loads(run("array", "show", str(array_id), "--json").stdout)
    assert [one["index"] for one in document["results"]] == [1, 5, 9]
    assert json.loads(run("show", f"{array_id}_5", "--json").stdout)["id"] == job.pk
    assert run("show", f"{array_id}_6").exit_code == 2
    assert "there is no job 999999" in run("show", "999999").stderr
    assert f"array {array_id}" in run("ls").stdout


def test_an_array_is_cancelled_waited_for_and_run_again(run: Commands, array_id: int) -> None:
    assert run("cancel", f"{array_id}_1").exit_code == 0
    assert "goes on without 5" in run("array", "cancel", str(array_id), "--indices", "5").stdout
    Job.objects.filter(group=array_id, array_index=9).update(
        state=JobState.FAILED, hold_reason="", hold=None, ended_at=Now()
    )
    end_arrays()
    ended = run("wait", str(array_id))
    assert (ended.exit_code, f"Array {array_id} failed: 1 of 3 members failed." in ended.stderr) == (1, True)
    assert "1 member of it runs again" in run("array", "retry", str(array_id)).stdout
    assert "2 members of it run again" in run("array", "retry", str(array_id), "--indices", "1,5").stdout
    assert f"Array {array_id} cancelled." in run("cancel", str(array_id)).stdout
    assert run("wait", str(array_id)).exit_code == 130


def test_a_clone_sets_keys_of_the_array(run: Commands, array_id: int) -> None:
    cloned = run("array", "clone", str(array_id), "--set", "array.max_parallel=2", "--set", "priority=low", "--json")
    document = json.loads(cloned.stdout)
    assert (document["parallel"], document["cloned_from"], document["spec"]["priority"]) == (2, array_id, "low")
    assert "set its keys" in run("array", "clone", str(array_id), "--set", "array=0-3").stderr
