"""The record of Slurm's side: complete, and able to tell two runs apart."""

from __future__ import annotations

import copy
from collections import Counter

from tests.groups import ROOT
from tests.slurm.compared import recorded
from tests.slurm.likeness import differences
from tests.slurm.scripts import scripts
from tests.slurm.test_on_muster import DIFFERENCES


def test_every_script_has_a_record_and_every_record_a_script() -> None:
    assert set(recorded()) == set(scripts())


def test_there_are_enough_scripts_of_each_kind() -> None:
    kinds = Counter(name[0] for name in scripts())
    assert all(kinds[kind] >= fewest for kind, fewest in {"g": 40, "n": 25, "a": 15, "d": 10, "o": 10}.items())


def test_another_end_variable_line_or_call_is_a_difference() -> None:
    wanted = recorded()["n03-task-for-each-gpu"]
    assert list(differences(wanted, copy.deepcopy(wanted))) == []
    for change in ("ends", "env", "calls"):
        got = copy.deepcopy(wanted)
        job = got["jobs"]["pergpu"]
        if change == "ends":
            job["ends"] = "FAILED 1:0"
        elif change == "env":
            del job["env"]["SLURM_NTASKS"]
        else:
            job["calls"].pop()
        [found] = differences(wanted, got)
        assert f"/{change}" in found


def test_the_differences_are_those_that_are_documented() -> None:
    page = " ".join((ROOT / "docs" / "user" / "sbatch.md").read_text().split())
    assert all(reason in page for reason in DIFFERENCES)
    assert {name for names in DIFFERENCES.values() for name in names} <= set(scripts())
