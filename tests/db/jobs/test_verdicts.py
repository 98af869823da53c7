"""Verdicts from a job's output before its failure: retries, their places, and the reason that its owner reads."""

from __future__ import annotations

import pytest

from muster.events.models import Event
from muster.fleet.models import Strike
from muster.jobs.attempt.attempts import lose_allocations
from muster.jobs.models import Attempt, Job, RankTail
from muster.jobs.services import cancel_job
from scheduler.model.reasons import Reason
from tests.db.stories import (
    World,
    claim,
    cycle,
    end,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    place,
    ranks,
    run,
    start,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]

BROKEN_CODE = """Traceback (most recent call last):
  File "train.py", line 12, in <module>
    import nowhere
ModuleNotFoundError: No module named 'nowhere'
"""
BROKEN_GPU = "step 40 loss 2.31\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n"
BROKEN_NETWORK = """Traceback (most recent call last):
  File "train.py", line 30, in <module>
    data = fetch()
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='data.example.org', port=443): Max retries exceeded
"""


@pytest.fixture
def world() -> World:
    return make_world(nodes=4)


def fail(attempt: Attempt, tail: str, reason: Reason = Reason.EXIT_NONZERO, exit_code: int = 1) -> Job:
    """The job after its one rank has failed with these last words."""
    end(ranks(attempt)[0], reason, exit_code=exit_code, tail=tail)
    return now_of(attempt.job)


def next_attempt(job: Job) -> Attempt:
    """The job's next attempt, running, once its pause is over."""
    let_pass(3600, job, "eligible_at")
    run(claim(ranks(place_again(job))[0]))
    return live_attempt(job)


def place_again(job: Job) -> Attempt:
    cycle(World(job.pool, job.tenant, job.owner, job.vc, []))
    return live_attempt(job)


def test_a_failure_has_class_line_and_hint(world: World) -> None:
    job = fail(start(world), BROKEN_CODE)
    assert job.state == "failed"
    assert job.failure["class"] == "import_error"
    assert job.failure["category"] == "user"
    assert job.failure["line"] == "ModuleNotFoundError: No module named 'nowhere'"
    assert job.failure["hint"]
    assert Attempt.objects.get(job=job).failure == job.failure
    event = Event.objects.get(job_id=job.pk, kind="job.failed")
    assert event.data["failure"] == "import_error"


def test_what_no_retry_can_help_is_not_tried_again_though_failures_are(world: World) -> None:
    job = fail(start(world, retry={"max": 3, "on": ["failed"]}), BROKEN_CODE)
    assert (job.state, job.retries_used) == ("failed", 0)


def test_who_wants_anything_retried_has_it(world: World) -> None:
    job = fail(start(world, retry={"max": 1, "on": ["anything"]}), BROKEN_CODE)
    assert (job.state, job.retries_used) == ("queued", 1)
    assert fail(next_attempt(job), BROKEN_CODE).state == "failed"


def test_a_broken_gpu_is_infrastructures_and_the_job_goes_elsewhere(world: World) -> None:
    attempt = start(world)
    node = ranks(attempt)[0].node_id
    job = fail(attempt, BROKEN_GPU)
    assert (job.state, job.avoid_nodes, job.retries_used) == ("queued", [node], 1)
    assert ranks(next_attempt(job))[0].node_id != node


def test_what_fails_so_on_three_nodes_is_the_job(world: World) -> None:
    attempt = start(world, retry={"max": 10, "on": ["infrastructure"]})
    for _ in range(2):
        job = fail(attempt, BROKEN_GPU)
        assert job.state == "queued"
        attempt = next_attempt(job)
    assert fail(attempt, BROKEN_GPU).state == "failed"


def test_a_node_is_blamed_for_what_jobs_say_of_it_once_a_day_for_each_owner(world: World) -> None:
    world = make_world(nodes=1)
    for _ in range(2):
        fail(start(world, retry={"max": 0, "on": []}), BROKEN_GPU)
    strike = Strike.objects.get()
    assert (strike.reason, strike.node_id) == ("told_by_jobs", world.nodes[0].pk)
    assert strike.detail.startswith("gpu_ecc_error: RuntimeError: CUDA error: uncorrectable ECC error")
    fail(start(world, retry={"max": 0, "on": []}), BROKEN_CODE)
    assert Strike.objects.count() == 1


def test_a_broken_network_needs_a_pause_and_no_other_node(world: World) -> None:
    job = fail(start(world), BROKEN_NETWORK)
    assert (job.state, job.avoid_nodes) == ("queued", [])
    assert job.failure["class"] == "connection_error"
    assert job.retried_because == ("Attempt 1 was tried again, because this failure may pass: Connection error.")
    pause_s = (job.eligible_at - job.requeued_at).total_seconds()
    assert 3.7 < pause_s < 6.3


