"""The grade of a job and the advice for its owner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.diagnosis.efficiency import MAX_ADVICE, MIN_SAMPLES, GpuUse, Grade, HostUse, NoGradeReason, Use, judge

GIB = 1024


def use(*utilization: float | None, ran_s: float = 7200, samples: int = 500, shared: bool = False, **host: Any) -> Use:
    """A run of two hours on GPUs with these utilisations, and no other waste."""
    gpus = [GpuUse(0, index, samples, figure, 30_000.0, 40_960) for index, figure in enumerate(utilization)]
    had = {"cpus": 8, "cpu_cores": 5.0, "memory_mib": 64 * GIB, "memory_used_mib": 40.0 * GIB, **host}
    return Use(ran_s=ran_s, gpus=gpus, host=HostUse(**had), shared=shared)


@pytest.mark.parametrize(
    ("run", "grade", "advice"),
    [
        pytest.param(use(95, 88), Grade.GOOD, [], id="busy"),
        pytest.param(use(70), Grade.GOOD, [], id="just good"),
        pytest.param(use(69.9), Grade.FAIR, [], id="one that could do more"),
        pytest.param(
            use(38, 38, 38, 38),
            Grade.POOR,
            ["It used 38 % of 4 GPUs; 2 might have been enough."],
            id="four that do the work of two",
        ),
        pytest.param(
            use(20, 20, 20, 20),
            Grade.POOR,
            ["It used 20 % of 4 GPUs; one might have been enough."],
            id="four that do the work of one",
        ),
        pytest.param(
            use(90, 90, 0, 1),
            Grade.FAIR,
            ["2 of its 4 GPUs were idle; 2 would have been enough."],
            id="two that do nothing",
        ),
        pytest.param(
            use(0),
            Grade.IDLE,
            ["It hardly used its GPU. Check that the program finds it; a job without GPUs asks for `gpus: 0`."],
            id="the only one does nothing",
        ),
        pytest.param(
            use(0, 1, 4.9),
            Grade.IDLE,
            ["It used none of its 3 GPUs. Check that the program finds them; a job without GPUs asks for `gpus: 0`."],
            id="none does anything",
        ),
        pytest.param(
            use(20),
            Grade.POOR,
            ["It used 20 % of its GPU: check whether it waits for data."],
            id="one that waits",
        ),
        pytest.param(
            use(50, 50, cpu_cores=7.9),
            Grade.FAIR,
            ["Its 8 processors were busy while its GPUs waited (50 % used): ask for more `cpus`."],
            id="starved by its processors",
        ),
        pytest.param(
            use(90, asked_memory=True, memory_mib=512 * GIB, memory_used_mib=20.0 * GIB),
            Grade.GOOD,
            ["It asked for 512 GiB of memory and used 20 GiB at most."],
            id="much memory",
        ),
        pytest.param(
            use(90, asked_cpus=True, cpus=32, cpu_cores=2.04),
            Grade.GOOD,
            ["It asked for 32 processors and kept 2.0 of them busy."],
            id="many processors",
        ),
        pytest.param(use(90, memory_mib=512 * GIB, memory_used_mib=1.0), Grade.GOOD, [], id="what the pool gave"),
        pytest.param(
            use(90, asked_memory=True, asked_cpus=True, memory_used_mib=None, cpu_cores=None),
            Grade.GOOD,
            [],
            id="a host that was not measured",
        ),
        pytest.param(
            use(90, 1, asked_memory=True, asked_cpus=True, memory_used_mib=1.0, cpu_cores=0.0),
            Grade.FAIR,
            [
                "1 of its 2 GPUs was idle; 1 would have been enough.",
                "It asked for 64 GiB of memory and used 0.0 GiB at most.",
            ],
            id="two sentences are enough",
        ),
    ],
)
def test_each_run_has_its_grade_and_advice(run: Use, grade: Grade, advice: list[str]) -> None:
    verdict = judge(run)
    assert (verdict.grade, verdict.silence, list(verdict.advice)) == (grade, None, advice)


@pytest.mark.parametrize(
    ("run", "silence"),
    [
        (use(), NoGradeReason.NO_GPUS),
        (use(5, shared=True), NoGradeReason.SHARED),
        (use(5, ran_s=599), NoGradeReason.TOO_SHORT),
        (use(5, samples=MIN_SAMPLES - 1), NoGradeReason.NOT_MEASURED),
        (use(95, None), NoGradeReason.NOT_MEASURED),
    ],
)
def test_too_little_data_gives_no_grade(run: Use, silence: NoGradeReason) -> None:
    verdict = judge(run)
    assert (verdict.grade, verdict.silence, verdict.utilization, verdict.advice) == (None, silence, None, ())


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (use(asked_memory=True, memory_used_mib=1.0 * GIB), True),
        (use(5, shared=True, asked_memory=True, memory_used_mib=1.0 * GIB), True),
        (use(5, ran_s=10, asked_memory=True, memory_used_mib=1.0 * GIB), False),
    ],
)
def test_host_advice_is_given_without_a_grade(run: Use, told: bool) -> None:
    assert bool(judge(run).advice) == told


@given(
    figures=st.lists(st.floats(0, 100) | st.none(), max_size=16),
    ran_s=st.floats(0, 1e7),
    samples=st.integers(0, 10**6),
    shared=st.booleans(),
    host=st.fixed_dictionaries(
        {"cpu_cores": st.none() | st.floats(0, 1e5), "memory_used_mib": st.none() | st.floats(0, 1e9)}
    ),
)
def test_there_is_a_grade_or_a_reason_for_none_and_no_more_than_two_sentences(
    figures: list[float | None], ran_s: float, samples: int, shared: bool, host: dict[str, float | None]
) -> None:
    asked = {"asked_cpus": True, "asked_memory": True}
    verdict = judge(use(*figures, ran_s=ran_s, samples=samples, shared=shared, **asked, **host))
    assert (verdict.grade is None) != (verdict.silence is None)
    assert (verdict.utilization is None) == (verdict.grade is None)
    assert len(verdict.advice) <= MAX_ADVICE
    assert all(one.endswith(".") and len(one) < 200 for one in verdict.advice)
    if verdict.utilization is not None:
        assert 0 <= verdict.utilization <= 100
        assert 0 <= verdict.idle_gpus <= len(figures)
