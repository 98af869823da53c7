"""The agents' protocol, spoken to the real web process over HTTP."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from muster.common.secrets import digest
from muster.fleet.models import Gpu, Node, NodeLease
from muster.fleet.services import create_node
from muster.jobs.models import Allocation, Attempt
from muster.jobs.services import cancel_job, clone_job
from muster.jobs.uploads import new_draft, store_code
from muster.logs.models import LogFile
from muster.logs.store import read
from nodeagent.protocol import (
    MAX_CHUNK_BYTES,
    AllocationReport,
    BeatRequest,
    ClaimRequest,
    DesiredAllocation,
    EndReason,
    EndRequest,
    GpuInfo,
    GpuSample,
    HealthEvent,
    Inventory,
    LaunchSpec,
    LogFinishRequest,
    Observed,
    RegisterRequest,
    RegisterResponse,
    SyncRequest,
    SyncResponse,
    bearer,
    claim_path,
    code_path,
    content_range,
    crc32_hex,
    end_path,
    log_finish_path,
    log_path,
)
from scheduler.lifecycle import NodeHealth
from tests.db.stories import (
    BOOT,
    WAIT_S,
    World,
    cycle,
    let_pass,
    make_world,
    now_of,
    place,
    ranks,
    start,
    states,
    submit,
)
from tests.factories import make_node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

CREDENTIAL = "credential-of-the-agent-that-is-long-enough"


class Agent:
    """What an agent sends, with its node's credential."""

    def __init__(self, url: str, secret: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=WAIT_S)
        self.secret = secret
        self.epoch = 0
        self.boot_id = BOOT

    def post(self, path: str, message: Any, *, secret: str | None = None) -> httpx.Response:
        headers = {"Authorization": bearer(secret or self.secret)}
        return self.http.post(path, json=message.to_dict(), headers=headers)

    def register(self, *, secret: str | None = None, **fields: Any) -> httpx.Response:
        request = RegisterRequest(
            protocol=1,
            boot_id=self.boot_id,
            agent_version="1",
            credential=self.secret,
            inventory=inventory(),
        )
        answer = self.post("/agent/v1/register", replace(request, **fields), secret=secret)
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

    def claim(self, allocation: Allocation, **fields: Any) -> httpx.Response:
        request = ClaimRequest(allocation.attempt_id, self.boot_id, self.epoch)
        return self.post(claim_path(allocation.pk), replace(request, **fields))

    def launch(self, allocation: Allocation) -> LaunchSpec:
        answer = self.claim(allocation)
        assert answer.status_code == 200, answer.text
        return LaunchSpec.from_dict(answer.json())

    def end(self, allocation: Allocation, reason: EndReason = EndReason.COMPLETED, **fields: Any) -> httpx.Response:
        request = EndRequest(allocation.attempt_id, self.boot_id, reason, exit_code=0)
        return self.post(end_path(allocation.pk), replace(request, **fields))

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

    def finish(self, allocation: Allocation, size: int, sha256: str, **fields: Any) -> httpx.Response:
        request = LogFinishRequest(allocation.attempt_id, size, sha256)
        return self.post(log_finish_path(allocation.pk), replace(request, **fields))


def inventory(*gpus: GpuInfo, **fields: Any) -> Inventory:
    found = Inventory(hostname="host", address="10.0.0.1", cpus=64, memory_mib=262_144, gpus=gpus)
    return replace(found, **fields)


def a100(index: int, uuid: str | None = None) -> GpuInfo:
    return GpuInfo(index, uuid or f"GPU-new-{index}", "NVIDIA A100-SXM4-80GB", 81_920)


def agent_of(server: str, node: Node) -> Agent:
    """The agent of a node that registered long ago."""
    agent = Agent(server, f"{CREDENTIAL}-{node.name}")
    Node.objects.filter(pk=node.pk).update(credential_digest=digest(agent.secret), boot_id=BOOT)
    agent.epoch = NodeLease.objects.get(pk=node.pk).epoch
    return agent


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def agent(server: str, world: World) -> Iterator[Agent]:
    agent = agent_of(server, world.nodes[0])
    with agent.http:
        yield agent


