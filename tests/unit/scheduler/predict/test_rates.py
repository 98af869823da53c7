"""Rates by GPU type: measured, screened, claimed and estimated, and what bad numbers come to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.predict.completion import fit
from scheduler.predict.rates import (
    MAX_RATE,
    Answer,
    Ask,
    Measurement,
    RateEstimate,
    Rates,
    RateSource,
    Size,
    Subject,
)

TYPES = ("A100", "V100", "P100", "K80")
SPEEDS = {"A100": 1.0, "V100": 0.5, "P100": 0.3, "K80": 0.1}


def subject(name: str, owner: str = "ann") -> Subject:
    return Subject((owner, name), owner, "vision")


def seen(name: str, gpu_type: str, per_s: float, *, gpus: int = 1, spread: bool = False, **more: Any) -> Measurement:
    return Measurement(subject(name), Size(gpu_type, gpus, spread), per_s, **more)


def ask(rates: Rates, name: str, *sizes: Size, owner: str = "ann", **claims: float) -> Answer:
    return rates.estimate(Ask(subject(name, owner), sizes or tuple(Size(kind, 1) for kind in TYPES), claims))


def rate_on(answer: Answer, gpu_type: str) -> RateEstimate:
    return next(rate for rate in answer.rates if rate.size.gpu_type == gpu_type)


def shown(answer: Answer) -> list[tuple[str, float, float, RateSource]]:
    return [(rate.size.gpu_type, round(rate.per_s, 6), round(rate.deviation, 6), rate.source) for rate in answer.rates]


def others(count: int = 12) -> list[Measurement]:
    """Jobs whose rates by type have about the ratios of `SPEEDS`, each in a unit of its own."""
    draw = np.random.default_rng(3)
    return [
        seen(f"other{row}", kind, (10.0**row % 997 + 1) * speed * draw.uniform(0.9, 1.1))
        for row in range(count)
        for kind, speed in SPEEDS.items()
    ]


class TestMeasured:
    def test_a_run_of_a_job_alike_on_the_same_size_is_taken_as_it_is(self) -> None:
        answer = ask(Rates([seen("net", "A100", 410.0, deviation=30.0)]), "net", A100=900.0)
        assert shown(answer) == [("A100", 410, 30, RateSource.MEASURED)]

    def test_runs_are_pooled_by_their_inverse_variance(self) -> None:
        runs = [seen("net", "A100", 100.0, deviation=3.0), seen("net", "A100", 106.0, deviation=6.0)]
        rate = rate_on(ask(Rates(runs), "net"), "A100")
        assert 100 < rate.per_s < 102
        assert rate.deviation < 3

    def test_runs_that_differ_by_more_than_their_deviations_make_the_rate_less_sure(self) -> None:
        runs = [seen("net", "A100", 100.0, deviation=2.0), seen("net", "A100", 200.0, deviation=4.0)]
        assert rate_on(ask(Rates(runs), "net"), "A100").deviation > 20

    def test_a_job_of_another_owner_is_another_job(self) -> None:
        assert ask(Rates([seen("net", "A100", 410.0)]), "net", owner="bob").rates == ()

    def test_a_type_on_which_every_run_stood_still_has_the_rate_zero(self) -> None:
        answer = ask(Rates([*others(), seen("net", "A100", 10.0), seen("net", "K80", 0.0)]), "net")
        assert rate_on(answer, "K80").per_s == 0

    def test_one_run_that_stood_still_beside_one_that_did_not_counts_for_nothing(self) -> None:
        answer = ask(Rates([seen("net", "A100", 10.0), seen("net", "A100", 0.0)]), "net")
        assert rate_on(answer, "A100").per_s == pytest.approx(10)


class TestSizes:
    def test_another_number_of_gpus_follows_how_jobs_alike_scale(self) -> None:
        history = [seen(name, "A100", 10.0 * gpus**0.9, gpus=gpus) for name in "abcdefgh" for gpus in (1, 2, 4, 8)]
        answer = ask(Rates([*history, seen("net", "A100", 5.0)]), "net", Size("A100", 8))
        assert answer.rates[0].per_s == pytest.approx(5 * 8**0.9, rel=0.1)
        assert answer.rates[0].source == RateSource.ESTIMATED

    def test_a_job_that_does_not_scale_is_judged_by_its_own_runs(self) -> None:
        history = [seen(name, "A100", 10.0 * gpus**0.9, gpus=gpus) for name in "abcdefgh" for gpus in (1, 2, 4, 8)]
        flat = [seen("net", "A100", 5.0, gpus=gpus) for gpus in (1, 2, 4)]
        answer = ask(Rates([*history, *flat]), "net", Size("A100", 8))
        assert answer.rates[0].per_s < 5 * 2**0.5

    def test_several_nodes_are_slower_as_they_were_for_other_jobs(self) -> None:
        history = [
            seen(name, "A100", 10.0 * (0.6 if spread else 1), gpus=4, spread=spread)
            for name in "abcdefgh"
            for spread in (False, True)
        ]
        answer = ask(Rates([*history, seen("net", "A100", 5.0, gpus=4)]), "net", Size("A100", 4, spread=True))
        assert answer.rates[0].per_s == pytest.approx(3, rel=0.1)


class TestScreened:
    def test_a_screening_run_is_scaled_by_the_ratio_of_earlier_full_runs_and_is_less_sure(self) -> None:
        history = [
            one for name in "abcdefgh" for one in (seen(name, "A100", 10.0, screened=True), seen(name, "A100", 20.0))
        ]
        alone = ask(Rates([seen("net", "A100", 7.0, screened=True)]), "net").rates[0]
        taught = ask(Rates([*history, seen("net", "A100", 7.0, screened=True)]), "net").rates[0]
        assert round(alone.per_s, 6) == 7
        assert alone.source == RateSource.SCREENED
        assert taught.per_s == pytest.approx(14, rel=0.1)
        assert 0.02 <= taught.deviation / taught.per_s < alone.deviation / alone.per_s

    def test_a_full_run_counts_before_a_screening_run(self) -> None:
        rates = Rates([seen("net", "A100", 7.0, screened=True), seen("net", "A100", 11.0)])
        assert ask(rates, "net").rates[0].source == RateSource.MEASURED


class TestClaimed:
    def test_a_claim_of_which_nothing_else_is_known_stands_as_it_is(self) -> None:
        answer = ask(Rates([]), "net", A100=410.0, V100=190.0)
        assert shown(answer) == [("A100", 410, 164, RateSource.CLAIMED), ("V100", 190, 76, RateSource.CLAIMED)]

    def test_an_owner_who_claimed_twice_too_much_is_halved(self) -> None:
        history = [seen(f"past{n}", "A100", 50.0, claimed=100.0) for n in range(20)]
        answer = ask(Rates(history), "net", A100=100.0)
        assert answer.rates[0].per_s == pytest.approx(50, rel=0.1)
        assert answer.rates[0].deviation < 10

    def test_an_owner_with_a_wild_record_moves_an_estimate_less_than_one_with_a_good_record(self) -> None:
        wild = [seen(f"past{n}", "A100", 100.0 * (4 if n % 2 else 0.25), claimed=100.0) for n in range(20)]
        good = [seen(f"past{n}", "A100", 100.0 * (1.02 if n % 2 else 0.98), claimed=100.0) for n in range(20)]
        found = [
            rate_on(ask(Rates([*others(), *record, seen("net", "A100", 10.0)]), "net", V100=7.0), "V100").per_s
            for record in (wild, good)
        ]
        assert found[0] < 5.5
        assert found[1] > 6

    def test_a_claim_against_everything_that_was_measured_is_ignored_with_a_reason(self) -> None:
        answer = ask(Rates([*others(), seen("net", "A100", 10.0)]), "net", V100=1e9)
        assert rate_on(answer, "V100").per_s == pytest.approx(5, rel=0.2)
        assert answer.ignored == ("claimed for V100: what is known of the job contradicts it",)

    @pytest.mark.parametrize("claimed", [math.nan, math.inf, -math.inf, -3.0, 1e300, 1e-300])
    def test_a_claim_that_is_no_rate_is_ignored_with_a_reason(self, claimed: float) -> None:
        answer = ask(Rates([]), "net", A100=claimed)
        assert answer.rates == ()
        assert answer.ignored[0].startswith("claimed for A100: ")

    def test_a_claim_of_zero_says_that_the_job_does_not_run_there(self) -> None:
        assert ask(Rates([]), "net", K80=0.0).rates == (RateEstimate(Size("K80", 1), 0, 0, RateSource.CLAIMED),)

    def test_a_claim_for_a_type_that_the_job_does_not_accept_is_ignored(self) -> None:
        assert ask(Rates([]), "net", H100=5.0).ignored == ("claimed for H100: the job does not accept it",)


class TestEstimated:
    def test_types_never_seen_follow_the_ratios_of_other_jobs(self) -> None:
        answer = ask(Rates([*others(), seen("net", "A100", 10.0)]), "net")
        for kind in ("V100", "P100", "K80"):
            rate = rate_on(answer, kind)
            assert rate.per_s == pytest.approx(10 * SPEEDS[kind], rel=0.15)
            assert rate.source == RateSource.ESTIMATED
            assert abs(rate.per_s - 10 * SPEEDS[kind]) < 3 * rate.deviation

    def test_one_other_job_is_enough_for_a_first_estimate(self) -> None:
        answer = ask(Rates([*others(1), seen("net", "A100", 10.0)]), "net")
        rate = rate_on(answer, "V100")
        assert rate.per_s == pytest.approx(5, rel=0.3)
        assert rate.deviation > 0.2 * rate.per_s

    def test_a_claim_for_one_type_gives_estimates_for_the_others(self) -> None:
        answer = ask(Rates(others()), "net", A100=10.0)
        assert rate_on(answer, "V100").per_s == pytest.approx(5, rel=0.15)
        assert rate_on(answer, "V100").source == RateSource.ESTIMATED

    def test_a_job_of_which_nothing_is_known_has_no_rates(self) -> None:
        assert ask(Rates(others()), "net") == Answer(())

    def test_types_that_no_job_compares_are_not_estimated(self) -> None:
        history = [seen("a", "A100", 1.0), seen("a", "V100", 1.0), seen("b", "P100", 1.0), seen("b", "K80", 1.0)]
        answer = ask(Rates([*history, seen("net", "A100", 10.0)]), "net")
        assert {rate.size.gpu_type for rate in answer.rates} == {"A100", "V100"}


class TestHistory:
    @pytest.mark.parametrize("per_s", [math.nan, math.inf, -1.0, 1e30])
    def test_a_measurement_that_is_no_rate_is_ignored_with_a_reason(self, per_s: float) -> None:
        rates = Rates([seen("net", "A100", per_s), seen("net", "V100", 5.0)])
        assert [rate.size.gpu_type for rate in ask(rates, "net").rates] == ["V100"]
        assert rates.ignored[0].startswith("measured on 1 A100: ")

    @given(
        st.lists(
            st.builds(
                seen,
                st.sampled_from(["net", "b", "c"]),
                st.sampled_from(TYPES),
                st.floats(),
                gpus=st.integers(-1, 1 << 30),
                spread=st.booleans(),
                deviation=st.none() | st.floats(),
                readings=st.integers(-1, 5),
                screened=st.booleans(),
                claimed=st.none() | st.floats(),
            ),
            max_size=25,
        ),
        st.dictionaries(st.sampled_from(TYPES), st.floats()),
    )
    def test_any_history_and_any_claims_give_finite_rates(
        self, history: list[Measurement], claims: dict[str, float]
    ) -> None:
        sizes = (Size("A100", 1), Size("V100", 4, spread=True), Size("P100", 0), Size("K80", 1 << 40))
        for rate in Rates(history).estimate(Ask(subject("net"), sizes, claims)).rates:
            assert 0 <= rate.per_s <= MAX_RATE
            assert math.isfinite(rate.deviation)
            assert rate.deviation >= 0


class TestCompletion:
    def test_the_entries_of_a_low_rank_matrix_are_found_within_their_deviations(self) -> None:
        draw = np.random.default_rng(5)
        factors, loadings = draw.normal(size=(60, 1)), draw.normal(size=(6, 1)) * 0.5
        rows = draw.normal(size=(60, 1)) * 3 + draw.normal(size=6) + factors @ loadings.T
        rows += draw.normal(size=rows.shape) * 0.03
        types = [f"T{n}" for n in range(6)]
        model = fit(types, rows[:50])
        assert model.factors == 1
        errors = []
        for row in rows[50:]:
            found = model.complete({kind: (float(row[at]), 0.01) for at, kind in enumerate(types[:3])})
            errors += [(found[kind][0] - row[at], found[kind][1]) for at, kind in enumerate(types) if at > 2]
        assert np.mean([abs(error) for error, _ in errors]) < 0.12
        assert np.mean([abs(error) < 2 * deviation for error, deviation in errors]) > 0.85

    def test_an_empty_matrix_knows_nothing(self) -> None:
        assert fit([], np.empty((0, 0))).complete({"A100": (1.0, 0.1)}) == {}


def test_a_claim_for_a_size_without_gpus_is_ignored() -> None:
    asked = Ask(Subject("resnet", "olivia", "vision"), (Size("A100", 0), Size("V100", 2)), {"A100": 5.0})
    answer = Rates([]).estimate(asked)
    assert answer.rates == ()
    assert answer.ignored == ("claimed for A100: the job does not accept it",)


# (measured: rate by type, number of GPUs, and whether on several nodes; the slowdown of 4 A100)
SLOWDOWNS: dict[str, tuple[dict[tuple[str, int, bool], float], float | None]] = {
    "measured on both": ({("A100", 4, False): 10.0, ("A100", 4, True): 4.0}, 2.5),
    "measured only on one node": ({("A100", 4, False): 10.0}, None),
    "a faster job on several nodes": ({("A100", 4, False): 4.0, ("A100", 4, True): 5.0}, 0.8),
    "other GPUs count where these were not measured": (
        {("A100", 8, False): 10.0, ("A100", 8, True): 4.0},
        math.exp(-7 / 8 * math.log(0.4) + 0.1 / 8),  # one value counts as much as what is larger around it
    ),
}


@pytest.mark.parametrize(("measured", "expected"), SLOWDOWNS.values(), ids=SLOWDOWNS)
def test_how_much_slower_jobs_alike_are_on_several_nodes(
    measured: dict[tuple[str, int, bool], float], expected: float | None
) -> None:
    history = [seen("net", kind, rate, gpus=gpus, spread=spread) for (kind, gpus, spread), rate in measured.items()]
    found = Rates(history).slowdown(subject("net"), "A100", 4)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_how_much_slower_other_jobs_are_tells_nothing_of_a_job() -> None:
    other = [seen("other", "A100", rate, gpus=4, spread=spread) for rate, spread in ((9.0, False), (1.0, True))]
    assert Rates([*other, seen("net", "A100", 10.0, gpus=4)]).slowdown(subject("net"), "A100", 4) is None
