"""An agent that speaks its protocol by hand, one call at a time."""

from __future__ import annotations

import hashlib
import time
from base64 import b64encode
from dataclasses import replace
from typing import Any

import httpx

from muster.common.models import DatabaseNow
from muster.common.secrets import digest
from muster.fleet.models import Node, NodeLease
from muster.jobs.models import Allocation
from nodeagent.protocol.calls import (
    BATCH_PATH,
    HELLO_PATH,
    REGISTER_PATH,
    bearer,
    content_range,
    crc32_hex,
    log_path,
)
from nodeagent.protocol.messages import (
    AGAIN,
    PROTOCOL_VERSION,
    BatchItem,
    BatchRequest,
    BatchResponse,
    BeatRequest,
    ClaimRequest,
    DesiredAllocation,
    EndReason,
    EndRequest,
    GpuInfo,
    HelloRequest,
    HelloResponse,
    Inventory,
    ItemOutcome,
    LaunchSpec,
    LogFinishRequest,
    RegisterRequest,
    RegisterResponse,
    SyncRequest,
    SyncResponse,
)
from tests.db.stories import (
    BOOT,
    WAIT_S,
)

CREDENTIAL = "credential-of-the-agent-that-is-long-enough"
STATE = "state-1"


class Agent:
    """An agent's calls, with its node's credential."""

    def __init__(self, url: str, secret: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=WAIT_S, verify=False, trust_env=False)
        self.secret = secret
        self.epoch = 0
        self.boot_id = BOOT
        self.state_id = STATE

    def post(self, path: str, message: Any, *, secret: str | None = None) -> httpx.Response:
        headers = {"Authorization": bearer(secret or self.secret)}
        return self.http.post(path, json=message.to_dict(), headers=headers)

    def hello(self, *, secret: str | None = None, credential: str | None = None) -> httpx.Response:
        return self.post(HELLO_PATH, HelloRequest(credential or self.secret), secret=secret)

    def register(self, *, secret: str | None = None, nonce: str | None = None, **fields: Any) -> httpx.Response:
        """The answer to a registration; without a nonce a hello asks for one, and its refusal is the answer."""
        if nonce is None:
            answer = self.hello(secret=secret, credential=fields.get("credential"))
            if answer.status_code != 200:
                return answer
            nonce = HelloResponse.from_dict(answer.json()).nonce
        request = RegisterRequest(
            protocol=PROTOCOL_VERSION,
            boot_id=self.boot_id,
            agent_version="1",
            credential=self.secret,
            inventory=inventory(),
            nonce=nonce,
            state_id=self.state_id,
        )
        answer = self.post(REGISTER_PATH, replace(request, **fields), secret=secret)
        if answer.status_code == 200:
            self.epoch = RegisterResponse.from_dict(answer.json()).epoch
        return answer

    def beat(self, *, epoch: int | None = None) -> httpx.Response:
        return self.post("/agent/v1/beat", BeatRequest(self.epoch if epoch is None else epoch, 1, self.boot_id))

    def sync(self, *, generation: str = "", wait_s: float = 0, **fields: Any) -> httpx.Response:
        request = SyncRequest(self.epoch, 1, self.boot_id, generation, wait_s)
        return self.post("/agent/v1/sync", replace(request, **fields))

    def desired(self) -> tuple[DesiredAllocation, ...]:
        return SyncResponse.from_dict(self.sync().json()).desired

    def claim(self, allocation: Allocation, **fields: Any) -> ItemOutcome:
        return self.tell(self.claim_item(allocation, **fields))

    def launch(self, allocation: Allocation) -> LaunchSpec:
        outcome = self.claim(allocation)
        assert outcome.launch is not None, outcome
        return outcome.launch

    def end(self, allocation: Allocation, reason: EndReason = EndReason.COMPLETED, **fields: Any) -> ItemOutcome:
        return self.tell(self.end_item(allocation, reason, **fields))

    def log(self, allocation: Allocation, offset: int, body: bytes, **headers: str | None) -> httpx.Response:
        sent: dict[str, str | None] = {
            "Authorization": bearer(self.secret),
            "Content-Range": content_range(offset, len(body)),
            "X-Muster-Crc32": crc32_hex(body),
            "X-Muster-Fence": str(allocation.attempt_id),
        }
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        kept = {name: value for name, value in sent.items() if value is not None}
        return self.http.patch(log_path(allocation.pk), content=body, headers=kept)

    def finish(self, allocation: Allocation, size: int, sha256: str, **fields: Any) -> ItemOutcome:
        request = LogFinishRequest(allocation.attempt_id, size, sha256)
        return self.tell(BatchItem(allocation.pk, finish=replace(request, **fields)))

    def batch(self, *items: BatchItem) -> httpx.Response:
        return self.post(BATCH_PATH, BatchRequest(items))

    def say(self, *items: BatchItem) -> tuple[ItemOutcome, ...]:
        answer = self.batch(*items)
        assert answer.status_code == 200, answer.text
        return BatchResponse.from_dict(answer.json()).outcomes

    def tell(self, item: BatchItem) -> ItemOutcome:
        """The outcome of one item, which is sent again while it waits for a lock."""
        until = time.monotonic() + WAIT_S
        while True:
            (outcome,) = self.say(item)
            if outcome.status != AGAIN or time.monotonic() > until:
                return outcome

    def claim_item(self, allocation: Allocation, **fields: Any) -> BatchItem:
        request = ClaimRequest(allocation.attempt_id, self.boot_id, self.epoch, self.state_id)
        return BatchItem(allocation.pk, claim=replace(request, **fields))

    def end_item(self, allocation: Allocation, reason: EndReason = EndReason.COMPLETED, **fields: Any) -> BatchItem:
        request = EndRequest(allocation.attempt_id, self.boot_id, self.state_id, reason, exit_code=0)
        return BatchItem(allocation.pk, end=replace(request, **fields))

    def finish_item(self, allocation: Allocation, text: bytes, last: bytes | None = None, **fields: Any) -> BatchItem:
        """The end of a log that is `text`, of which the `last` bytes (all, if not said) come with it."""
        last = text if last is None else last
        request = LogFinishRequest(
            allocation.attempt_id,
            len(text),
            hashlib.sha256(text).hexdigest(),
            start=len(text) - len(last),
            rest=b64encode(last).decode(),
        )
        return BatchItem(allocation.pk, finish=replace(request, **fields))


def inventory(*gpus: GpuInfo, **fields: Any) -> Inventory:
    found = Inventory(hostname="host", address="10.0.0.1", cpus=64, memory_mib=262_144, gpus=gpus)
    return replace(found, **fields)


def a100(index: int, uuid: str | None = None) -> GpuInfo:
    return GpuInfo(index, uuid or f"GPU-new-{index}", "NVIDIA A100-SXM4-80GB", 81_920)


def agent_of(server: str, node: Node) -> Agent:
    """The agent of a node that registered long ago."""
    agent = Agent(server, f"{CREDENTIAL}-{node.name}")
    Node.objects.filter(pk=node.pk).update(
        credential_digest=digest(agent.secret), boot_id=BOOT, state_id=agent.state_id, state_since=DatabaseNow()
    )
    agent.epoch = NodeLease.objects.get(pk=node.pk).epoch
    return agent
