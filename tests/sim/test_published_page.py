"""The page of figures has every study with its figures, and names what was assumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.published import philly, screening
from bench.published.page import Lessons, Section, page
from bench.published.pollux import Comparison
from scheduler.engine.policy import POLICIES
from scheduler.sim.cluster import parse_cluster
from scheduler.sim.metrics import Summary, summarize
from scheduler.sim.times import caught_share
from tests.sim.records import record, result

COMPARISON = Comparison("tiresias", "1.0", 6, {"job1": 100.0}, {"job1": 100.0}, 1.5)


def summary(hours: float, **fields: float) -> Summary:
    return replace(summarize(result([record(took=hours * 3600)])), **fields)


def text(**titles: Summary) -> str:
    return page([COMPARISON], [Section("story", "4 GPUs", [summary(1.0)])], [Lessons("4 GPUs", titles)])


def test_each_lesson_stands_beside_the_first() -> None:
    found = text(preset=summary(2.0, failed_gpu_hours=1234.0), taught=summary(1.5, failed_gpu_hours=12.0))
    assert "| preset | 2.00 (+0.0%) |" in found
    assert "| taught | 1.50 (-25.0%) |" in found
    assert "| 1,234 |" in found


def test_it_says_whether_all_jobs_are_as_published_and_else_which_run_is_furthest_off() -> None:
    assert "In all 1 runs every job has the JCT that they published." in text(preset=summary(2.0))
    off = replace(COMPARISON, ours_s={"job1": 97.0})
    found = page(
        [COMPARISON, off], [Section("story", "4 GPUs", [summary(1.0)])], [Lessons("4 GPUs", {"a": summary(1)})]
    )
    assert "of tiresias on workload 6 at load 1.0: -3.00%." in found
    assert "every job" not in found


def test_it_says_how_many_jobs_are_left_out() -> None:
    found = page(
        [COMPARISON], [Section("story", "4 GPUs", [summary(1.0)], left_out=3)], [Lessons("4 GPUs", {"a": summary(1)})]
    )
    assert "3 of 4 jobs are left out" in found
    assert "left out" not in text(preset=summary(2.0))


def test_what_was_assumed_is_named_and_nothing_is_left_to_fill_in() -> None:
    found = text(preset=summary(2.0))
    for assumption in ("14.6%", "24.4%", "25%", "10\nservers", "120 s", "30 s"):
        assert assumption in found
    assert "$" not in found


@pytest.mark.parametrize("title", philly.LESSONS)
def test_every_lesson_is_a_run_that_the_policy_knows(title: str) -> None:
    study = philly.lesson("640 GPUs", title, 100)
    POLICIES.make(study.policy, study.params or {})
    assert study.title == title


def test_all_lessons_together_are_all_of_those_that_stand_alone() -> None:
    *alone, together = philly.LESSONS.values()
    assert together == tuple(switch for switches in alone for switch in switches)


def test_the_page_about_screening_has_each_run_and_what_the_table_allows() -> None:
    plain = summary(2.0, failed_gpu_hours=100.0, screened=0, caught=0, screening_gpu_hours=0.0)
    screened = summary(1.0, failed_gpu_hours=60.0, screened=20, caught=5, screening_gpu_hours=10.0, saved_gpu_hours=3.0)
    found = screening.page({"without": plain, "with": screened})
    assert "| without | 100 | +0.0% |" in found
    assert "| with | 70 | -30.0% |" in found
    assert "| with | 20 | 5 (25.0%) |" in found
    assert f"{caught_share(300):.1%}" in found
    assert "$" not in found


def test_each_run_about_screening_has_as_many_gpus() -> None:
    for study in screening.studies().values():
        pool = (study.options or {}).get("screening")
        cluster = parse_cluster({**philly.CLUSTERS, **philly.OTHER_CLUSTERS}[study.cluster])
        assert sum(cluster.gpus.values()) + (pool.gpus if pool else 0) == 640
