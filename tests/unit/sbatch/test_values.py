"""Values of options, features and moments."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from muster.sbatch import values
from muster.sbatch.features import nodes_with
from muster.sbatch.moments import moment
from tests.unit.sbatch.cases import site

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 28, 11, 41, 20, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-28T11:41:20"),
        ("now+1", "2026-11-28T11:41:21"),
        ("now+2hours", "2026-11-28T13:41:20"),
        ("now+1weeks", "2026-12-05T11:41:20"),
        ("today", "2026-11-28T11:41:20"),
        ("tomorrow", "2026-11-29T00:00:00"),
        ("noon tomorrow", "2026-11-29T12:00:00"),
        ("midnight", "2026-11-29T00:00:00"),
        ("noon", "2026-11-28T12:00:00"),
        ("fika", "2026-11-28T15:00:00"),
        ("teatime", "2026-11-28T16:00:00"),
        ("11:00", "2026-11-29T11:00:00"),
        ("16:00:30", "2026-11-28T16:00:30"),
        ("4:30 pm", "2026-11-28T16:30:00"),
        ("12:00am", "2026-11-29T00:00:00"),
        ("2027-01-01", "2027-01-01T00:00:00"),
        ("2027-01-01T12:00", "2027-01-01T12:00:00"),
        ("12:00 2027-01-01", "2027-01-01T12:00:00"),
        ("01/02/27-10:00", "2027-01-02T10:00:00"),
        ("010227", "2027-01-02T00:00:00"),
        ("12/31", "2026-12-31T00:00:00"),
        ("1229", "2026-12-29T00:00:00"),
        ("1128", "2027-11-28T00:00:00"),
        ("12.29.26", "2026-12-29T00:00:00"),
        ("2026-12-29-10:00", "2026-12-29T10:00:00"),
        ("now-1hour", "2026-11-28T10:41:20"),
    ],
)
def test_a_moment_is_the_one_that_slurm_reads(text: str, expected: str) -> None:
    assert moment(text, NOW) == datetime.fromisoformat(expected).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("16:00", "2026-11-28T16:00:00"), ("today", "2026-11-28T00:00:00"), ("1127", "2026-11-27T00:00:00")],
)
def test_a_moment_that_may_have_passed_is_of_this_day_and_year(text: str, expected: str) -> None:
    assert moment(text, NOW, coming=False) == datetime.fromisoformat(expected).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    "text", ["4pm", "yesterday", "now+", "now+1month", "24:00", "9:5", "2027-13-01", "20270101", ""]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        moment(text, NOW)


def test_hosts_keep_their_order_and_their_zeros() -> None:
    assert values.hosts("gpu[08-10,2],login,gpu08") == ["gpu08", "gpu09", "gpu10", "gpu2", "login"]


@pytest.mark.parametrize("text", ["gpu[2-1]", "gpu[1-99999]", "gpu[1", "gpu[a]", ",", "gpu[1-2]x]"])
def test_what_is_no_list_of_hosts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        values.hosts(text)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("ib&nvlink", ["n1", "n2"]),
        ("nvlink|a100", ["n1", "n2", "n3", "n4"]),
        ("(nvlink|ib)&a100", ["n1", "n2", "n3"]),
        ("[nvlink|ib]", ["n1", "n2", "n3"]),
    ],
)
def test_a_constraint_chooses_nodes(constraint: str, expected: list[str]) -> None:
    assert nodes_with(constraint, site().partitions["gpu"].nodes, 3) == expected


@pytest.mark.parametrize("constraint", ["ib*2", "(ib", "ib)", "ib&", "", "h900", "(" * 30 + "ib" + ")" * 30, "[ib"])
def test_a_constraint_that_cannot_be_read_is_refused(constraint: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        nodes_with(constraint, site().partitions["gpu"].nodes, 1)
