"""The presets are simulated as pools decide by them, and the figures of the decision hold what it claims."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.published import presets
from bench.published.__main__ import PAGES
from bench.published.data import NoData, data_folder
from bench.published.presets import Way
from scheduler.presets import BATCH_RESEARCH, FAIR_TEAMS, MIXED_TYPES, PRESETS


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return data_folder()
    except NoData as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def written() -> str:
    return PAGES["presets"].read_text()


def rows(text: str, name: str) -> Mapping[str, list[float]]:
    """The figures of a table of the page, by the first column; the first number of each cell."""
    table = text.partition(f"<!-- {name} -->\n")[2].partition("<!-- /")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {first: [float(cell.split()[0].replace(",", "")) for cell in others] for first, *others in cells}


def test_each_way_is_what_a_pool_with_the_preset_does() -> None:
    for ways, preset in ((presets.BATCH, BATCH_RESEARCH), (presets.MIXED, MIXED_TYPES), (presets.FAIR, FAIR_TEAMS)):
        options = ways[preset.title].options()
        assert {key: getattr(options, key) for key in preset.settings} == preset.settings


def test_batch_research_halves_the_mean_and_no_virtual_cluster_pays_for_it(written: str) -> None:
    _, by_fifo, _, _, late, _ = rows(written, "batch")[BATCH_RESEARCH.title]
    assert by_fifo <= 0.6
    assert late <= 1
    for vc, (_, _, free, _, _, in_quota, _) in rows(written, "batch-clusters").items():
        assert max(free, in_quota) <= 1.1, vc
    assert rows(written, "tacc")[BATCH_RESEARCH.title][1] <= 0.6


def test_each_preset_is_the_best_of_its_table(written: str) -> None:
    mixed, fair = rows(written, "mixed"), rows(written, "fair")
    for column in range(4):
        assert min(mixed, key=lambda name: mixed[name][column]) == MIXED_TYPES.title
    for column in (0, 1, 2):
        assert min(fair, key=lambda name: fair[name][column]) == FAIR_TEAMS.title
    assert all(preset.title in written for preset in PRESETS.values())


def test_a_few_jobs_make_the_tables(folder: Path) -> None:
    ways = presets.WITHIN_QUOTAS
    found = {name: presets.on_philly(folder, way, 50, True) for name, way in ways.items()}
    table = presets.batch_table({name: one.summary for name, one in found.items()}).splitlines()
    assert [line.split("|")[1].strip() for line in table[2:]] == list(ways)
    pair = (found["fifo"], found[BATCH_RESEARCH.title])
    clusters = presets.clusters_table(pair, pair).splitlines()
    assert len(clusters) == 2 + len(found["fifo"].jct_s)
    assert presets.fair_table(found).count("\n") == 4
    few = presets.on_mixed(folder, Way("fifo"), 5.2, 0)
    everything = {(name, load, seed): few for name in presets.MIXED for load in presets.MIXED_LOADS for seed in (0, 1)}
    assert presets.mixed_table(everything).count("\n") == 2 + len(presets.MIXED)
