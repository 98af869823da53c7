"""The agents' protocol, spoken to the real web process over HTTP."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.routing import Route

from muster.agents import endpoint
from muster.agents.shells import SHELL_ROUTES
from muster.common.secrets import digest
from muster.events.hub import Waiter
from muster.events.models import Event
from muster.fleet.models import Gpu, Node, NodeLease
from muster.fleet.services import create_node
from muster.jobs.models import Allocation
from muster.jobs.services import cancel_job
from muster.logs.models import LogFile
from nodeagent.protocol.calls import REGISTER_PATH, bearer
from nodeagent.protocol.messages import (
    Action,
    AllocationReport,
    BeatRequest,
    EndReason,
    GpuInfo,
    GpuSample,
    HealthEvent,
    Inventory,
    Observed,
    ProgressNote,
    RegisterResponse,
    SyncResponse,
)
from scheduler.model.lifecycle import NodeHealth
from tests.db.agent_calls import CREDENTIAL, Agent, a100, agent_of, inventory
from tests.db.stories import (
    BOOT,
    WAIT_S,
    World,
    cycle,
    let_pass,
    now_of,
    place,
    ranks,
    start,
    states,
    submit,
)
from tests.factories import make_node, make_token, make_user

BODY_ROUTES = [route for route in (*endpoint.ROUTES, *SHELL_ROUTES) if "GET" not in (route.methods or ())]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


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

    @pytest.mark.parametrize("protocol", [1, 99])
    def test_another_protocol_is_refused_whatever_else_its_registration_says(
        self, new: tuple[Agent, Node, str], protocol: int
    ) -> None:
        agent, _, token = new
        answer = agent.http.post(REGISTER_PATH, json={"protocol": protocol}, headers={"Authorization": bearer(token)})
        assert (answer.status_code, answer.json()["detail"]) == (
            409,
            f"this agent speaks protocol {protocol}, and this platform speaks protocol 2: "
            "install the agent of this platform",
        )

    def test_a_body_that_is_no_message_names_the_field(self, agent: Agent) -> None:
        headers = {"Authorization": bearer(agent.secret)}
        answer = agent.http.post("/agent/v1/beat", json={"epoch": "one"}, headers=headers)
        assert answer.status_code == 422
        assert "epoch" in answer.json()["detail"]
        assert agent.http.post("/agent/v1/beat", content=b"{", headers=headers).status_code == 400
        assert agent.http.post("/agent/v1/beat", content=b"[" * 100_000, headers=headers).status_code == 400

    @pytest.mark.parametrize("route", BODY_ROUTES, ids=lambda route: route.path)
    def test_a_secret_of_no_node_is_refused_before_the_body_is_read(
        self, server: str, agent: Agent, route: Route
    ) -> None:
        (method,) = route.methods or ()
        headers = {"Authorization": f"Bearer {make_token(make_user())}"}
        for body in (b"{", b" " * (5 << 20)):
            answer = agent.http.request(method, re.sub(r"{\w+:int}", "1", route.path), content=body, headers=headers)
            assert (answer.status_code, answer.json()["type"]) == (401, "about:blank#unauthorized")

    def test_a_packed_body_is_not_unpacked(self, agent: Agent) -> None:
        # A valid message, and one whose body is far beyond the limit once it is unpacked.
        beat = json.dumps(BeatRequest(agent.epoch, 1, BOOT).to_dict()).encode()
        for body in (beat, beat + b" " * (100 << 20)):
            headers = {"Authorization": bearer(agent.secret), "Content-Encoding": "gzip"}
            answer = agent.http.post("/agent/v1/beat", content=gzip.compress(body), headers=headers)
            assert (answer.status_code, answer.json()["detail"]) == (400, "the body is not JSON")

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

    def test_ten_thousand_gpus_are_refused_whole(self, agent: Agent, world: World) -> None:
        before = Gpu.objects.count()
        answer = agent.register(inventory=inventory(*(a100(place, f"GPU-{place}") for place in range(10_000))))
        assert answer.status_code == 422
        assert [error["field"] for error in answer.json()["errors"]] == ["inventory.gpus"]
        assert Gpu.objects.count() == before

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


class TestStateFolder:
    """An agent knows by its state folder what it has started; another folder of the same boot knows nothing of it."""

    @pytest.fixture
    def allocation(self, agent: Agent, world: World) -> Allocation:
        """The allocation that an agent with the folder `first` has claimed and runs."""
        self.register(agent, world, "first")
        allocation = ranks(place(world))[0]
        agent.launch(allocation)
        agent.sync(allocations=(AllocationReport(allocation.pk, allocation.attempt_id, Observed.RUNNING),))
        return allocation

    def register(self, agent: Agent, world: World, state_id: str) -> None:
        agent.state_id = state_id
        assert agent.register(inventory=as_it_is(world.nodes[0])).status_code == 200

    def test_the_folder_is_kept_with_the_node_and_with_the_claim(self, world: World, allocation: Allocation) -> None:
        node = now_of(world.nodes[0])
        assert (node.state_id, now_of(allocation).state_id) == ("first", "first")
        assert node.state_since < now_of(allocation).claimed_at

    def test_the_same_folder_goes_on(self, agent: Agent, world: World, allocation: Allocation) -> None:
        since = now_of(world.nodes[0]).state_since
        self.register(agent, world, "first")
        assert now_of(world.nodes[0]).state_since == since
        assert [wish.id for wish in agent.desired()] == [allocation.pk]
        assert agent.claim(allocation).status == 200
        assert agent.end(allocation).status == 200
        assert states(allocation.attempt.job)[0] == "succeeded"

    def test_another_folder_is_neither_given_what_runs_nor_told_to_stop_it(
        self, agent: Agent, world: World, allocation: Allocation
    ) -> None:
        self.register(agent, world, "second")
        assert agent.desired() == ()
        refused = agent.claim(allocation)
        assert refused.status == 409
        assert "state folder" in refused.detail
        cancel_job(user=world.user, job=allocation.attempt.job)
        assert agent.desired() == ()
        # Out of an empty folder an agent would call unstarted what it is told to stop.
        assert agent.end(allocation, EndReason.NEVER_STARTED, started=False, exit_code=None).status == 409
        assert states(allocation.attempt.job) == ("active", "stopping", ["releasing"])
        assert Event.objects.filter(kind="node.registered").latest("pk").data["state_lost"] is True

    def test_the_folder_that_comes_back_has_its_jobs_back(
        self, agent: Agent, world: World, allocation: Allocation
    ) -> None:
        self.register(agent, world, "second")
        self.register(agent, world, "first")
        assert [(wish.id, wish.action) for wish in agent.desired()] == [(allocation.pk, Action.RUN)]
        assert agent.end(allocation).status == 200

    def test_a_late_word_of_the_folder_between_ends_nothing(
        self, agent: Agent, world: World, allocation: Allocation
    ) -> None:
        self.register(agent, world, "first")
        late = {"state_id": "second", "started": False, "exit_code": None}
        assert agent.end(allocation, EndReason.NEVER_STARTED, **late).status == 409
        assert states(allocation.attempt.job) == ("active", "running", ["active"])

    def test_what_nobody_has_claimed_is_the_new_folders(
        self, agent: Agent, world: World, allocation: Allocation
    ) -> None:
        unclaimed = ranks(place(world))[0]
        self.register(agent, world, "second")
        assert [wish.id for wish in agent.desired()] == [unclaimed.pk]
        assert agent.claim(unclaimed).status == 200
        assert agent.end(unclaimed).status == 200

    def test_another_boot_frees_what_any_folder_held(self, agent: Agent, world: World, allocation: Allocation) -> None:
        agent.boot_id = "boot-2"
        self.register(agent, world, "second")
        assert states(allocation.attempt.job) == ("queued", "lost", ["released"])

    @pytest.mark.parametrize("name", ["", "x" * 65])
    def test_a_name_that_is_empty_or_too_long_is_refused(self, agent: Agent, world: World, name: str) -> None:
        answer = agent.register(inventory=as_it_is(world.nodes[0]), state_id=name)
        assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (422, ["state_id"])
        outcome = agent.claim(ranks(place(world))[0], state_id=name)
        assert (outcome.status, "state_id" in outcome.detail) == (422, True)


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
        assert agent.claim(allocation, epoch=old).status == 409
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

    def test_a_placed_job_wakes_the_long_poll(
        self, agent: Agent, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Without a wake-up it looks again only when the client has given up.
        monkeypatch.setattr(endpoint, "READ_AGAIN_AFTER_S", 1000.0)
        waits = threading.Event()
        wait = Waiter.wait

        async def told(waiter: Waiter, timeout_s: float) -> bool:
            waits.set()
            return await wait(waiter, timeout_s)

        monkeypatch.setattr(Waiter, "wait", told)
        generation = SyncResponse.from_dict(agent.sync().json()).generation
        answers: list[SyncResponse] = []
        polling = threading.Thread(
            target=lambda: answers.append(SyncResponse.from_dict(agent.sync(generation=generation, wait_s=25).json()))
        )
        submit(world)
        polling.start()
        assert waits.wait(WAIT_S)
        cycle(world)
        polling.join(WAIT_S)
        (answer,) = answers
        assert len(answer.desired) == 1

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

    def test_how_far_a_start_is_can_be_read_among_the_jobs_events(self, agent: Agent, world: World) -> None:
        allocation = ranks(place(world))[0]
        agent.launch(allocation)
        note = ProgressNote(allocation.pk, allocation.attempt_id, "pulling busybox")
        agent.sync(notes=(note, replace(note, fence=note.fence + 1, text="of an old attempt")))
        event = Event.objects.get(kind="attempt.progress")
        assert (event.job_id, event.tenant_id) == (allocation.attempt.job_id, allocation.attempt.job.tenant_id)
        assert event.data == {"attempt": 1, "rank": 0, "node": world.nodes[0].name, "text": "pulling busybox"}
        assert agent.end(allocation).status == 200
        agent.sync(notes=(note,))
        assert Event.objects.filter(kind="attempt.progress").count() == 1

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
        assert agent.end(allocation).status == 200
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
        assert now_of(world.nodes[0]).version > world.nodes[0].version
        Node.objects.update(admin="active")  # the other GPUs of a node that is given back
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
            params={"layers": 2, "momentum": 0.9, "nesterov": True, "opt": "sgd"},
            workdir="/workspace/src",
            checkpoint={"signal": "USR1", "grace": "60s"},
            on_disconnect="keep",
            image="pytorch/pytorch:2.9",
            shm="2GiB",
        )
        (allocation,) = ranks(attempt)
        spec = agent.launch(allocation)
        assert (spec.allocation_id, spec.job_id, spec.attempt, spec.rank) == (allocation.pk, attempt.job_id, 1, 0)
        assert (spec.fence, spec.name, spec.owner) == (attempt.pk, "train", world.user.username)
        assert (spec.command, spec.workdir) == ("python train.py", "/workspace/src")
        assert (spec.cpus, spec.memory_mib, spec.time_limit_s) == (8, 16_384, 7200)
        assert (spec.stop_signal, spec.grace_s, spec.stop_after_s) == ("USR1", 60, 600)
        assert (spec.on_disconnect.value, spec.code, spec.uid) == ("keep", None, world.user.uid)
        uuids = allocation.claims.order_by("gpu__index").values_list("gpu__uuid", flat=True)
        assert list(spec.gpu_uuids) == list(uuids)
        assert len(spec.gpu_uuids) == 2
        assert spec.env["LR"] == "0.1"
        params = ("layers", "momentum", "nesterov", "opt")
        assert [spec.env[name] for name in params] == ["2", "0.9", "true", "sgd"]
        assert (spec.image, spec.shm_mib, spec.nodes) == ("pytorch/pytorch:2.9", 2048, 1)

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
        assert (other["PET_NNODES"], other["PET_NODE_RANK"], other["PET_NPROC_PER_NODE"]) == ("2", "1", "4")
        assert (other["PET_MASTER_ADDR"], other["PET_MASTER_PORT"]) == (first["MASTER_ADDR"], first["MASTER_PORT"])
        assert (first["MUSTER_JOB_ID"], first["MUSTER_ATTEMPT"]) == (str(attempt.job_id), "1")
        assert not [name for name in first if name.startswith("SLURM_")]

    def test_torchrun_finds_its_options_and_a_job_may_choose_others(self, agent: Agent, world: World) -> None:
        attempt = place(world, gpus=2, env={"PET_NPROC_PER_NODE": "1", "PET_MONITOR_INTERVAL": "0.5"})
        env = agent.launch(ranks(attempt)[0]).env
        assert {name: value for name, value in env.items() if name.startswith("PET_")} == {
            "PET_NNODES": "1",
            "PET_NODE_RANK": "0",
            "PET_NPROC_PER_NODE": "1",
            "PET_MASTER_ADDR": env["MASTER_ADDR"],
            "PET_MASTER_PORT": env["MASTER_PORT"],
            "PET_MONITOR_INTERVAL": "0.5",
        }

    def test_slurms_variables_are_set_where_the_job_asks(self, agent: Agent, world: World) -> None:
        attempt = place(world, slurm_env=True, gpus=2, env={"SLURM_NTASKS": "4"})
        env = agent.launch(ranks(attempt)[0]).env
        assert env["SLURM_NTASKS"] == "4"  # the job's own, as of a script for several tasks
        assert "SLURM_RESTART_COUNT" not in env
        assert (env["SLURM_JOB_ID"], env["SLURM_PROCID"], env["SLURM_NNODES"]) == (str(attempt.job_id), "0", "1")
        assert (env["SLURM_NODELIST"], env["SLURM_GPUS_ON_NODE"]) == (world.nodes[0].name, "2")

    def test_the_same_boot_gets_the_same_answer_and_another_is_refused(self, agent: Agent, world: World) -> None:
        allocation = ranks(place(world))[0]
        assert agent.launch(allocation) == agent.launch(allocation)
        assert agent.claim(allocation, boot_id="boot-2").status == 409

    def test_an_old_fence_and_a_stopped_attempt_are_refused(self, agent: Agent, world: World) -> None:
        allocation = ranks(place(world))[0]
        assert agent.claim(allocation, fence=allocation.attempt_id - 1).status == 409
        cancel_job(user=world.user, job=allocation.attempt.job)
        assert agent.claim(allocation).status == 409

    def test_another_nodes_allocation_is_not_there_whatever_is_asked(
        self, agent: Agent, server: str, world: World
    ) -> None:
        allocation = ranks(start(world))[0]
        with (other := agent_of(server, make_node(world.pool))).http:
            assert other.claim(allocation).status == 404
            assert other.end(allocation).status == 404
            assert other.log(allocation, 0, b"x").status_code == 404
            assert other.finish(allocation, 0, "").status == 404
        assert states(allocation.attempt.job) == ("active", "running", ["active"])
        assert not LogFile.objects.exists()


class TestEnd:
    def test_an_end_is_taken_once(self, agent: Agent, world: World) -> None:
        allocation = ranks(start(world, retry={"max": 0}))[0]
        assert agent.end(allocation, EndReason.EXIT_NONZERO, exit_code=3, detail="boom").status == 200
        assert agent.end(allocation, EndReason.EXIT_NONZERO, exit_code=4).status == 200
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
            assert answer.status == 200, answer.detail
            assert now_of(allocation.attempt).reason == reason.value

    def test_an_old_fence_or_another_boot_is_refused(self, agent: Agent, world: World) -> None:
        allocation = ranks(start(world))[0]
        assert agent.end(allocation, fence=allocation.attempt_id - 1).status == 409
        assert agent.end(allocation, boot_id="boot-2").status == 409
        assert states(allocation.attempt.job) == ("active", "running", ["active"])
