"""The parts that `make check` runs side by side."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import check
from tests.check import LIMIT_S, PARTS, Part, report, run, too_slow
from tests.drawn import left_out_of
from tests.groups import ROOT, may_have

FILES = sorted((ROOT / "tests").rglob("test_*.py"))


def parts_of(file: Path, *, long: bool) -> list[Part]:
    def within(paths: tuple[str, ...]) -> bool:
        return any(file.is_relative_to(ROOT / path) for path in paths)

    return [part for part in PARTS if part.long == long and within(part.tests) and not within(part.but)]


@pytest.mark.parametrize("long", [True, False])
def test_each_test_is_in_one_part(long: bool) -> None:
    assert FILES
    for file in FILES:
        if may_have(file, long=long):
            found = parts_of(file, long=long)
            assert len(found) == 1 or {part.only for part in found} == {"podman", "not podman"}, file


def test_each_check_is_a_part() -> None:
    checks = {
        line.partition(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("check-")
    }
    assert checks | {"audit"} == {target for part in PARTS for target in part.targets}


class Program(Part):
    """A part that runs a Python program."""

    def command(self, seed: str | None) -> list[str]:
        return [sys.executable, "-c", self.only]


def test_a_part_that_fails_shows_its_output_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "LOGS", tmp_path / "logs")
    parts = [
        Program(
            "waits", only=f"import time, os\nwhile not os.path.exists({str(tmp_path / 'flag')!r}): time.sleep(0.01)"
        ),
        Program("fails", only="print('what is wrong'); raise SystemExit(3)"),
        Program("frees", only=f"open({str(tmp_path / 'flag')!r}, 'w')"),
    ]
    ended = list(run(parts, jobs=2, seed=None, environment=os.environ))
    assert {one.part.name: one.status for one in ended} == {"fails": 3, "frees": 0, "waits": 0}
    assert ended[0].part.name == "fails"
    assert "what is wrong" in report(ended[0])
    assert report(ended[1]).endswith(" s")


@pytest.mark.parametrize(
    ("took_s", "load", "cpus", "slow"),
    [
        (LIMIT_S + 1, 0.1, 2, True),
        (LIMIT_S - 1, 0.1, 2, False),
        (LIMIT_S + 1, 12.0, 2, False),
        (LIMIT_S + 1, 0.1, 1, False),
    ],
    ids=["quiet", "in time", "under load", "one processor"],
)
def test_only_a_quiet_machine_has_a_limit(took_s: float, load: float, cpus: int, slow: bool) -> None:
    assert too_slow(took_s, load=load, cpus=cpus) is slow


def test_a_seed_draws_a_tenth_of_what_only_adds_cases() -> None:
    acts = [f"tests/e2e/test_page_actions.py::test_{number}" for number in range(31)]
    others = ["tests/e2e/test_pages.py::test_one", "tests/api/test_openapi.py::test_the_document"]
    drawn = [set(acts) - left_out_of(acts + others, str(seed)) for seed in range(30)]
    assert {len(one) for one in drawn} == {4}
    assert set().union(*drawn) == set(acts)
    assert left_out_of(others, "1") == set()
    assert left_out_of(acts, "1") == left_out_of(acts[::-1], "1")
