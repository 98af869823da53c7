"""Scripts over REST: their translation where the user may submit, and that its spec can be submitted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.sbatch.models import SlurmTable
from tests.api.asking import require_described, send
from tests.api.conftest import World
from tests.factories import make_pool

Api = Callable[[User | None], Client]

TRANSLATE = "/api/v1/sbatch:translate"
SCRIPT = """#!/bin/bash
#SBATCH --job-name=study
#SBATCH --partition=main --account=vision
#SBATCH --gres=gpu:2 --nodelist=gpu01
#SBATCH --time=1:00:00
#SBATCH --constraint=nvlink&rack=a
python3 train.py "$@"
"""


@pytest.fixture
def client(world: World, api: Api) -> Client:
    world.node.labels = {"nvlink": True, "rack": "a", "spare": False}
    world.node.save()
    return api(world.owner)


def test_the_spec_of_a_script_can_be_submitted(client: Client) -> None:
    answer = send(client, "POST", TRANSLATE, {"script": SCRIPT, "arguments": ["--lr", "0.1"]})
    assert answer.status_code == 200, answer.content
    require_described("POST", TRANSLATE, answer)
    spec = answer.json()["spec"]
    assert (spec["name"], spec["vc"], spec["gpus"], spec["time"]) == ("study", "vision-vc", 2, "1h")
    assert len(answer.json()["report"]) == 7
    stored = send(client, "POST", "/api/v1/jobs", spec)
    assert stored.status_code == 201, stored.content
    assert stored.json()["spec"]["nodes_in"] == ["gpu01"]


def test_a_script_alone_may_be_the_body(client: Client) -> None:
    answer = client.post(TRANSLATE, SCRIPT, content_type="text/x-sbatch")
    assert answer.json()["spec"]["name"] == "study"
    refused = client.post(TRANSLATE, b"#!/bin/sh\n\xff", content_type="text/x-sbatch")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "script")


@pytest.mark.parametrize(
    ("directive", "says"),
    [
        ("--account=speech", "there is no account speech that you may use"),
        ("--partition=secret", "there is no partition secret; there are main"),
        ("--nodelist=gpu99", "partition main has no node gpu99"),
        ("--constraint=spare", "no node has the feature spare"),
    ],
)
def test_words_of_others_mean_nothing(client: Client, directive: str, says: str) -> None:
    answer = send(client, "POST", TRANSLATE, {"script": f"#!/bin/sh\n#SBATCH {directive}\ntrue\n"})
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["field"] == "script"
    assert error["message"].startswith(f"line 2: {directive}: {says}")


def test_an_option_beside_the_script_is_refused_by_that_name(client: Client) -> None:
    answer = send(client, "POST", TRANSLATE, {"options": ["--gress=1", "--wrap=true"]})
    assert answer.json()["errors"] == [{"field": "options", "message": "there is no option --gress"}]


def test_an_array_of_a_script_may_be_as_large_as_any_other(client: Client) -> None:
    def translated(array: str) -> int:
        return int(send(client, "POST", TRANSLATE, {"options": ["--wrap=true", f"--array={array}"]}).status_code)

    assert (translated("0-19999"), translated("0-20000")) == (200, 422)


TABLE = """
partitions:
  gpu: {pool: main, time: 1:00:00, max_time: 2-0}
  debug: {pool: main, default: true, time: 10, max_nodes: 1, memory_per_cpu: 1G}
  other: {pool: spare}
accounts:
  lab1: {tenant: vision, default: true}
  lab2: {tenant: speech}
qos:
  normal: {default: true, max_time: 5}
  short: {priority: high}
shared_folders: [/shared]
"""


@pytest.fixture
def table(world: World) -> None:
    SlurmTable.objects.create(version=1, text="shared_folders: [/data]", author="oscar")
    SlurmTable.objects.create(version=2, text=TABLE, author="oscar")


@pytest.mark.usefixtures("table")
def test_the_newest_table_gives_words_their_meaning(client: Client) -> None:
    body = {"options": ["--wrap=true"], "folder": "/shared/olivia"}
    answer = send(client, "POST", TRANSLATE, body)
    require_described("POST", TRANSLATE, answer)
    spec = answer.json()["spec"]
    assert (spec["vc"], spec["time"], spec["memory"], "priority" in spec) == ("vision-vc", "5m", "1024MiB", False)
    named = ("SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS", "SLURM_MEM_PER_CPU")
    assert [spec["env"][name] for name in named] == ["debug", "lab1", "normal", "1024"]
    assert answer.json()["folder"] == "/shared/olivia"
    body["options"] += ["-pgpu", "-qshort", "--time=1-0"]
    spec = send(client, "POST", TRANSLATE, body).json()["spec"]
    assert (spec["time"], spec["priority"], "memory" in spec) == ("24h", "high", False)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--partition=other", "there is no partition other; there are debug, gpu"),
        ("--partition=main", "there is no partition main"),
        ("--account=lab2", "there is no account lab2 that you may use"),
        ("--qos=urgent", "there is no quality of service urgent; there are normal, short"),
        ("--time=6", "the quality of service allows 5m at most"),
        ("--nodes=2", "partition debug takes jobs of at most 1 nodes, not 2"),
    ],
)
def test_words_beyond_the_table_are_refused(client: Client, option: str, says: str) -> None:
    make_pool("spare")
    answer = send(client, "POST", TRANSLATE, {"options": ["--wrap=true", option]})
    [error] = answer.json()["errors"]
    assert says in error["message"]