class TestRegister:
    @pytest.fixture
    def new(self, server: str, world: World) -> Iterator[tuple[Agent, Node, str]]:
        node, token = create_node(pool=world.pool, name="fresh", actor="op")
        agent = Agent(server, CREDENTIAL)
        with agent.http:
            yield agent, node, token

    def test_a_join_token_makes_the_node_ready_with_its_inventory(self, new: tuple[Agent, Node, str]) -> None:
        agent, node, token = new
        answer = agent.register(secret=token, inventory=inventory(a100(0), a100(1)))
        assert answer.status_code == 200, answer.text
        told = RegisterResponse.from_dict(answer.json())
        assert (told.node_id, told.node_name, told.epoch, told.timers.stop_after_s) == (node.pk, "fresh", 1, 600)
        node = now_of(node)
        assert (node.health, node.cpus, node.address) == (NodeHealth.READY, 64, "10.0.0.1")
        assert list(node.gpus.order_by("index").values_list("uuid", "type")) == [
            ("GPU-new-0", "A100"),
            ("GPU-new-1", "A100"),
        ]

    def test_a_lost_answer_is_asked_for_again_with_the_same_credential(self, new: tuple[Agent, Node, str]) -> None:
        agent, _, token = new
        assert agent.register(secret=token).status_code == 200
        assert agent.register(secret=token).status_code == 200
        assert agent.epoch == 2

    def test_a_used_token_with_another_credential_is_refused(self, new: tuple[Agent, Node, str]) -> None:
        agent, node, token = new
        agent.register(secret=token)
        thief = agent.register(secret=token, credential="the-credential-of-a-thief-that-is-long-enough")
        assert thief.status_code == 401
        assert now_of(node).credential_digest == digest(CREDENTIAL)

    def test_an_expired_token_is_refused(self, new: tuple[Agent, Node, str]) -> None:
        agent, node, token = new
        let_pass(25 * 3600, node, "join_expires_at")
        answer = agent.register(secret=token)
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
        assert "expired" in answer.json()["detail"]
        assert now_of(node).credential_digest == ""

    def test_an_unknown_token_is_refused(self, new: tuple[Agent, Node, str]) -> None:
        assert new[0].register(secret="mjoin_unknown").status_code == 401

    def test_a_credential_alone_registers_again_under_a_new_epoch(self, new: tuple[Agent, Node, str]) -> None:
        agent, _, token = new
        agent.register(secret=token)
        assert agent.register().status_code == 200
        assert agent.epoch == 2

    def test_a_short_credential_is_refused_and_does_not_use_up_the_token(self, new: tuple[Agent, Node, str]) -> None:
        agent, _, token = new
        assert agent.register(secret=token, credential="short").status_code == 401
        assert agent.register(secret=token).status_code == 200

    def test_a_retired_node_is_refused(self, new: tuple[Agent, Node, str]) -> None:
        agent, node, token = new
        agent.register(secret=token)
        Node.objects.filter(pk=node.pk).update(admin="retired")
        assert agent.register().status_code == 409

    def test_a_protocol_of_tomorrow_is_refused(self, new: tuple[Agent, Node, str]) -> None:
        agent, _, token = new
        answer = agent.register(secret=token, protocol=99)
        assert answer.status_code == 409
        assert "protocol 99" in answer.json()["detail"]

    def test_a_body_that_is_no_message_names_the_field(self, agent: Agent) -> None:
        headers = {"Authorization": bearer(agent.secret)}
        answer = agent.http.post("/agent/v1/beat", json={"epoch": "one"}, headers=headers)
        assert answer.status_code == 422
        assert "epoch" in answer.json()["detail"]
        assert agent.http.post("/agent/v1/beat", content=b"{", headers=headers).status_code == 400
        assert agent.http.post("/agent/v1/beat", content=b"[" * 100_000, headers=headers).status_code == 400

    def test_without_a_credential_nothing_is_answered(self, agent: Agent) -> None:
        assert agent.http.post("/agent/v1/beat", json={}).status_code in {401, 422}
        assert agent.post("/agent/v1/beat", BeatRequest(1, 1, BOOT), secret="wrong").status_code == 401


