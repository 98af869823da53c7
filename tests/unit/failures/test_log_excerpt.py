"""The excerpt of a job's log, and groups of jobs with like excerpts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.diagnosis.failures.log_excerpt import MAX_CHARS, clusters, excerpt_of, template_of

SAID = {
    "the last line that sounds like a failure": ("start\nwidget 7 failed to align\nbye\n", "widget 7 failed to align"),
    "else the last line at all": ("start\nbye\n\n  \n", "bye"),
    "what a carriage return hides as well": ("10%\r20%\rcannot align the widget\r30%", "cannot align the widget"),
    "nothing of an empty log": ("\n \n", ""),
    "not what was said long before": ("error: early\n" + "step\n" * 100, "step"),
}


@pytest.mark.parametrize("case", SAID)
def test_it_extracts_the_line_that_tells_most(case: str) -> None:
    log, words = SAID[case]
    assert excerpt_of(log) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("widget 7 of 12 failed", "widget 31 of 9 failed"),
        ("cannot open /data/a/x.bin", "cannot open /scratch/b.bin"),
        ("no route to node17.cluster.example:29500", "no route to a.b.c:1"),
        ('unknown key "alpha"', 'unknown key "beta gamma"'),
        ("bad pointer 0x7fff12ab", "bad pointer 0xdeadbeef01"),
        ("run 9f86d081884c7d65 lost", "run 2c26b46b68ffc68f lost"),
    ],
)
def test_what_differs_from_job_to_job_is_left_open(one: str, other: str) -> None:
    assert template_of(one) == template_of(other) != one


def test_jobs_with_like_excerpts_are_grouped_largest_first() -> None:
    found = clusters([(1, "disk 1 smokes"), (2, "lamp out"), (3, "disk 9 smokes"), (3, "disk 9 smokes"), (4, "")])
    assert [(each.template, each.jobs) for each in found] == [("disk <*> smokes", (1, 3)), ("lamp out", (2,))]
    assert found[0].example == "disk 1 smokes"


@given(st.text(max_size=600))
def test_the_pattern_of_a_cluster_matches_its_example(line: str) -> None:
    words = excerpt_of(line)
    assert len(words) <= MAX_CHARS
    for cluster in clusters([(1, words)]):
        assert re.search(cluster.pattern, cluster.example)
