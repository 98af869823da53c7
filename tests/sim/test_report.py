"""The comparison of runs: the same figures in a table, in JSON and in CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.sim.metrics import summarize
from scheduler.sim.report import Grid, Row, document, grids, jobs_to_csv, to_csv, to_json
from scheduler.sim.result import Result
from tests.sim.records import record, result

PROMISED = {
    "policy", "jct_mean_s", "jct_p50_s", "jct_p99_s", "makespan_s", "utilization", "rho_max", "rho_mean",
    "fair_share_delay_s", "fragmentation_delay_s", "preemptions", "jobs", "wall_s", "peak_mib",
}  # fmt: skip


def run(label: str = "fifo", jct_s: float = 100.0, **fields: Any) -> Row:
    job = record(took=jct_s, alone_s=50.0, fair_share_delay_s=jct_s / 10, fragmentation_delay_s=jct_s / 5)
    return Row(label, summarize(result([job], policy=label, makespan_s=jct_s, **fields)))


def lines(grid: Grid) -> dict[str, tuple[str, ...]]:
    return {line[0].strip(): line[1:] for line in grid.rows}


def test_the_table_has_a_column_for_each_run_and_ratios_beside_the_first() -> None:
    (grid,) = grids([run("fifo", 100), run("srtf", 50)])
    assert grid.header == ("", "fifo", "srtf")
    assert lines(grid)["JCT mean, s"] == ("100.0", "50.000    0.50x")
    assert lines(grid)["fair-share delay, mean s"] == ("10.000", "5.000    0.50x")


def test_counts_have_no_ratio_and_nothing_is_divided_by_nothing() -> None:
    (grid,) = grids([run("fifo"), run("srtf")])
    assert lines(grid)["jobs"] == ("1", "1")
    assert lines(grid)["GPU-hours lost"] == ("0.000", "0.000        -")


def test_a_small_ratio_is_more_than_nothing() -> None:
    (grid,) = grids([run("fifo", 1000), run("srtf", 1)])
    assert lines(grid)["JCT mean, s"] == ("1,000.0", "1.000  0.0010x")


def test_a_figure_that_a_run_does_not_have_is_a_dash() -> None:
    (grid,) = grids([Row("none", summarize(result([])))])
    assert lines(grid)["JCT mean, s"] == ("-",)


def test_lines_about_what_never_happened_are_left_out() -> None:
    (quiet,) = grids([run()])
    assert "jobs left unfinished" not in lines(quiet)
    assert not any("> 8 GPUs" in title for title in lines(quiet))
    (loud,) = grids([run(), Row("stuck", summarize(result([record(took=None)])))])
    assert lines(loud)["jobs left unfinished"] == ("0", "1")


def test_many_runs_become_several_tables_that_all_begin_with_the_first() -> None:
    tables = list(grids([run(f"p{number}") for number in range(8)]))
    assert [table.header for table in tables] == [("", "p0", "p1", "p2", "p3", "p4"), ("", "p0", "p5", "p6", "p7")]


def test_the_plain_table_keeps_its_columns_in_line() -> None:
    text = Grid(("", "a", "long name"), (("x", "1", "2"), ("longer", "10", "20"))).plain()
    assert text.splitlines() == [
        "         a  long name",
        "------  --  ---------",
        "x        1          2",
        "longer  10         20",
    ]


def test_the_document_has_the_promised_fields_and_plain_values() -> None:
    (figures,) = document([run("srtf", 200.0, wall_s=1.5, peak_mib=9.0)])["runs"]
    assert figures.keys() >= PROMISED
    assert figures["policy"] == "srtf"
    assert (figures["jct_mean_s"], figures["rho_max"], figures["wall_s"]) == (200, 4, 1.5)
    assert (figures["fair_share_delay_s"], figures["fragmentation_delay_s"]) == (20, 40)
    (vc,) = figures["by_vc"]
    assert (vc["vc"], vc["jobs"], vc["rho_cluster_max"], vc["rho_quota_max"]) == ("default", 1, 4, None)
    assert [size["gpus"] for size in figures["by_size"]] == ["1", "2-4", "5-8", ">8"]
    assert json.loads(to_json([run("srtf", 200.0, wall_s=1.5, peak_mib=9.0)]))["runs"] == [figures]


def test_without_timing_two_runs_that_differ_in_nothing_else_have_the_same_bytes() -> None:
    fast, slow = run(wall_s=1.0, peak_mib=10.0), run(wall_s=2.0, peak_mib=20.0)
    for write in (to_json, to_csv):
        assert write([fast]) != write([slow])
        assert write([fast], timing=False) == write([slow], timing=False)
    assert not {"wall time, s", "peak memory, MiB"} & lines(next(grids([fast], timing=False))).keys()


def test_what_a_run_assumed_is_in_the_document() -> None:
    (figures,) = document([replace(run(), assumed={"round_s": 60.0})])["runs"]
    assert figures["assumed"] == {"round_s": 60.0}


def test_the_csv_has_a_line_for_each_run_with_sizes_as_columns() -> None:
    first, second = csv.DictReader(io.StringIO(to_csv([run("fifo"), run("srtf", 50.0)])))
    assert (first["run"], second["run"]) == ("fifo", "srtf")
    assert first.keys() >= PROMISED
    assert float(first["gpus_1_fair_share_delay_mean_s"]) == 10
    assert first["gpus_over_8_fair_share_delay_mean_s"] == ""
    assert float(second["jct_mean_s"]) == 50


def test_the_csv_of_jobs_has_every_job_of_every_run() -> None:
    def jobs(end: float | None) -> Result:
        return result([record(1, name='a "b", c', took=end, alone_s=10.0, vc="x")])

    first, second = csv.DictReader(io.StringIO(jobs_to_csv([("fifo", jobs(20.0)), ("srtf", jobs(None))])))
    assert (first["run"], first["name"], first["jct_s"], first["rho_cluster"]) == ("fifo", 'a "b", c', "20.0", "2.0")
    assert (second["run"], second["ended_s"], second["jct_s"], second["rho_cluster"]) == ("srtf", "", "", "")


@given(st.floats(0.001, 1e9), st.floats(0.001, 1e9))
def test_the_table_and_the_document_agree(first: float, second: float) -> None:
    rows = [run("a", first), run("b", second)]
    (grid,) = grids(rows)
    shown = [float(cell.split()[0].replace(",", "")) for cell in lines(grid)["JCT mean, s"]]
    for text, figures in zip(shown, document(rows)["runs"], strict=True):
        assert abs(text - figures["jct_mean_s"]) <= max(0.0006, 0.0006 * figures["jct_mean_s"])