class TestInventory:
    def test_a_gpu_that_is_gone_gets_no_jobs_and_comes_back(self, agent: Agent, world: World) -> None:
        agent.register(inventory=inventory(a100(0), a100(1)))
        version = now_of(world.nodes[0]).version
        agent.register(inventory=inventory(a100(0)))
        assert list(Gpu.objects.filter(node=world.nodes[0], present=True).values_list("uuid", flat=True)) == [
            "GPU-new-0"
        ]
        assert now_of(world.nodes[0]).version > version
        agent.register(inventory=inventory(a100(0), a100(1)))
        assert Gpu.objects.filter(node=world.nodes[0], present=True).count() == 2

    def test_the_same_inventory_changes_no_version(self, agent: Agent, world: World) -> None:
        agent.register(inventory=inventory(a100(0)))
        version = now_of(world.nodes[0]).version
        agent.register(inventory=inventory(a100(0)))
        assert now_of(world.nodes[0]).version == version

    def test_gpus_may_change_places(self, agent: Agent) -> None:
        agent.register(inventory=inventory(a100(0, "GPU-a"), a100(1, "GPU-b")))
        answer = agent.register(inventory=inventory(a100(0, "GPU-b"), a100(1, "GPU-a")))
        assert answer.status_code == 200, answer.text
        assert dict(Gpu.objects.filter(present=True).values_list("uuid", "index")) == {"GPU-a": 1, "GPU-b": 0}

    def test_two_gpus_at_one_index_are_refused(self, agent: Agent) -> None:
        assert agent.register(inventory=inventory(a100(0, "GPU-a"), a100(0, "GPU-b"))).status_code == 422

    def test_a_gpu_that_another_node_still_has_is_refused_whole(self, agent: Agent, world: World) -> None:
        other = make_node(world.pool)
        before = now_of(world.nodes[0])
        taken = other.gpus.first().uuid
        answer = agent.register(inventory=inventory(a100(0, taken), cpus=1))
        assert answer.status_code == 409
        assert other.name in answer.json()["detail"]
        assert Gpu.objects.get(uuid=taken).node_id == other.pk
        assert now_of(world.nodes[0]).cpus == before.cpus

    def test_a_gpu_that_was_moved_comes_along(self, agent: Agent, world: World) -> None:
        other = make_node(world.pool, gpus=1)
        Gpu.objects.filter(node=other).update(present=False)
        moved = Gpu.objects.get(node=other)
        assert agent.register(inventory=inventory(a100(0, moved.uuid))).status_code == 200
        assert (now_of(moved).node_id, now_of(moved).present) == (world.nodes[0].pk, True)

    def test_a_new_boot_ends_what_ran_before(self, agent: Agent, world: World) -> None:
        attempt = start(world)
        agent.boot_id = "boot-2"
        assert agent.register(inventory=as_it_is(world.nodes[0])).status_code == 200
        assert now_of(attempt).reason == "node_rebooted"
        assert states(attempt.job) == ("queued", "lost", ["released"])

    def test_the_same_boot_keeps_what_runs(self, agent: Agent, world: World) -> None:
        attempt = start(world)
        assert agent.register(inventory=as_it_is(world.nodes[0])).status_code == 200
        assert states(attempt.job) == ("active", "running", ["active"])


def as_it_is(node: Node) -> Inventory:
    gpus = [GpuInfo(gpu.index, gpu.uuid, gpu.model, gpu.memory_mib) for gpu in node.gpus.order_by("index")]
    return inventory(*gpus, cpus=node.cpus, memory_mib=node.memory_mib)


class TestBeat:
    def test_a_beat_renews_the_lease_and_touches_nothing_else(self, agent: Agent, world: World) -> None:
        node = world.nodes[0]
        let_pass(100, NodeLease.objects.get(pk=node.pk), "seen_at")
        before = now_of(node).version, NodeLease.objects.get(pk=node.pk).seen_at
        assert agent.beat().status_code == 200
        assert now_of(node).version == before[0]
        assert NodeLease.objects.get(pk=node.pk).seen_at > before[1]

    def test_an_agent_that_was_superseded_is_told_so_on_every_call(self, agent: Agent, world: World) -> None:
        attempt = place(world)
        old = agent.epoch
        assert agent.register(inventory=as_it_is(world.nodes[0])).status_code == 200
        allocation = ranks(attempt)[0]
        assert agent.beat(epoch=old).status_code == 409
        assert agent.sync(epoch=old).status_code == 409
        assert agent.claim(allocation, epoch=old).status_code == 409
        assert agent.beat().status_code == 200

    def test_a_node_that_was_down_is_ready_with_its_next_beat(self, agent: Agent, world: World) -> None:
        Node.objects.filter(pk=world.nodes[0].pk).update(health=NodeHealth.DOWN)
        assert agent.beat().status_code == 200
        assert now_of(world.nodes[0]).health == NodeHealth.READY


