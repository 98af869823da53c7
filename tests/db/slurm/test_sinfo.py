"""sinfo of real rows: the states of nodes, and what users see."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from muster.accounts.models import User
from muster.fleet.models import Pool
from muster.fleet.services import cordon_node
from muster.sbatch.models import SlurmTable
from muster.slurm.call import Call
from muster.slurm.registry import answer_to
from scheduler.model.lifecycle import NodeAdmin, NodeHealth
from tests.factories import make_attempt, make_job, make_node, make_pool, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool() -> Pool:
    return make_pool("main")


@pytest.fixture
def user(pool: Pool) -> User:
    tenant = make_tenant()
    make_vc(tenant, pool, "vision")
    return make_user("ada", tenant=tenant)


def sinfo(user: User, *arguments: str) -> str:
    answer = answer_to("sinfo", Call(user, arguments))
    assert (answer.stderr, answer.exit_code) == ("", 0)
    return answer.stdout


def test_states_follow_health_operators_and_jobs(pool: Pool, user: User) -> None:
    _, mixed, full, draining, _, _ = (
        make_node(pool, f"n{number}", cpus=4, **fields)
        for number, fields in enumerate(
            [{}, {}, {}, {}, {"health": NodeHealth.DOWN}, {"admin": NodeAdmin.RETIRED}], start=1
        )
    )
    vc = user.tenants.get().virtual_clusters.get()
    make_attempt(make_job(vc, user, gpus=1, cpus=1), [mixed])
    make_attempt(make_job(vc, user, gpus=1, cpus=4), [full])
    make_attempt(make_job(vc, user, gpus=2, cpus=2), [draining])
    cordon_node(node=draining, reason="fan broken", actor="oscar")
    assert sinfo(user, "-h") == (
        "main*        up   infinite      1  down* n5\n"
        "main*        up   infinite      1   drng n4\n"
        "main*        up   infinite      1    mix n2\n"
        "main*        up   infinite      1  alloc n3\n"
        "main*        up   infinite      1   idle n1\n"
    )
    assert sinfo(user, "-h", "-R", "-o", "%E|%u|%N") == "Not responding|Unknown|n5\nfan broken|oscar|n4\n"
    assert sinfo(user, "-h", "-N", "-O", "nodelist:4,gresused:").splitlines()[2:4] == [
        "n3  gpu:a100:1(IDX:0)", "n4  gpu:a100:2(IDX:0-1)",
    ]  # fmt: skip
    assert sinfo(user, "-h", "-o", "%C %F") == "7/7/6/20 3/1/1/5\n"


def test_only_pools_of_the_user_are_shown(pool: Pool, user: User) -> None:
    make_node(pool, "n1")
    other = make_pool("secret")
    make_node(other, "s1")
    make_vc(make_tenant(), other, "others")
    assert sinfo(user, "-h", "-o", "%R %N") == "main n1\n"


def test_partitions_are_those_of_the_operators_table(pool: Pool, user: User) -> None:
    table = """partitions:
  debug: {pool: main, max_time: 30, max_nodes: 2}
  gpu: {pool: main, default: true, time: 1:00:00, max_time: 3-00:00:00}
"""
    SlurmTable.objects.create(version=1, text=table, author="oscar")
    make_node(pool, "n1")
    assert sinfo(user, "-h", "-o", "%P|%l|%L|%s|%D") == "gpu*|3-00:00:00|1:00:00|1-infinite|1\ndebug|30:00|n/a|1-2|1\n"


def test_the_number_of_queries_is_that_of_one_node(pool: Pool, user: User) -> None:
    vc, counts = user.tenants.get().virtual_clusters.get(), []
    for names in (["a1"], ["b1", "b2", "b3"]):
        for name in names:
            make_attempt(make_job(vc, user), [make_node(pool, name, gpus=1)])
        with CaptureQueriesContext(connection) as found:
            sinfo(user, "-N", "-l")
        counts.append(len(found))
    assert counts[0] == counts[1]
