"""Noise around a log changes nothing of its verdict, and the work for any bytes is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.noise import NOISE
from bench.published import confusions
from scheduler.diagnosis.failures import Rule, Tail, builtin, classify
from scheduler.diagnosis.failures.text import HEAD_BYTES, TAIL_BYTES, read
from tests.profiles import examples
from tests.sim.data import data

RULES = builtin().rules
# What is still text when it is done, and small.
SIMPLE = [name for name in NOISE if not {"UTF-16", "huge", "many", "much"} & set(name.split())]


@pytest.mark.parametrize("name", NOISE)
def test_noise_changes_no_verdict_of_any_rule(name: str) -> None:
    found = {rule.name: classify([Tail(NOISE[name](rule.line + "\n"))]).failure for rule in RULES}
    assert found == {rule.name: rule.failure for rule in RULES}


@pytest.mark.parametrize("name", NOISE)
def test_noise_changes_no_verdict_of_the_labelled_logs(name: str) -> None:
    folder = data("failure_logs", "train.jsonl").parents[1]
    plain, noisy = (
        {(log.id, answer.failure, answer.retry) for log, answer in confusions.accuracy(folder, form).wrong}
        for form in (None, name)
    )
    assert noisy == plain


# Here, where each form has been tried already.
def test_the_page_has_the_confusions_that_there_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "design" / "measurements" / "jobs.md").read_text()
    folder = data("failure_logs", "train.jsonl").parents[1]
    assert page == confusions.page(folder, page), 'make figures ARGS="--page failures" writes it'


@settings(max_examples=examples(150))
@given(
    st.sampled_from(RULES),
    st.lists(st.sampled_from(SIMPLE), max_size=2),
)  # fmt: skip
def test_noise_upon_noise_changes_nothing(rule: Rule, names: list[str]) -> None:
    log = rule.line + "\n"
    for name in names:
        log = NOISE[name](log).decode("utf-8", "replace")
    assert classify([Tail(log.encode())]).failure == rule.failure


@settings(max_examples=examples(200))
@given(st.lists(st.binary(max_size=2000), max_size=3), st.integers(-200, 300) | st.none())
def test_any_bytes_have_a_verdict(logs: list[bytes], status: int | None) -> None:
    verdict = classify([Tail(log, rank=rank) for rank, log in enumerate(logs)], status=status)
    assert verdict.failure in builtin().classes
    assert 0 <= verdict.confidence <= 1
    assert "\n" not in verdict.line


@pytest.mark.parametrize(
    "log", [b"y" * (100 << 20), b"a\n" * 2_000_000, b"\x1b[31m" * 9_000_000], ids=["line", "lines", "colours"]
)
def test_of_a_huge_log_only_the_two_ends_are_looked_at(log: bytes) -> None:
    assert len(read(log).data) <= HEAD_BYTES + TAIL_BYTES + 2
    end = b"\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB"
    verdict = classify([Tail(log + end)])
    assert verdict.failure == "gpu_out_of_memory"
    assert verdict.line_number == log.count(b"\n") + 2