class TestSync:
    def test_another_generation_is_answered_at_once(self, agent: Agent, world: World) -> None:
        attempt = place(world)
        answer = SyncResponse.from_dict(agent.sync(generation="old", wait_s=25).json())
        (wanted,) = answer.desired
        assert (wanted.id, wanted.fence, wanted.action.value) == (ranks(attempt)[0].pk, attempt.pk, "run")

    def test_a_report_is_answered_at_once_though_nothing_changed(self, agent: Agent) -> None:
        generation = SyncResponse.from_dict(agent.sync().json()).generation
        assert agent.sync(generation=generation, wait_s=0).json()["generation"] == generation

    def test_a_placed_job_wakes_the_long_poll(self, agent: Agent, world: World) -> None:
        generation = SyncResponse.from_dict(agent.sync().json()).generation
        answers: list[SyncResponse] = []
        polling = threading.Thread(
            target=lambda: answers.append(SyncResponse.from_dict(agent.sync(generation=generation, wait_s=25).json()))
        )
        submit(world)
        polling.start()
        started = time.monotonic()
        cycle(world)
        polling.join(WAIT_S)
        assert len(answers[0].desired) == 1
        # Without the wake-up it would look again after five seconds.
        assert time.monotonic() - started < 4

    def test_a_cancelled_job_is_to_be_stopped_with_its_signal_and_grace(self, agent: Agent, world: World) -> None:
        attempt = start(world, checkpoint={"signal": "USR1", "grace": "45s"})
        cancel_job(user=world.user, job=attempt.job)
        (wanted,) = agent.desired()
        assert (wanted.action.value, wanted.signal, wanted.grace_s, wanted.reason) == (
            "stop",
            "USR1",
            45.0,
            "cancelled_by_user",
        )

    def test_a_report_of_running_makes_the_attempt_run(self, agent: Agent, world: World) -> None:
        allocation = ranks(place(world))[0]
        agent.launch(allocation)
        agent.sync(allocations=(AllocationReport(allocation.pk, allocation.attempt_id, Observed.RUNNING),))
        assert states(allocation.attempt.job) == ("active", "running", ["active"])

    def test_the_time_that_is_left_is_told_and_is_no_news(self, agent: Agent, world: World) -> None:
        attempt = start(world, time="1h")
        let_pass(600, attempt, "running_at")
        first = SyncResponse.from_dict(agent.sync().json())
        let_pass(600, attempt, "running_at")
        second = SyncResponse.from_dict(agent.sync().json())
        assert first.desired[0].time_left_s == pytest.approx(3000, abs=20)
        assert second.desired[0].time_left_s == pytest.approx(2400, abs=20)
        assert first.generation == second.generation

    def test_what_was_released_is_no_longer_desired(self, agent: Agent, world: World) -> None:
        allocation = ranks(start(world))[0]
        assert agent.end(allocation).status_code == 200
        assert agent.desired() == ()

    def test_a_node_hears_of_its_own_allocations_only(self, agent: Agent, world: World) -> None:
        make_node(world.pool, gpus=4)
        attempt = place(world, nodes=2)
        assert [one.id for one in agent.desired()] == [
            one.pk for one in ranks(attempt) if one.node_id == world.nodes[0].pk
        ]

    def test_samples_are_stored_for_gpus_of_this_node_only(self, agent: Agent, world: World) -> None:
        mine, foreign = world.nodes[0].gpus.first(), make_node(world.pool).gpus.first()
        samples = tuple(GpuSample(gpu.uuid, utilization=55.0, processes=None) for gpu in (mine, foreign))
        assert agent.sync(gpus=samples).status_code == 200
        assert now_of(mine).reading.utilization == 55.0
        assert not hasattr(now_of(foreign), "reading") or now_of(foreign).reading.utilization is None

    def test_a_gpu_that_fell_off_the_bus_gets_no_more_jobs(self, agent: Agent, world: World) -> None:
        gpu = world.nodes[0].gpus.first()
        agent.sync(health=(HealthEvent("gpu_lost", gpu.uuid, "Xid 79"),))
        assert now_of(gpu).healthy is False
        assert now_of(world.nodes[0]).version == world.nodes[0].version + 1
        attempt = place(world, gpus=3)
        assert gpu.pk not in ranks(attempt)[0].claims.values_list("gpu_id", flat=True)


