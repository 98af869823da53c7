"""The simulator on stories short enough to be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.authoring import AssignmentPolicy, Config, Cycle
from scheduler.engine.policy import POLICIES
from scheduler.model.lifecycle import JobClass
from scheduler.policies.fifo import Fifo
from scheduler.sim.options import Oracle
from scheduler.sim.trace import TraceError
from tests.profiles import examples
from tests.sim.stories import by_id, ends, job, play


def test_a_job_that_has_the_cluster_to_itself_takes_as_long_as_its_work() -> None:
    result = play([job(1, at=7, runs=50)])
    assert ends(result) == {1: 57}
    assert result.makespan_s == 50
    assert result.busy_gpu_s == 50


def test_a_job_that_finds_no_gpu_waits_until_one_comes_free() -> None:
    result = play([job(1, gpus=3, runs=100), job(2, at=10, gpus=2, runs=20)])
    assert ends(result) == {1: 100, 2: 120}


def test_a_smaller_job_passes_one_that_does_not_fit() -> None:
    result = play([job(1, gpus=3, runs=100), job(2, at=10, gpus=2, runs=20), job(3, at=11, runs=5)])
    assert ends(result) == {1: 100, 2: 120, 3: 16}


def test_with_rounds_a_job_waits_for_the_end_of_its_round_and_gpus_come_free_at_one() -> None:
    result = play([job(1, at=1, gpus=4, runs=70), job(2, at=2, gpus=4, runs=10)], round_s=60)
    # The first starts at 60 and ends at 130, in the middle of a round; the second starts at the end of it.
    assert ends(result) == {1: 130, 2: 190}


def test_a_job_that_comes_exactly_at_the_end_of_a_round_is_seen_there() -> None:
    assert ends(play([job(1, at=60, runs=10)], round_s=60)) == {1: 70}


def test_the_first_round_may_be_later_than_the_start() -> None:
    assert ends(play([job(1, at=0, runs=10)], round_s=60, first_round_s=60)) == {1: 70}


def test_each_start_costs_a_restart_and_the_shortest_goes_first() -> None:
    long, short = job(1, gpus=4, runs=100), job(2, at=50, gpus=4, runs=10)
    result = play([long, short], policy="srtf", restart_s=5)
    # 5 s of start and 45 s of work, then the short one (5 + 10), then 5 s of start and the other 55 s.
    assert ends(result) == {1: 50 + 15 + 60, 2: 65}
    assert by_id(result)[1].preemptions == 1
    assert by_id(result)[1].overhead_gpu_s == 2 * 5 * 4
    assert by_id(result)[1].run_s == 50 + 60


def test_the_first_start_may_be_free() -> None:
    assert ends(play([job(1, runs=100)], restart_s=30, first_start_s=0)) == {1: 100}


def test_a_job_without_checkpoints_begins_again() -> None:
    long = job(1, gpus=4, runs=100, checkpoints=False)
    result = play([long, job(2, at=50, gpus=4, runs=10)], policy="srtf")
    assert ends(result) == {1: 160, 2: 60}
    assert by_id(result)[1].overhead_gpu_s == 50 * 4


def test_a_job_runs_in_the_batch_size_that_the_policy_chose_and_restarts_for_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[float, int | None]] = []

    class Batches(AssignmentPolicy):
        every_s = 20.0

        def choose(self, cycle: Cycle) -> Mapping[int, Config | None]:
            seen.extend((cycle.now, cycle.held(run).batch) for run in cycle.running())
            jobs = [*cycle.waiting(), *(run.job for run in cycle.running())]
            return {job.id: Config("A100", 2, batch=64 if cycle.now < 40 else 128) for job in jobs}

    monkeypatch.setattr(Fifo, "serve", lambda _, context: Batches().serve(context))
    result = play([job(1, gpus=2, runs=100)], grace_s=8)
    assert by_id(result)[1].moves == 1
    assert seen == [(20, 64), (40, 64), (68, 128), (88, 128)]


def test_a_preempted_job_keeps_its_gpus_for_its_grace() -> None:
    result = play([job(1, gpus=4, runs=100), job(2, at=50, gpus=4, runs=10)], policy="srtf", grace_s=8)
    # The short one gets the GPUs at 58 and ends at 68; of the long one 50 s are left, which its grace did not help.
    assert ends(result) == {1: 118, 2: 68}
    assert by_id(result)[1].run_s == 58 + 50


def test_a_job_that_lacks_quota_waits_for_the_grace_of_the_other_though_gpus_are_free() -> None:
    jobs = [job(1, gpus=4, runs=100), job(2, at=50, gpus=4, runs=10)]
    result = play(jobs, "A100:2x4", policy="srtf", grace_s=8, quotas={"default": {"A100": 4}})
    assert ends(result) == {1: 118, 2: 68}


def test_a_job_that_may_not_be_preempted_is_not() -> None:
    long = job(1, gpus=4, runs=100, preemptible=False)
    assert ends(play([long, job(2, at=50, gpus=4, runs=10)], policy="srtf")) == {1: 100, 2: 110}


def test_a_policy_without_predictions_does_not_know_the_shorter_job() -> None:
    result = play([job(1, gpus=4, runs=100), job(2, at=50, gpus=4, runs=10)], policy="srtf", oracle=Oracle.NONE)
    assert ends(result) == {1: 100, 2: 110}


def test_a_divisible_job_may_use_two_nodes_and_a_gang_may_not() -> None:
    jobs = [job(1, gpus=3, runs=100), job(2, gpus=3, runs=100), job(3, at=1, gpus=2, runs=10)]
    assert ends(play(jobs, "A100:2x4"))[3] == 11
    gang = job(3, at=1, gpus=2, runs=10, split=False)
    assert ends(play([*jobs[:2], gang], "A100:2x4"))[3] == 110


def test_distance_slows_a_job_down() -> None:
    jobs = [job(1, gpus=6, runs=100)]
    assert ends(play(jobs, "A100:2x4", spread_penalty=0.2)) == {1: 125}


def test_distributed_jobs_on_one_node_slow_each_other_down_while_both_are_there() -> None:
    # Three nodes of two GPUs: the first job lies on nodes 1 and 2, the second on nodes 2 and 3.
    jobs = [job(1, gpus=3, runs=100), job(2, at=10, gpus=3, runs=45)]
    result = play(jobs, "A100:3x2", placement="spread", interference=0.5)
    # At half speed the second needs 90 s and ends at 100; by then the first has done 10 + 45, and 45 are left.
    assert ends(result) == {1: 145, 2: 100}


def test_waiting_for_quota_differs_from_waiting_for_gpus() -> None:
    jobs = [
        job(1, gpus=2, runs=100, vc="a"),
        job(2, at=10, gpus=2, runs=10, vc="a"),  # its cluster may have two
        job(3, at=20, gpus=2, runs=100, vc="b"),
        job(4, at=30, gpus=2, runs=10, vc="c"),  # under quota, but no GPU is free
    ]
    quotas = {"a": {"A100": 2}, "b": {"A100": 2}, "c": {"A100": 2}}
    records = by_id(play(jobs, quotas=quotas))
    assert (records[2].fair_share_delay_s, records[2].fragmentation_delay_s) == (90, 0)
    assert (records[4].fair_share_delay_s, records[4].fragmentation_delay_s) == (0, 80)


def test_a_job_that_can_never_run_is_refused_by_name_or_left_out() -> None:
    jobs = [job(1, gpus=5), job(2)]
    with pytest.raises(TraceError, match=r"job 1 \(job1\): this job needs 5 A100"):
        play(jobs)
    result = play(jobs, skip_infeasible=True)
    assert (result.unfinished, by_id(result)[1].outcome) == (1, "infeasible")


def test_contention_is_the_mean_number_of_jobs_while_a_job_is_there() -> None:
    records = by_id(play([job(1, runs=100), job(2, at=50, runs=25)]))
    assert records[1].contention == pytest.approx((100 + 25) / 100)
    assert records[2].contention == 2


def test_contention_in_a_virtual_cluster_is_by_its_own_jobs() -> None:
    jobs = [job(1, runs=100, vc="a"), job(2, at=50, runs=25, vc="a"), job(3, runs=100, vc="b")]
    records = by_id(play(jobs, quotas={"a": {"A100": 3, "V100": 8}, "b": {"A100": 99}}))
    assert records[1].vc_contention == pytest.approx((100 + 25) / 100)
    assert (records[2].vc_contention, records[3].vc_contention) == (2, 1)
    assert [records[number].quota_gpus for number in (1, 2, 3)] == [3, 3, 4]


@settings(max_examples=examples(25))
@given(
    data=st.data(),
    policy=st.sampled_from(POLICIES.names),
    round_s=st.sampled_from([0, 30]),
    grace_s=st.sampled_from([0, 7]),
)
def test_every_job_ends_and_every_gpu_second_is_accounted_for(
    data: st.DataObject, policy: str, round_s: float, grace_s: float
) -> None:
    jobs = [
        job(
            number,
            at=data.draw(st.integers(0, 200)),
            gpus=data.draw(st.integers(1, 8)),
            runs=data.draw(st.integers(1, 150)),
            vc=data.draw(st.sampled_from("ab")),
            priority=data.draw(st.integers(0, 1)),
        )
        for number in range(1, data.draw(st.integers(1, 12)) + 1)
    ]
    result = play(jobs, "A100:2x4", policy=policy, round_s=round_s, grace_s=grace_s, restart_s=3, audit_every=1)
    assert result.unfinished == 0
    for record, traced in zip(result.records, jobs, strict=True):
        useful_gpu_s = traced.gpus * traced.work.remaining_s(0)
        assert record.service_gpu_s == pytest.approx(useful_gpu_s + record.overhead_gpu_s)
        assert record.overhead_gpu_s >= 3 * traced.gpus
        assert record.ended_s is not None
        waited = record.ended_s - record.submitted_s - record.run_s
        assert record.fair_share_delay_s + record.fragmentation_delay_s == pytest.approx(waited, abs=1e-6)


def test_a_job_that_holds_out_for_one_node_is_looked_at_again_when_it_gives_in() -> None:
    traced = [job(1, gpus=3), job(2, gpus=3), job(3, at=5, gpus=2, runs=10, split=True)]
    result = play(traced, "A100:2x4", placement="relaxing", placement_params={"node_s": 30, "rack_s": 60})
    # One GPU is free on each node, and until the others end at 100 no job arrives or ends.
    assert ends(result) == {1: 100, 2: 100, 3: 45}


def test_a_job_waits_for_its_share_also_where_the_policy_keeps_the_quotas() -> None:
    quotas = {"own": {"A100": 2}, "other": {"A100": 2}}
    jobs = [job(1, gpus=4, vc="own"), job(2, at=10.0, gpus=1, vc="own"), job(3, at=10.0, gpus=1, vc="other")]
    records = by_id(play(jobs, policy="fifo", admission="open", quotas=quotas))
    # Job 1 holds all, twice its quota: job 2 has no right to more, and job 3 has.
    assert (records[2].fair_share_delay_s, records[2].fragmentation_delay_s) == (90.0, 0.0)
    assert (records[3].fair_share_delay_s, records[3].fragmentation_delay_s) == (0.0, 90.0)


@pytest.mark.parametrize("policy", sorted(POLICIES.names))
def test_a_job_runs_on_a_type_that_it_may_use_only(policy: str) -> None:
    jobs = [job(number, gpus=2, runs=10, gpu_types=("T4", "P100"), time_limit_s=20) for number in (1, 2, 3)]
    params = {"every_s": 10} if policy == "themis" else {}  # it holds no auction sooner after another
    result = play(jobs, cluster="A100:2x4,P100:1x2", policy=policy, policy_params=params)
    assert sorted(record.ended_s or 0 for record in result.records) == [10, 20, 30]


def test_a_job_that_fits_on_one_node_can_be_made_to_wait_for_one() -> None:
    jobs = [job(1, gpus=3), job(2, gpus=3), job(3, at=5, gpus=2, runs=10)]
    assert ends(play(jobs, "A100:2x4")) == {1: 100, 2: 100, 3: 15}
    result = play(jobs, "A100:2x4", one_node=True)
    assert ends(result) == {1: 100, 2: 100, 3: 110}
    assert by_id(result)[3].fragmentation_delay_s == 95


def test_what_the_quota_has_no_room_for_runs_as_an_opportunistic_job_until_the_gpus_are_reclaimed() -> None:
    jobs = [job(1, gpus=2, vc="a"), job(2, at=1, gpus=2, vc="a"), job(3, at=50, gpus=2, vc="b")]
    quotas = {"a": {"A100": 2}, "b": {"A100": 2}}
    result = play(jobs, admission="borrow", quotas=quotas, opportunistic=True)
    # Job 2 stops for job 3 at 50 and goes on as a guaranteed job when job 1 has ended.
    assert ends(result) == {1: 100, 2: 151, 3: 150}
    record = by_id(result)[2]
    assert (record.preemptions, record.fair_share_delay_s, record.fragmentation_delay_s) == (1, 50, 0)


def test_a_run_can_keep_which_gpus_each_job_held() -> None:
    result = play([job(1, gpus=3), job(2, at=10, gpus=2, runs=20)], spans=True)
    assert [(one.job_id, len(one.gpu_ids), one.start_s, one.end_s) for one in result.spans] == [
        (1, 3, 0, 100),
        (2, 2, 100, 120),
    ]


def test_an_opportunistic_job_of_the_trace_borrows() -> None:
    jobs = [job(1, gpus=4, vc="a", job_class=JobClass.OPPORTUNISTIC), job(2, at=10, gpus=4, vc="a")]
    result = play(jobs, admission="borrow", quotas={"a": {"A100": 4}})
    assert ends(result) == {1: 200, 2: 110}


@pytest.mark.parametrize(("half_life_h", "first"), [(None, "a"), (1, "b")])
def test_fair_shares_over_time_serve_the_virtual_cluster_that_used_less(half_life_h: float | None, first: str) -> None:
    # a had all GPUs before; when they are free again, only past use tells it from b.
    before = job(1, vc="a", gpus=4, runs=1000)
    after = [job(2, at=10, vc="a", gpus=4, runs=100), job(3, at=20, vc="b", gpus=4, runs=100)]
    result = play([before, *after], policy="fair", policy_params={"half_life_h": half_life_h}, admission="open")
    assert ends(result) == {1: 1000, 2: 1100 if first == "a" else 1200, 3: 1100 if first == "b" else 1200}
