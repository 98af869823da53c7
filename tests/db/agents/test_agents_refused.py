"""Registrations and claims that are refused, in the audit log."""

from __future__ import annotations

from datetime import timedelta

import pytest

from muster.accounts.rates import Limit
from muster.agents import refusals
from muster.events.models import AuditEntry
from nodeagent.protocol.messages import BatchItem, ClaimRequest
from tests.db.agent_calls import Agent

STRANGER = "a-secret-that-is-of-no-node-at-all-but-long"


def entries() -> list[tuple[str, str, str | None, int]]:
    return [
        (row.action, row.object_id, row.address, (row.after or {})["status"])
        for row in AuditEntry.objects.order_by("pk")
    ]


def test_a_refused_registration_is_audited_with_the_address(agent: Agent) -> None:
    assert agent.hello(secret=STRANGER, credential=STRANGER).status_code == 401
    assert agent.register(secret=STRANGER, nonce="of nobody").status_code == 401
    assert entries() == [("refused_registration", "(unknown)", "127.0.0.1", 401)] * 2
    assert STRANGER not in str(AuditEntry.objects.values())


def test_a_refused_claim_is_audited_with_its_allocation(agent: Agent) -> None:
    request = ClaimRequest(epoch=agent.epoch, fence=1, boot_id=agent.boot_id, state_id=agent.state_id)
    refused = agent.tell(BatchItem(4711, claim=request))
    assert refused.status in {404, 409}
    assert entries() == [("refused_claim", "4711", "127.0.0.1", refused.status)]


def test_what_is_accepted_is_not_audited_as_refused(agent: Agent) -> None:
    assert agent.register().status_code == 200
    assert entries() == []


def test_refusals_above_the_limit_are_refused_alike_and_not_audited(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "PER_ADDRESS", Limit("tried", burst=3, every=timedelta(hours=1)))
    assert [agent.register(secret=STRANGER).status_code for _ in range(5)] == [401] * 5
    assert len(entries()) == 3
