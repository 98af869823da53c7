"""Applications of a few measurements worked out by hand, and the published ones held against their authors' program."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.sim.applications import ApplicationError, PolluxWork, load_applications, read_throughputs
from scheduler.sim.applications.measured import Application, Iteration, smallest_rotation
from tests.sim.data import data

PLACEMENTS = """placement,local_bsz,step_time,sync_time
1,10,1.0,0.0
1,20,2.0,0.0
2,10,1.5,0.5
2,20,2.5,0.5
12,10,2.0,1.0
12,20,3.0,1.0
"""
SCALABILITY = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n2,4,10,3.0,1.0\n2,4,20,4.0,1.0\n"
# One epoch more than is trained nowhere: two epochs, three sizes. The noise makes 40 samples worth 1.6 times 20.
FIRST = "progress,iteration,metric,grad_sqr,grad_var\n100,100,0,1,3\n200,200,0,1,3\n"
LARGER = "progress,iteration,metric,grad_sqr,grad_var\n110,70,0,1,3\n210,140,0,1,3\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "traces" / "toy"
    folder.mkdir(parents=True)
    (folder / "placements.csv").write_text(PLACEMENTS)
    (folder / "scalability.csv").write_text(SCALABILITY)
    (folder / "validation-20.csv").write_text(FIRST)
    (folder / "validation-40.csv").write_text(LARGER)
    return folder


@pytest.fixture
def toy(folder: Path) -> Application:
    return load_applications(folder.parent)["toy"]


def test_it_knows_what_was_measured(toy: Application) -> None:
    assert (toy.epochs, toy.batches, toy.smallest_local, toy.largest_local) == (2, (20, 40), 10, 20)
    assert list(toy.progress) == [100, 200]
    assert toy.largest_gang(40) == 4


@pytest.mark.parametrize(
    ("batch", "gpus", "expected"),
    [
        (20, 1, Iteration(20, 0)),
        (40, 1, Iteration(20, 1)),
        (21, 1, Iteration(11, 1)),  # above the first batch size, one GPU accumulates
        (40, 2, Iteration(20, 0)),
        (40, 3, Iteration(13, 0)),  # 14 each would be 42, more than was ever validated
        (40, 64, None),
    ],
)
def test_a_batch_is_cut_for_a_number_of_gpus(
    toy: Application, batch: int, gpus: int, expected: Iteration | None
) -> None:
    assert toy.iteration(batch, gpus) == expected


def test_a_placement_is_the_same_whichever_node_comes_first() -> None:
    assert smallest_rotation((4, 4, 2)) == smallest_rotation((4, 2, 4)) == (2, 4, 4)
    assert smallest_rotation((0, 4, 0, 1)) == (1, 4)
    assert smallest_rotation(()) == ()


@given(st.lists(st.integers(1, 8), min_size=1, max_size=8), st.integers(0, 7))
def test_every_rotation_has_the_same_smallest_one(nodes: list[int], turn: int) -> None:
    turned = nodes[turn % len(nodes) :] + nodes[: turn % len(nodes)]
    assert smallest_rotation(tuple(nodes)) == smallest_rotation(tuple(turned)) <= tuple(nodes)


def test_times_are_interpolated_between_sizes_and_then_between_placements(toy: Application) -> None:
    assert toy.times_s((2, 1), 15) == (2.5, 1.0)
    assert toy.times_s((2, 1), 5) == (2.0, 1.0)
    assert toy.times_s((2, 2), 15) == pytest.approx((3.5, 1.0))
    assert toy.times_s((3,), 15) is None


def test_an_epoch_lasts_as_long_as_the_measurements_say(toy: Application) -> None:
    work = PolluxWork(toy, batch=40, gpus=2)
    # 2 GPUs with 20 samples each: 2.5 s an iteration, worth (3 + 1) / (3 / 2 + 1) = 1.6 of the first batch size.
    assert work.seconds_left(0.0, "T4", (2,), 1.0) == pytest.approx(200 / (1.6 / 2.5))
    assert work.seconds_left(150.0, "T4", (2,), 0.5) == pytest.approx(50 / (1.6 / 2.5) / 0.5)
    assert work.advance(0.0, "T4", (2,), 1.0, 25.0) == pytest.approx(16.0)
    # Alone, two passes of 20: 2 s and 2 s more without a synchronisation in between.
    assert work.seconds_left(0.0, "T4", (1,), 1.0) == pytest.approx(200 / (1.6 / 4.0))


def test_with_whole_seconds_each_epoch_but_the_last_ends_on_one(toy: Application) -> None:
    work = PolluxWork(toy, batch=40, gpus=2, whole_seconds=True)
    # 100 / 0.64 = 156.25 s an epoch; of the last one the GPUs are held to its real end
    assert work.seconds_left(0.0, "T4", (2,), 1.0) == 156 + 156.25
    assert work.advance(0.0, "T4", (2,), 1.0, 157.0) == pytest.approx(100 + 0.64)
    assert work.seconds_left(100 - 0.2, "T4", (2,), 1.0) == 156.25
    assert work.advance(0.0, "T4", (2,), 1.0, 312.0) == pytest.approx(200 - 0.25 * 0.64)
    assert work.advance(0.0, "T4", (2,), 1.0, 400.0) == 200
    assert work.seconds_left(200.0, "T4", (2,), 1.0) == 0


def test_a_layout_that_was_never_measured_makes_no_progress(toy: Application) -> None:
    work = PolluxWork(toy, batch=40, gpus=2)
    assert work.seconds_left(0.0, "T4", (3,), 1.0) == math.inf
    assert work.advance(7.0, "T4", (3,), 1.0, 100.0) == 7


def test_a_prediction_counts_whole_epochs(toy: Application) -> None:
    work = PolluxWork(toy, batch=40, gpus=2)
    assert work.iterations_left(0.0) == work.iterations_left(99.0) == 70
    assert work.iterations_left(100.0) == 1
    assert work.remaining_s(0.0) == pytest.approx(70 * 2.5)
    assert work.speeds() == pytest.approx((1.0, 4.0 / 2.5))
    assert work.remaining_s(0.0) * work.speeds()[1] == pytest.approx(70 * work.seconds_per_iteration(1))
    assert work.alone_s() == pytest.approx(work.seconds_left(0.0, "T4", (2,), 1.0))


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("placements.csv", PLACEMENTS.replace("step_time", "step"), "no column 'step_time'"),
        ("placements.csv", PLACEMENTS.replace("12,10,2.0", "12,10,nan"), "line 6: 'nan' is not a measurement"),
        ("placements.csv", PLACEMENTS.replace("12,10", "21,10"), "line 6: placement 21 is not its smallest rotation"),
        ("validation-40.csv", LARGER.replace("110,", "-1,"), "line 2: '-1' is not a measurement"),
        ("validation-40.csv", FIRST.replace("100,100", "300,100"), None),
        ("validation-x.csv", LARGER, "does not end in a batch size"),
        ("validation-20.csv", FIRST.replace("200,200", "90,200"), "the progress does not grow"),
    ],
)
def test_it_refuses_measurements_that_make_no_sense(folder: Path, file: str, text: str, reason: str | None) -> None:
    (folder / file).write_text(text)
    if reason is None:  # the least of all batch sizes counts, so that a fast one does no harm
        assert list(load_applications(folder.parent)["toy"].progress) == [100, 200]
        return
    with pytest.raises(ApplicationError, match=reason):
        load_applications(folder.parent)


def test_a_prediction_for_one_gpu_has_two_passes_whatever_the_batch(toy: Application) -> None:
    # At the first batch size a job alone computes 20 samples at once, in 2 s; predicted are twice 10, in 1 s each.
    work = PolluxWork(toy, batch=20, gpus=1)
    assert work.seconds_left(0.0, "T4", (1,), 1.0) == pytest.approx(200 * 2.0)
    assert toy.iteration(20, 1, accumulates=True) == Iteration(10, 1)
    assert work.seconds_per_iteration(1) == pytest.approx(1.0 + 1.0)


def test_it_refuses_a_folder_without_applications(tmp_path: Path) -> None:
    with pytest.raises(ApplicationError, match="no folder of a measured application"):
        load_applications(tmp_path)
    with pytest.raises(ApplicationError, match="no such folder"):
        load_applications(tmp_path / "none")


def test_it_reads_throughputs_alone_and_in_pairs(tmp_path: Path) -> None:
    one, two = "('LM', 1)", "('A3C', 1)"
    table = {
        "v100": {one: {"null": 2.0, two: [1.0, 0.5]}, two: {"null": 0.0}},
        "v100_unconsolidated": {one: {"null": 1.0}},
    }
    path = tmp_path / "simulation_throughputs.json"
    path.write_text(json.dumps(table))
    throughputs = read_throughputs(tmp_path)
    assert throughputs.rates("LM", 1) == {"V100": 2.0}
    assert throughputs.rates("A3C", 1) == {}
    assert throughputs.scattered["LM", 1] == {"V100": 1.0}
    assert throughputs.pairs[("LM", 1), ("A3C", 1)] == {"V100": (1.0, 0.5)}
    assert throughputs.models(1) == ("LM",)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"v100": {"LM": {"null": 1}}}', '{"v100": {"(\'LM\', 1)": {"null": -1}}}']
)
def test_it_refuses_a_malformed_table_of_throughputs(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(ApplicationError, match=r"t\.json: not "):
        read_throughputs(tmp_path / "t.json")
    with pytest.raises(ApplicationError, match="no throughputs here"):
        read_throughputs(tmp_path)


# The authors' program on the same workloads at half load, where most jobs find the cluster empty enough: 533 of the 640
# jobs end in the very second that their measurements give alone (an arrival is seen at the next multiple of 60 s, and a
# start costs 30 s). The others queued, were preempted, or lay differently.
ALONE_AT_LEAST = 533


def test_a_published_job_alone_takes_as_long_as_in_the_authors_program() -> None:
    folder = data("adaptdl_osdi21")
    expected = json.loads((folder / "results-jobload" / "tiresias-0.5" / "summary.json").read_text())["jcts"]
    applications = load_applications(folder / "traces")
    same = jobs = 0
    for number in range(1, 9):
        with (folder / "workloads-0.5" / f"workload-{number}.csv").open() as file:
            for row in csv.DictReader(file):
                work = PolluxWork(
                    applications[row["application"]],
                    int(row["batch_size"]),
                    int(row["num_replicas"]),
                    whole_seconds=True,
                )
                jct_s = -int(row["time"]) % 60 + 30 + round(work.alone_s())
                same += jct_s == expected[f"workload-{number}"][row["name"]]
                jobs += 1
    assert jobs == 640
    assert same >= ALONE_AT_LEAST


def test_rounds_of_a_minute_end_a_published_job_in_the_same_second() -> None:
    cifar10 = load_applications(data("adaptdl_osdi21", "traces"))["cifar10"]
    work = PolluxWork(cifar10, 2048, 6, whole_seconds=True)
    whole_s, done, now_s = work.seconds_left(0.0, "T4", (4, 2), 1.0), 0.0, 0.0
    while (left_s := work.seconds_left(done, "T4", (4, 2), 1.0)) > 60:
        done, now_s = work.advance(done, "T4", (4, 2), 1.0, 60.0), now_s + 60
    assert round(now_s + left_s) == round(whole_s)