class TestClaim:
    def test_the_launch_spec_is_what_the_job_asked_for(self, agent: Agent, world: World) -> None:
        attempt = place(
            world,
            name="train",
            command="python train.py",
            gpus=2,
            cpus=8,
            memory="16GiB",
            time="2h",
            env={"LR": 0.1},
            workdir="/workspace/src",
            checkpoint={"signal": "USR1", "grace": "60s"},
            on_disconnect="keep",
        )
        (allocation,) = ranks(attempt)
        spec = agent.launch(allocation)
        assert (spec.allocation_id, spec.job_id, spec.attempt, spec.rank) == (allocation.pk, attempt.job_id, 1, 0)
        assert (spec.fence, spec.name, spec.owner) == (attempt.pk, "train", world.user.username)
        assert (spec.command, spec.workdir) == ("python train.py", "/workspace/src")
        assert (spec.cpus, spec.memory_mib, spec.time_limit_s) == (8, 16_384, 7200)
        assert (spec.stop_signal, spec.grace_s, spec.stop_after_s) == ("USR1", 60, 600)
        assert (spec.on_disconnect.value, spec.code, spec.uid) == ("keep", None, None)
        uuids = allocation.claims.order_by("gpu__index").values_list("gpu__uuid", flat=True)
        assert list(spec.gpu_uuids) == list(uuids)
        assert len(spec.gpu_uuids) == 2
        assert spec.env["LR"] == "0.1"

    def test_each_rank_of_a_gang_finds_the_others(self, agent: Agent, server: str, world: World) -> None:
        second = make_node(world.pool, gpus=4)
        attempt = place(world, nodes=2, gpus=4)
        agents = {world.nodes[0].pk: agent, second.pk: agent_of(server, second)}
        first, other = (agents[one.node_id].launch(one).env for one in ranks(attempt))
        names = [one.node for one in ranks(attempt)]
        assert first["MASTER_ADDR"] == other["MASTER_ADDR"] == names[0].address
        assert first["MASTER_PORT"] == other["MASTER_PORT"]
        assert 20_000 <= int(first["MASTER_PORT"]) <= 29_999
        assert (first["RANK"], first["NODE_RANK"], first["MUSTER_RANK"]) == ("0", "0", "0")
        assert (other["RANK"], other["NODE_RANK"], other["MUSTER_RANK"]) == ("1", "1", "1")
        assert first["WORLD_SIZE"] == first["MUSTER_NNODES"] == "2"
        assert first["LOCAL_RANK"] == "0"
        assert first["MUSTER_NODE_ADDRS"] == ",".join(node.address for node in names)
        assert (first["MUSTER_JOB_ID"], first["MUSTER_ATTEMPT"]) == (str(attempt.job_id), "1")
        assert not [name for name in first if name.startswith("SLURM_")]

    def test_slurms_variables_are_set_where_the_job_asks(self, agent: Agent, world: World) -> None:
        attempt = place(world, slurm_env=True, gpus=2)
        env = agent.launch(ranks(attempt)[0]).env
        assert (env["SLURM_JOB_ID"], env["SLURM_PROCID"], env["SLURM_NNODES"]) == (str(attempt.job_id), "0", "1")
        assert (env["SLURM_NODELIST"], env["SLURM_GPUS_ON_NODE"]) == (world.nodes[0].name, "2")

    def test_the_same_boot_gets_the_same_answer_and_another_is_refused(self, agent: Agent, world: World) -> None:
        allocation = ranks(place(world))[0]
        assert agent.claim(allocation).json() == agent.claim(allocation).json()
        assert agent.claim(allocation, boot_id="boot-2").status_code == 409

    def test_an_old_fence_and_a_stopped_attempt_are_refused(self, agent: Agent, world: World) -> None:
        allocation = ranks(place(world))[0]
        assert agent.claim(allocation, fence=allocation.attempt_id - 1).status_code == 409
        cancel_job(user=world.user, job=allocation.attempt.job)
        assert agent.claim(allocation).status_code == 409

    def test_another_nodes_allocation_is_not_there_whatever_is_asked(
        self, agent: Agent, server: str, world: World
    ) -> None:
        allocation = ranks(start(world))[0]
        with (other := agent_of(server, make_node(world.pool))).http:
            assert other.claim(allocation).status_code == 404
            assert other.end(allocation).status_code == 404
            assert other.log(allocation, 0, b"x").status_code == 404
            assert other.finish(allocation, 0, "").status_code == 404
        assert states(allocation.attempt.job) == ("active", "running", ["active"])
        assert not LogFile.objects.exists()


