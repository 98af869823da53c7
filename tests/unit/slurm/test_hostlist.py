"""Lists of nodes; the folded texts are those of Slurm 22.05.8."""

from __future__ import annotations

import pytest

from muster.slurm.hostlist import expand, fold


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("n1,n2,n5", "n[1-2,5]"),
        ("n09,n10,n11,m1,m2", "n[09-11],m[1-2]"),
        ("n1-ib,n2-ib", "n1-ib,n2-ib"),
        ("n3,n1,n2,n1", "n[3,1-2,1]"),
        ("gpu01", "gpu01"),
        ("login", "login"),
        ("", ""),
    ],
)
def test_names_are_folded_as_they_come(names: str, text: str) -> None:
    assert fold([name for name in names.split(",") if name], ordered=True) == text


def test_names_are_folded_by_number_and_once() -> None:
    assert fold(["n10", "n9", "n1", "m3", "n9"]) == "m3,n[1,9-10]"


def test_what_is_folded_expands_to_the_same_names() -> None:
    names = ["n1", "n2", "n08", "n09", "n10", "login", "r2n1"]
    assert expand(fold(names, ordered=True)) == names