def test_a_collective_that_timed_out_is_tried_again(world: World) -> None:
    words = "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE)\n"
    job = fail(start(world), words, Reason.KILLED_BY_SIGNAL, 134)
    assert (job.failure["class"], job.state) == ("nccl_timeout", "queued")


def test_without_a_signature_it_is_as_the_exit_status_says(world: World) -> None:
    job = fail(start(world), "bye\n")
    assert (job.state, job.failure["class"]) == ("failed", "no_signature")
    job = fail(start(world, retry={"max": 1, "on": ["failed"]}), "")
    assert job.state == "queued"


def test_a_kill_for_memory_is_the_jobs_own_by_the_word_of_the_agent(world: World) -> None:
    job = fail(start(world), "epoch 1\nKilled\n", Reason.OUT_OF_MEMORY, 137)
    assert (job.state, job.failure["class"]) == ("failed", "cpu_out_of_memory")


def test_an_xid_that_the_agent_told_is_the_cause_of_what_the_log_complains_of(world: World) -> None:
    attempt = start(world)
    allocation = ranks(attempt)[0]
    uuid = allocation.claims.get().gpu.uuid
    data = {
        "node": allocation.node.name,
        "kind": "xid",
        "gpu": uuid,
        "xid": 79,
        "detail": "Xid (PCI:0000:3b:00): 79, GPU has fallen",
    }
    Event.objects.create(kind="gpu.health", actor="agent", node_id=allocation.node_id, data=data)
    Event.objects.create(
        kind="gpu.health", actor="agent", node_id=allocation.node_id, data=data | {"gpu": "other", "xid": 48}
    )
    job = fail(attempt, "RuntimeError: CUDA error: unspecified launch failure\n")
    assert (job.failure["class"], job.state) == ("gpu_lost", "queued")
    assert (
        not Strike.objects.exists()
    )  # no job has said it: whether a GPU is blamed is decided where its agent tells it


def test_of_a_gang_the_rank_that_failed_first_is_the_cause(world: World) -> None:
    gang = start(world, nodes=3, gpus=2)
    first, second, third = ranks(gang)
    symptom = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"
    end(
        second,
        Reason.EXIT_NONZERO,
        tail="torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
    )
    assert RankTail.objects.count() == 1
    end(first, Reason.EXIT_NONZERO, tail=symptom)
    end(third, Reason.KILLED_BY_SIGNAL, exit_code=143, tail=symptom)
    job = now_of(gang.job)
    assert (job.failure["class"], job.failure["rank"], job.state) == ("gpu_out_of_memory", 1, "failed")
    assert not RankTail.objects.exists()


def test_a_rank_that_died_without_a_word_may_be_the_cause(world: World) -> None:
    gang = start(world, nodes=2, gpus=2)
    first, second = ranks(gang)
    end(second, Reason.KILLED_BY_SIGNAL, exit_code=139)
    end(first, Reason.EXIT_NONZERO, tail="RuntimeError: Connection reset by peer [10.0.0.7]:29500\n")
    assert now_of(gang.job).failure["class"] == "segfault"


def test_a_node_that_vanished_is_the_class_of_a_lost_attempt(world: World) -> None:
    attempt = start(world)
    lose_allocations(
        attempt_id=attempt.pk, node_id=ranks(attempt)[0].node_id, reason=Reason.NODE_LOST, detail="away", actor="test"
    )
    attempt.refresh_from_db()
    assert attempt.failure["class"] == "node_lost"


@pytest.mark.parametrize("outcome", ["cancelled", "succeeded", "not started"])
def test_what_did_not_fail_by_itself_has_no_class(world: World, outcome: str) -> None:
    if outcome == "not started":
        attempt = place(world, retry={"max": 0, "on": []})
        end(claim(ranks(attempt)[0]), Reason.LAUNCH_FAILED, started=False, tail=BROKEN_CODE)
    else:
        attempt = start(world)
        if outcome == "cancelled":
            cancel_job(user=world.user, job=attempt.job)
            end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143, tail=BROKEN_CODE)
        else:
            end(ranks(attempt)[0], tail=BROKEN_CODE)
    assert now_of(attempt).failure is None
    assert now_of(attempt.job).failure is None


@pytest.mark.parametrize("tail", ["\x1b[31m\ud7ff" * 9000, "\0\0", "x" * 65_536, "ECC" * 20_000 + "\n" * 9])
def test_hostile_last_words_end_the_job_as_any_others(world: World, tail: str) -> None:
    assert fail(start(world), tail).state in {"failed", "queued"}


def test_a_line_that_a_page_cannot_show_is_stored_without_it(world: World) -> None:
    job = fail(start(world), "ModuleNotFoundError: No module named '\u202enowhere\x07'\n")
    assert job.failure["line"].isprintable()