class TestEnd:
    def test_an_end_is_taken_once(self, agent: Agent, world: World) -> None:
        allocation = ranks(start(world, retry={"max": 0}))[0]
        assert agent.end(allocation, EndReason.EXIT_NONZERO, exit_code=3, detail="boom").json() == {}
        assert agent.end(allocation, EndReason.EXIT_NONZERO, exit_code=4).status_code == 200
        job = now_of(allocation.attempt.job)
        assert (job.state, job.exit_code, job.reason, job.reason_detail) == ("failed", 3, "exit_nonzero", "boom")

    def test_a_signal_reads_as_a_shells_exit_code(self, agent: Agent, world: World) -> None:
        allocation = ranks(start(world))[0]
        agent.end(allocation, EndReason.KILLED_BY_SIGNAL, exit_code=None, signal=9)
        assert now_of(allocation.attempt.job).exit_code == 137

    def test_every_reason_an_agent_may_give_is_taken(self, agent: Agent, world: World) -> None:
        for reason in EndReason:
            allocation = ranks(start(world, retry={"max": 0}))[0]
            answer = agent.end(allocation, reason, exit_code=None if reason is not EndReason.COMPLETED else 0)
            assert answer.status_code == 200, answer.text
            assert now_of(allocation.attempt).reason == reason.value

    def test_an_old_fence_or_another_boot_is_refused(self, agent: Agent, world: World) -> None:
        allocation = ranks(start(world))[0]
        assert agent.end(allocation, fence=allocation.attempt_id - 1).status_code == 409
        assert agent.end(allocation, boot_id="boot-2").status_code == 409
        assert states(allocation.attempt.job) == ("active", "running", ["active"])


