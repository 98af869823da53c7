"""`muster sinfo` and `muster sacct`: their words go to the server as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from typer.testing import Result

from tests.api.conftest import World
from tests.api.test_sweep_commands import Rest
from tests.unit.client.fake_server import muster

Commands = Callable[..., Result]


@pytest.fixture
def run(world: World, api: Callable[..., Client], tmp_path: Path) -> Commands:
    rest = Rest(api(world.owner))
    return lambda *args: muster(rest, *args, home=tmp_path)


def test_sinfo_lists_the_nodes_of_partitions(run: Commands) -> None:
    assert run("sinfo", "-h", "-N", "-o", "%N %t %G").stdout == "gpu01 mix gpu:a100:4\n"
    assert run("sinfo", "-hp", "main", "-O", "partitionname:|,gresused:").stdout == "main|gpu:a100:2(IDX:0-1)\n"


def test_sacct_lists_jobs_and_ends_with_slurms_exit_code(world: World, run: Commands) -> None:
    assert run("sacct", "-XnP", "-o", "jobname,state", "-j", str(world.running.pk)).stdout == "running|RUNNING\n"
    assert run("sacct", "-V").stdout == run("sinfo", "-V").stdout == "slurm-wlm 22.05.8\n"
    refused = run("sacct", "-o", "nope")
    assert (refused.stdout, refused.exit_code) == ("", 1)
    assert refused.stderr == 'sacct: error: Invalid field requested: "nope"\n'


def test_the_output_is_a_document_if_asked_for(run: Commands) -> None:
    found = json.loads(run("sinfo", "--json", "-h", "-o", "%N").stdout)
    assert found == {"stdout": "gpu01\n", "stderr": "", "exit_code": 0}
