"""Predicted run times: by rules, by trees, and corrected while a job runs."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.predict.history import MAX_S, EndedRun, History, RunTimeJob, stem_of
from scheduler.predict.runtimes import (
    RunTime,
    RunTimeModel,
    Source,
    by_rules,
    corrected,
    corrected_at,
    score,
    train,
)
from scheduler.predict.runtimes import model as model_module
from scheduler.predict.runtimes.model import newest
from scheduler.predict.runtimes.rows import rows_of
from scheduler.predict.storage import ModelError

DAY_S = 86_400.0
START = 1_700_000_000.0


def job(owner: str = "ada", *, at: float = START, **told: object) -> RunTimeJob:
    return RunTimeJob(owner=owner, submitted_at=at, **told)  # type: ignore[arg-type]


def ended(took_s: float, *, after_s: float = 0.0, censored: bool = False, **told: object) -> EndedRun:
    one = job(at=START + after_s, **told)
    return EndedRun(one, one.submitted_at + max(0.0, took_s), took_s, censored)


def trace(count: int = 1200, *, scale: float = 1.0) -> list[EndedRun]:
    """Runs of six owners with two kinds of jobs each, and with estimates that are all wrong by the same factor."""
    draw = random.Random(5)
    runs = []
    for at in range(count):
        owner, kind = draw.randrange(6), draw.randrange(2)
        typical = 60.0 * 4 ** ((owner * 2 + kind) / 3)
        took_s = typical * math.exp(draw.gauss(0, 0.5))
        limit_s = 10 * typical if draw.random() < 0.7 else typical
        one = RunTimeJob(
            owner=f"owner-{owner}", submitted_at=START + at * 600.0, name=f"{'train' if kind else 'eval'}-{at}",
            gpus=1 + kind, limit_s=limit_s, user_s=scale * typical if owner % 2 else None,
        )  # fmt: skip
        runs.append(EndedRun(one, one.submitted_at + min(took_s, limit_s), min(took_s, limit_s), took_s > limit_s))
    return runs


@pytest.fixture(scope="module")
def model() -> RunTimeModel:
    found = train(trace(), now=math.inf)
    assert found is not None
    return found


def test_names_that_differ_in_numbers_have_one_stem() -> None:
    assert {stem_of(name) for name in ("Run-017_0.1", "run_18", " run2 ")} == {"run#"}
    assert stem_of("train-a") != stem_of("train-b")


def test_last_two_and_name_stem_are_what_they_are_called() -> None:
    history = History([ended(took, name=f"x{took}") for took in (100, 200, 400)] + [ended(800, name="other")])
    assert history.last_two_s(job(name="x9")) == 600
    assert history.name_stem_s(job(name="x9")) == 200
    assert history.last_two_s(job(name="x9", limit_s=90)) == history.name_stem_s(job(name="x9", limit_s=90)) == 90
    assert history.name_stem_s(job(name="y")) is history.last_two_s(job("eve")) is None


def test_only_the_last_ten_runs_count() -> None:
    history = History(ended(100) for _ in range(10))
    assert history.name_stem_s(job()) == 100
    for _ in range(6):
        history.add(ended(300))
    assert history.name_stem_s(job()) == 300


@pytest.mark.parametrize("took_s", [-5.0, math.nan])
def test_a_run_of_a_clock_that_jumped_back_does_not_count(took_s: float) -> None:
    history = History([ended(took_s)])
    assert by_rules(job(), history) is None
    assert len(rows_of([ended(took_s), ended(60)])) == 1


def test_zero_seconds_and_a_thousand_years_stay_within_bounds() -> None:
    history = History([ended(0.0), ended(1e11)])
    assert history.last_two_s(job()) == (1.0 + MAX_S) / 2
    assert by_rules(job(limit_s=3600.0), history) is not None


RULES = {
    "nothing is known": ([], {}, None),
    "the limit alone": ([], {"limit_s": 100.0}, (Source.LIMIT, 100.0)),
    "the estimate of a user without ended jobs": ([], {"limit_s": 100.0, "user_s": 1.0}, (Source.USER, 1.0)),
    "without a record, a short estimate gains nothing": (
        [ended(20)],
        {"name": "y", "user_s": 2.0},
        (Source.HISTORY, 20.0),
    ),
    "without a record, a long estimate counts": ([ended(20)], {"name": "y", "user_s": 50.0}, (Source.USER, 50.0)),
    "an estimate above the limit": (
        [ended(20, user_s=10.0)],
        {"name": "y", "user_s": 90.0, "limit_s": 100.0},
        (Source.USER, 100.0),
    ),
    "an estimate by the record": ([ended(20, user_s=10.0)], {"name": "y", "user_s": 40.0}, (Source.USER, 80.0)),
    "the stem and an estimate by the record": (
        [ended(20, user_s=10.0)],
        {"user_s": 40.0},
        (Source.HISTORY, 40.0),
    ),
    "other jobs of the owner": ([ended(20), ended(60)], {"name": "y"}, (Source.HISTORY, 40.0)),
}


@pytest.mark.parametrize("case", RULES)
def test_without_a_model_the_first_rule_that_knows_predicts(case: str) -> None:
    runs, told, expected = RULES[case]
    found = by_rules(job(**told), History(runs))  # type: ignore[arg-type]
    assert (None if found is None else (found.source, pytest.approx(found.p50_s))) == expected


def test_trees_beat_last_two_on_jobs_they_have_not_seen(model: RunTimeModel) -> None:
    assert model.scores["pinball_model"] < 0.8 * model.scores["pinball_last_two"]
    assert model.scores["jobs"] == 120
    assert model.scores["spearman"] > 0.8


def test_the_interval_holds_four_of_five_jobs_that_come_later() -> None:
    runs = trace(2000)
    cut = runs[1400].ended_at
    found = train(runs, now=cut)
    assert found is not None
    later = rows_of(runs)
    later = later.part(np.flatnonzero(later.submitted_at > cut))
    assert score(found, later)["coverage80"] == pytest.approx(0.8, abs=0.06)


def test_a_model_learns_from_what_ended_by_then_alone() -> None:
    runs = trace(600)
    cut = runs[300].ended_at
    early, all_of_them = [run for run in runs if run.ended_at <= cut], runs
    models = [train(these, now=cut) for these in (early, all_of_them)]
    assert models[0] is not None
    assert models[1] is not None
    assert models[0].to_bytes() == models[1].to_bytes()


def test_runs_stopped_by_their_limits_raise_what_jobs_without_one_are_told() -> None:
    runs = trace()
    stopped = [replace(run, took_s=min(run.took_s, 120.0), censored=run.took_s > 120.0) for run in runs]
    blind = [replace(run, censored=False) for run in stopped]
    told = job("owner-3", at=START + 2000 * 600, name="train-1", gpus=2)
    medians = []
    for these in (stopped, blind):
        found = train(these, now=math.inf)
        assert found is not None
        medians.append(found.predict(told, History()).p90_s)
    assert medians[0] > 2 * medians[1]


def test_scaling_all_estimates_of_all_users_changes_no_prediction() -> None:
    sure = [train(trace(400, scale=scale), now=math.inf) for scale in (0.1, 1.0, 10.0)]
    later = [job("owner-1", at=START + 500 * 600, name="eval-1", user_s=scale * 100.0) for scale in (0.1, 1.0, 10.0)]
    histories = [History(trace(400, scale=scale)) for scale in (0.1, 1.0, 10.0)]
    found = [one.predict(it, past) for one, it, past in zip(sure, later, histories, strict=True) if one is not None]
    ruled = [by_rules(it, past) for it, past in zip(later, histories, strict=True)]
    for these in (found, ruled):
        assert len({round(math.log(one.p50_s), 6) for one in these if one is not None}) == 1


odd_jobs = st.builds(
    RunTimeJob,
    owner=st.sampled_from(["owner-1", "new", ""]),
    submitted_at=st.floats(-1e12, 1e12),
    name=st.text(max_size=5),
    tags=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    gpus=st.integers(0, 10_000),
    gpu_type=st.text(max_size=3),
    limit_s=st.none() | st.floats(allow_nan=True, allow_infinity=True),
    user_s=st.none() | st.floats(allow_nan=True, allow_infinity=True),
)
odd_runs = st.lists(st.builds(EndedRun, odd_jobs, st.floats(-1e12, 1e12), st.floats(), st.booleans()), max_size=4)


@given(odd_jobs, odd_runs)
def test_quantiles_never_cross_nor_pass_the_limit_for_any_job_and_past(
    model: RunTimeModel, told: RunTimeJob, runs: list[EndedRun]
) -> None:
    history = History(runs)
    for found in (model.predict(told, history), by_rules(told, history)):
        if found is not None:
            assert 0 < found.p10_s <= found.p50_s <= found.p90_s < math.inf
            if told.limit_s is not None and told.limit_s >= 1:
                assert found.p90_s <= told.limit_s * (1 + 1e-9)


def test_too_few_runs_train_no_model_and_constant_ones_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "MAX_RUNS", 150)
    assert train([], now=0.0) is None
    assert train([ended(5)], now=math.inf) is None
    found = train([ended(300, after_s=at * 1000.0) for at in range(200)], now=math.inf)
    assert found is not None
    told = found.predict(job(at=START + 3e5), History([ended(300)]))
    assert (told.p10_s, told.p50_s, told.p90_s) == pytest.approx((300, 300, 300))
    assert found.runs == 150  # the newest ones


def test_a_stored_model_predicts_the_same(model: RunTimeModel) -> None:
    again = RunTimeModel.from_bytes(model.to_bytes())
    history = History(trace()[-50:])
    for name in ("train-1", "eval-7", "new"):
        told = job("owner-2", name=name, limit_s=5000.0)
        assert again.predict(told, history) == model.predict(told, history)
    assert (again.trained_at, again.runs, again.scores) == (model.trained_at, model.runs, model.scores)


def test_a_cut_file_and_one_of_another_version_say_so(model: RunTimeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    data = model.to_bytes()
    with pytest.raises(ModelError, match="cut"):
        RunTimeModel.from_bytes(data[:-100])
    monkeypatch.setattr(model_module, "VERSION", model_module.VERSION + 1)
    with pytest.raises(ModelError, match="version"):
        RunTimeModel.from_bytes(data)


def test_the_newest_tenth_has_the_latest_ends() -> None:
    rows = rows_of(trace(50))
    assert newest(rows).ended_at.tolist() == rows.ended_at.tolist()[-5:]


TOLD = RunTime(100.0, 1000.0, 4000.0, Source.MODEL)


def test_a_job_that_has_not_run_keeps_its_prediction() -> None:
    assert corrected(TOLD, ran_s=0.0) == TOLD


def test_a_job_that_outlives_its_p90_is_to_take_twice_as_long_as_yet() -> None:
    found = corrected(TOLD, ran_s=6000.0)
    assert (found.p50_s, found.source) == (pytest.approx(12_000), Source.OUTLIVED)
    assert corrected(TOLD, ran_s=6000.0, limit_s=7000.0).p90_s == 7000


def test_half_of_the_jobs_that_pass_their_median_pass_the_one_in_four() -> None:
    # Of five that take 1,000 s one takes 4,000 s; half of them is a power in between.
    found = corrected(TOLD, ran_s=1000.0)
    assert found.p50_s == pytest.approx(1000 * 4 ** (math.log(2) / math.log(5)))


@given(
    ran_s=st.floats(0, 1e9),
    limit_s=st.none() | st.floats(1, 1e9),
    step=st.none() | st.floats(),
    total=st.none() | st.floats(),
    logs=st.lists(st.floats(0, 20), min_size=3, max_size=3).map(sorted),
)
def test_a_corrected_prediction_is_in_order_and_no_shorter_than_the_job_has_run(
    ran_s: float, limit_s: float | None, step: float | None, total: float | None, logs: list[float]
) -> None:
    told = RunTime(*(math.exp(log) for log in logs), Source.MODEL)  # type: ignore[misc,arg-type]
    found = corrected(told, ran_s=ran_s, limit_s=limit_s, step=step, total=total)
    assert ran_s <= found.p10_s * (1 + 1e-9)
    assert found.p10_s <= found.p50_s <= found.p90_s < math.inf


def test_steps_done_tell_the_time_at_the_present_pace_better_towards_the_end() -> None:
    early, late = (corrected(TOLD, ran_s=3000.0 * done, step=1000 * done, total=1000) for done in (0.05, 0.95))
    assert abs(math.log(late.p50_s / 3000)) < abs(math.log(early.p50_s / 3000))
    assert late.source is Source.PROGRESS
    assert late.p90_s / late.p10_s < early.p90_s / early.p10_s


def test_a_job_that_says_it_is_nearly_done_gains_no_more_than_the_shortest_tenth() -> None:
    found = corrected(TOLD, ran_s=500.0, step=999, total=1000)
    assert found.p10_s == corrected(TOLD, ran_s=500.0).p10_s
    assert found.p50_s >= found.p10_s > 500


def test_steps_that_are_no_numbers_count_for_nothing() -> None:
    for step, total in ((5.0, 0.0), (-1.0, 10.0), (11.0, 10.0), (math.nan, 10.0), (1.0, math.inf), (1.0, None)):
        assert corrected(TOLD, ran_s=500.0, step=step, total=total) == corrected(TOLD, ran_s=500.0)


def test_jobs_are_ordered_by_the_p50_until_they_outlive_it() -> None:
    assert corrected_at(TOLD, ran_s=999.0) == TOLD
    longer = corrected_at(TOLD, ran_s=1000.0)
    assert longer == corrected(TOLD, ran_s=1000.0) == corrected_at(TOLD, ran_s=longer.p50_s - 1)
    assert corrected_at(TOLD, ran_s=longer.p50_s) == corrected(TOLD, ran_s=longer.p50_s)


@given(ran_s=st.floats(0, 0.9 * MAX_S), narrow=st.booleans())
def test_the_run_time_by_which_jobs_are_ordered_lies_ahead_up_to_the_limit(ran_s: float, narrow: bool) -> None:
    told = RunTime(60.0, 60.0, 60.0, Source.HISTORY) if narrow else TOLD
    assert corrected_at(told, ran_s=ran_s).p50_s > ran_s
    assert max(ran_s, 4000.0) >= corrected_at(told, ran_s=ran_s, limit_s=4000.0).p50_s >= min(ran_s, 4000.0)