class TestLog:
    @pytest.fixture
    def allocation(self, world: World) -> Allocation:
        return ranks(start(world))[0]

    def test_chunks_are_stored_in_order_and_a_duplicate_is_fine(self, agent: Agent, allocation: Allocation) -> None:
        for offset, body in ((0, b"hello\n"), (6, b"world\n"), (0, b"hello\n"), (6, b"world\n")):
            answer = agent.log(allocation, offset, body)
            assert answer.status_code == 202
        assert answer.json() == {"size": 12}
        assert read(allocation, start=0, end=12) == b"hello\nworld\n"

    def test_a_rewrite_is_refused(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        assert agent.log(allocation, 0, b"jello\n").status_code == 409
        assert read(allocation, start=0, end=6) == b"hello\n"

    def test_a_gap_is_answered_with_the_size_that_is_stored(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        answer = agent.log(allocation, 9, b"world\n")
        assert (answer.status_code, answer.json()) == (416, {"size": 6})

    def test_bytes_that_were_given_up_are_a_hole_in_the_log(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        answer = agent.log(allocation, 100, b"world\n", X_Muster_Dropped="6-99")
        assert (answer.status_code, answer.json()) == (202, {"size": 106})
        assert LogFile.objects.get().holes == [[6, 100]]

    @pytest.mark.parametrize("dropped", ["8-99", "6-98", "9", "99-6", "6-99-7"])
    def test_a_hole_that_does_not_fit_is_refused(self, agent: Agent, allocation: Allocation, dropped: str) -> None:
        agent.log(allocation, 0, b"hello\n")
        assert agent.log(allocation, 100, b"world\n", X_Muster_Dropped=dropped).status_code in {416, 422}
        assert LogFile.objects.get().size == 6

    def test_a_chunk_that_is_too_large_is_refused(self, agent: Agent, allocation: Allocation) -> None:
        assert agent.log(allocation, 0, b"x" * (MAX_CHUNK_BYTES + 1)).status_code == 413
        assert agent.log(allocation, 0, b"x" * MAX_CHUNK_BYTES).status_code == 202

    def test_a_chunk_that_changed_on_the_way_is_refused(self, agent: Agent, allocation: Allocation) -> None:
        wrong = f"{zlib.crc32(b'other'):08x}"
        assert agent.log(allocation, 0, b"hello", X_Muster_Crc32=wrong).status_code == 422
        assert agent.log(allocation, 0, b"hello", Content_Range="bytes 0-3/*").status_code == 422
        assert agent.log(allocation, 0, b"hello", Content_Range=None).status_code == 422
        assert not LogFile.objects.exists()

    def test_an_old_fence_is_refused(self, agent: Agent, allocation: Allocation) -> None:
        fence = str(allocation.attempt_id - 1)
        assert agent.log(allocation, 0, b"hello", X_Muster_Fence=fence).status_code == 409
        assert agent.log(allocation, 0, b"hello", X_Muster_Fence="x").status_code == 422

    def test_a_log_may_come_after_the_end(self, agent: Agent, allocation: Allocation) -> None:
        agent.end(allocation)
        assert agent.log(allocation, 0, b"late\n").status_code == 202

    def test_a_log_with_the_right_digest_is_complete(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        assert agent.finish(allocation, 6, hashlib.sha256(b"hello\n").hexdigest()).json() == {}
        assert LogFile.objects.get().complete is True

    def test_an_empty_log_can_be_complete(self, agent: Agent, allocation: Allocation) -> None:
        agent.finish(allocation, 0, hashlib.sha256(b"").hexdigest())
        assert LogFile.objects.get().complete is True

    @pytest.mark.parametrize(
        ("size", "body", "holes"),
        [
            pytest.param(6, b"jello\n", (), id="another digest"),
            pytest.param(9, b"hello\nyou", (), id="bytes that never came"),
            pytest.param(9, b"hello\n", ((6, 8),), id="a hole at the end"),
        ],
    )
    def test_a_log_that_differs_says_so(
        self, agent: Agent, allocation: Allocation, size: int, body: bytes, holes: tuple[tuple[int, int], ...]
    ) -> None:
        agent.log(allocation, 0, b"hello\n")
        assert agent.finish(allocation, size, hashlib.sha256(body).hexdigest(), holes=holes).status_code == 200
        log = LogFile.objects.get()
        assert (log.complete, log.size) == (False, size)
        assert log.holes == ([[6, 9]] if size == 9 else [])

    def test_a_second_finish_changes_nothing(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        agent.finish(allocation, 6, hashlib.sha256(b"hello\n").hexdigest())
        assert agent.finish(allocation, 6, "0" * 64).status_code == 200
        assert LogFile.objects.get().complete is True

    def test_a_finished_log_grows_no_more(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        agent.finish(allocation, 6, hashlib.sha256(b"hello\n").hexdigest())
        assert agent.log(allocation, 0, b"hello\n").status_code == 202
        assert agent.log(allocation, 6, b"more\n").status_code == 409
        assert LogFile.objects.get().size == 6


class TestCode:
    @pytest.fixture
    def sha256(self, world: World) -> str:
        draft = new_draft()
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            member = tarfile.TarInfo("train.py")
            member.size = 5
            archive.addfile(member, io.BytesIO(b"print"))
        draft.write_bytes(buffer.getvalue())
        name = hashlib.sha256(buffer.getvalue()).hexdigest()
        store_code(user=world.user, draft=draft, sha256=name)
        return name

    def test_the_code_of_a_job_on_this_node_is_served(self, agent: Agent, world: World, sha256: str) -> None:
        (allocation,) = ranks(place(world, code={"upload": sha256}))
        code = agent.launch(allocation).code
        answer = agent.http.get(code_path(sha256), headers={"Authorization": bearer(agent.secret)})
        assert (answer.status_code, hashlib.sha256(answer.content).hexdigest()) == (200, sha256)
        assert code is not None
        assert code.size == len(answer.content)

    def test_the_code_of_other_nodes_jobs_is_not_there(
        self, agent: Agent, server: str, world: World, sha256: str
    ) -> None:
        place(world, code={"upload": sha256})
        with (other := agent_of(server, make_node(world.pool))).http:
            answer = other.http.get(code_path(sha256), headers={"Authorization": bearer(other.secret)})
        assert answer.status_code == 404

    def test_the_code_is_not_there_once_the_job_has_ended(self, agent: Agent, world: World, sha256: str) -> None:
        (allocation,) = ranks(start(world, code={"upload": sha256}))
        headers = {"Authorization": bearer(agent.secret)}
        assert agent.http.get(code_path(sha256), headers=headers).status_code == 200
        agent.end(allocation)
        assert agent.http.get(code_path(sha256), headers=headers).status_code == 404
        clone_job(user=world.user, job=allocation.attempt.job)
        cycle(world)
        assert Attempt.objects.count() == 2
        assert agent.http.get(code_path(sha256), headers=headers).status_code == 200
