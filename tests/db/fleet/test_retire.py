"""A node leaves for good only when nothing is held on it."""

from __future__ import annotations

import pytest

from muster.common.errors import Conflict
from muster.common.secrets import digest
from muster.fleet.leases import Unauthorized, node_of_credential
from muster.fleet.models import Node
from muster.fleet.services import cordon_node, retire_node
from scheduler.model.lifecycle import NodeAdmin
from tests.factories import make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db


def test_an_active_node_is_cordoned_before_it_is_retired() -> None:
    node = make_node()
    with pytest.raises(Conflict, match="active"):
        retire_node(node=node, reason="sold", actor="otto")


def test_a_retired_nodes_agent_is_refused() -> None:
    node = make_node()
    Node.objects.filter(pk=node.pk).update(credential_digest=digest("secret"))
    cordon_node(node=node, reason="sold", actor="otto")
    retire_node(node=node, reason="sold", actor="otto")
    node.refresh_from_db()
    assert node.admin == NodeAdmin.RETIRED
    with pytest.raises(Unauthorized):
        node_of_credential("secret")


def test_a_node_that_holds_a_job_stays() -> None:
    job = make_job()
    node = make_node(job.pool)
    make_attempt(job, [node])
    cordon_node(node=node, reason="sold", actor="otto")
    with pytest.raises(Conflict, match="drain it first"):
        retire_node(node=node, reason="sold", actor="otto")
    node.refresh_from_db()
    assert node.admin == NodeAdmin.CORDONED
