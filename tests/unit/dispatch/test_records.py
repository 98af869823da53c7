"""Records that are packed and read again are equal, and store once what their rows share."""

import zlib
from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from muster.dispatch.snapshot.records import packed, plan_of, snapshot_of
from scheduler.model import Job, Snapshot
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Hold, Place, Plan
from scheduler.model.request import Request, request_of
from tests.unit.scheduler.factories import make_job, make_node, make_running, make_share, make_snapshot, make_vc

REQUESTS = [request_of(gpus=gpus, nodes=nodes, cpus=cpus) for gpus in (0, 1, 8) for nodes in (1, 2) for cpus in (1, 4)]
DETAILS = ["of 8 A100 in this pool, none is free", 'vision uses 8 of its "8" A100', "eins ä"]
EVIDENCE = [{"free": 0, "share": 0.5, "gpu_type": "A100"}, {}, {"used": 8}]
HELPS = [(), ("wait",), ("1 more A100 becomes free", "ask for fewer")]


def equal_but_another(request: Request) -> Request:
    return replace(request)


def jobs(numbers: list[tuple[int, bool]]) -> tuple[Job, ...]:
    """Jobs with these requests; where `True`, in an object of its own."""
    return tuple(
        make_job(job_id, request=equal_but_another(REQUESTS[number]) if alone else REQUESTS[number], ran_s=job_id / 7)
        for job_id, (number, alone) in enumerate(numbers, start=1)
    )


def world(waiting: tuple[Job, ...]) -> Snapshot:
    return make_snapshot(
        nodes=[make_node(1, unhealthy=[3])],
        waiting=waiting,
        running=[make_running(make_share(1, (0, 1)))],
        vcs=[make_vc(1, quotas={"A100": 4})],
    )


@given(numbers=st.lists(st.tuples(st.integers(0, len(REQUESTS) - 1), st.booleans()), max_size=8))
def test_a_packed_snapshot_is_read_as_it_was(numbers: list[tuple[int, bool]]) -> None:
    before = world(jobs(numbers))
    assert snapshot_of(packed(before)) == before


@given(rows=st.lists(st.tuples(*[st.integers(0, 2)] * 3, st.sampled_from(HoldReason)), max_size=8))
def test_a_packed_plan_is_read_as_it_was(rows: list[tuple[int, int, int, HoldReason]]) -> None:
    holds = tuple(
        Hold(job_id, reason, DETAILS[detail], EVIDENCE[evidence], HELPS[helps], job_id + 1)
        for job_id, (detail, evidence, helps, reason) in enumerate(rows)
    )
    before = Plan((Place(99, (make_share(1, (4,)),)),), holds, wake_at=1.5)
    assert plan_of(packed(before)) == before


def test_a_request_that_many_jobs_share_is_stored_once() -> None:
    stored = orjson.loads(zlib.decompress(packed(world(jobs([(5, False)] * 100)))))
    assert [len(values) for values in stored["waiting"]["values"].values()] == [1]
