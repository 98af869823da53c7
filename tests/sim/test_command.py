"""The command line of the simulator, from a file of a few jobs to figures, and what it says of bad input."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from scheduler.engine.cycle import CycleConfig, compose
from scheduler.engine.policy import POLICIES
from scheduler.sim import command
from scheduler.sim.__main__ import main
from scheduler.sim.arguments import Arguments, UsageError, infeasible_reason, named, prepare
from scheduler.sim.cluster import ClusterSpec, NodeGroup
from scheduler.sim.command import Outputs, progress_bar, run_study
from scheduler.sim.engine import SimulationError
from scheduler.sim.readers import formats
from tests.sim.stories import job

HEADER = "timestamp,duration,num_gpus,cluster"
DAY = "2017-10-03 00:00:"
# On two GPUs the long one comes first, and the short ones wait for it unless they may go before.
STORY = (f"{DAY}00,100,2,a", f"{DAY}10,10,2,a", f"{DAY}20,20,1,b")


def write(folder: Path, *rows: str) -> Path:
    path = folder / "story.csv"
    path.write_text("\n".join((HEADER, *rows)) + "\n")
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path, *STORY)


def options(trace: Path, *more: str, cluster: str = "V100:1x2", policies: tuple[str, ...] = ("fifo",)) -> list[str]:
    named_policies = [word for policy in policies for word in ("--policy", policy)]
    return ["--trace", str(trace), "--cluster", cluster, *named_policies, *more]


def test_two_policies_are_compared_on_a_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options(trace, policies=("fifo", "srtf"))) == 0
    shown = capsys.readouterr()
    lines = {line.split("  ")[0]: line.split()[-3:] for line in shown.out.splitlines()}
    assert shown.out.splitlines()[0].split() == ["fifo", "srtf"]
    # First in, first out: 100, 110 - 10 and 130 - 20. Shortest first: the long one waits for 10 and 20 seconds.
    assert lines["JCT mean, s"] == ["103.3", "53.333", "0.52x"]
    assert shown.err == ""


def test_the_document_has_a_run_for_each_policy_in_their_order(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert main(options(trace, "--json", str(out), policies=("srtf", "fifo", "fifo"))) == 0
    runs = json.loads(out.read_text())["runs"]
    assert [run["run"] for run in runs] == ["srtf", "fifo", "fifo (2)"]
    assert [run["policy"] for run in runs] == ["srtf", "fifo", "fifo"]
    assert (runs[1]["jobs"], runs[1]["makespan_s"], runs[1]["jct_p50_s"]) == (3, 130, 100)
    assert runs[1]["assumed"]["cluster"] == "V100:1x2"


def test_json_without_a_file_takes_the_place_of_the_table(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options(trace, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["policy"] == "fifo"


def test_everything_is_written_and_comes_out_the_same_again(trace: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        files = ("--json", f"{folder}/r.json", "--csv", f"{folder}/r.csv", "--jobs-csv", f"{folder}/jobs.csv")
        assert main(options(trace, *files, "--plots", f"{folder}/plots", "--no-timing", "--seed", "3")) == 0
    first, second = ({path.relative_to(f): path.read_bytes() for path in f.rglob("*.*")} for f in folders)
    assert {str(path) for path in first} == {
        "r.json", "r.csv", "jobs.csv", "plots/jct.png", "plots/utilization.png", "plots/queueing.png",
    }  # fmt: skip
    assert first == second
    assert "wall_s" not in json.loads(first[Path("r.json")])["runs"][0]
    jobs = list(csv.DictReader((folders[0] / "jobs.csv").read_text().splitlines()))
    assert [row["jct_s"] for row in jobs] == ["100.0", "100.0", "110.0"]


def test_a_generated_trace_needs_no_file_and_follows_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    def figures(seed: str) -> Any:
        arguments = ["--generate", "gavel:jobs=8", "--cluster", "V100:2x8", "--policy", "fifo", "--json", "--no-timing"]
        assert main([*arguments, "--seed", seed]) == 0
        return json.loads(capsys.readouterr().out)["runs"][0]

    assert figures("1") == figures("1")
    assert figures("1")["jct_mean_s"] != figures("2")["jct_mean_s"]
    assert figures("1")["jobs"] == 8


def test_assumptions_reach_the_simulation(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options(trace, "--json", "--restart", "5", "--round", "60", "--limit", "1")) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["jobs"], run["jct_mean_s"]) == (1, 105)
    assert (run["assumed"]["restart_s"], run["assumed"]["round_s"]) == (5, 60)


def test_quotas_of_the_cluster_hold(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("groups: [{type: V100, nodes: 1, gpus: 4}]\nvcs: {a: {V100: 2}, b: {V100: 2}}\n")
    assert main(options(trace, "--json", cluster=str(cluster))) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    # The second job of a waits for 90 s for its share, though two GPUs are free for the first 20 of them.
    assert (run["fair_share_delay_s"], run["fragmentation_delay_s"]) == (90, 0)


def test_the_list_names_every_policy_and_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    words = capsys.readouterr().out.split()
    assert {*POLICIES.names, *formats(), "consolidate", "quota", "gavel"} <= set(words)


def test_the_authors_assumptions_are_the_defaults(trace: Path) -> None:
    common = {"trace": trace, "policies": ("fifo",), "cluster": "V100:1x2", "peer": True}
    ((_, run),) = prepare(Arguments(**common)).runs
    assert (run.round_s, run.restart_s) == (60, 30)
    ((_, own),) = prepare(Arguments(**common, round_s=0.0, restart_s=7.0)).runs
    assert (own.round_s, own.restart_s) == (0, 7)


@pytest.mark.parametrize("name", [name for name, each in formats().items() if each.peer])
def test_policies_take_the_parameters_that_authors_are_said_to_have_used(name: str) -> None:
    peer = formats()[name].peer
    assert peer is not None
    for policy in peer.policies.keys() & set(POLICIES.names):
        compose(CycleConfig(policy=policy, policy_params=peer.policies[policy]))


# Parameters


@pytest.mark.parametrize(
    ("text", "params"),
    [
        pytest.param("fifo", {}, id="none"),
        pytest.param("p:a=1,b=2.5,c=true,d=null", {"a": 1, "b": 2.5, "c": True, "d": None}, id="JSON scalars"),
        pytest.param("p:a=easy,b=/tmp/x.json", {"a": "easy", "b": "/tmp/x.json"}, id="text"),
        pytest.param("p:a=[1;2.5],b=x", {"a": [1, 2.5], "b": "x"}, id="a list with semicolons"),
        pytest.param("p:a=[1,2],b=[[1;2];[]]", {"a": [1, 2], "b": [[1, 2], []]}, id="lists in lists"),
        pytest.param("p:a=[x;y z]", {"a": ["x", "y z"]}, id="a list of words"),
        pytest.param('p:a={"k": [1, 2], "l": "a,]"},b=1', {"a": {"k": [1, 2], "l": "a,]"}, "b": 1}, id="an object"),
        pytest.param("p:a=", {"a": ""}, id="an empty text"),
        pytest.param("p:a=b=c:d", {"a": "b=c:d"}, id="what follows the first sign belongs to the value"),
    ],
)
def test_parameters_are_json_where_they_can_be_and_text_elsewhere(text: str, params: dict[str, object]) -> None:
    assert named("--policy", text) == (text.partition(":")[0], params)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values, max_size=4))
def test_any_json_comes_through(params: dict[str, object]) -> None:
    text = "p:" + ",".join(f"{name}={json.dumps(value)}" for name, value in params.items())
    assert named("--policy", text) == ("p", params)


@given(st.text())
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        name, _ = named("--policy", text)
    except UsageError as error:
        name = str(error).partition(": ")[0]
    # Nothing else is ever raised, and a refusal begins with the option.
    assert name == "--policy" or text.strip().startswith(name)


# Bad input

BAD: dict[str, tuple[list[str], str]] = {
    "an unknown policy names the nearest": (["--policy", "fifa"], "--policy: unknown policy 'fifa'; did you mean"),
    "an unknown parameter": (["--policy", "fifo:patience=3"], "--policy: policy fifo: unknown parameter 'patience'"),
    "a bad value of a parameter": (["--policy", "fifo:patience_s=-1"], "--policy: policy fifo: patience_s must be"),
    "a parameter without a value": (["--policy", "fifo:patience_s"], "--policy: 'patience_s' is not key=value"),
    "a parameter given twice": (["--policy", "fifo:patience_s=1,patience_s=2"], "--policy: patience_s is given twice"),
    "an open bracket": (["--policy", "fifo:patience_s=[1"], "--policy: 'patience_s=[1' lacks ]"),
    "no name": (["--policy", ":a=1"], "--policy: ':a=1' has no name"),
    "an unknown placement": (["--placement", "consolidat"], "did you mean 'consolidate'?"),
    "an unknown admission": (
        ["--admission", "quotas"],
        "--admission: unknown admission 'quotas'; did you mean 'quota'?",
    ),
    "cells of no quotas": (
        ["--admission", "hived"],
        "--admission: hived makes cells of the quotas of virtual clusters, and neither the trace nor --cluster",
    ),
    "an unknown format": (["--format", "philli"], "--format: unknown format 'philli'; did you mean 'philly'?"),
    "an unknown oracle": (["--oracle", "delphi"], "--oracle: unknown oracle 'delphi'"),
    "no number": (["--round", "often"], "--round: invalid float value: 'often'"),
    "a negative time": (["--restart", "-1"], "--restart: must be a number of seconds of at least 0, not -1"),
    "an endless time": (["--round", "inf"], "--round: must be a number of seconds"),
    "no time at all": (["--grace", "nan"], "--grace: must be a number of seconds"),
    "more than all the speed": (["--interference", "1"], "--interference: must be the lost share of the speed"),
    "no jobs": (["--limit", "0"], "--limit: must be at least 1"),
    "a negative seed": (["--seed", "-1"], "--seed: must be at least 0"),
    "an empty window": (["--start", "10", "--end", "10"], "--end: must be after --start"),
    "an unknown option": (["--polcy", "fifo"], "unrecognized arguments: --polcy fifo"),
    "an unknown option of the format": (["--read", "unit=3"], "--read: unknown option of a format 'unit'; did you"),
    "a bad option of the format": (["--read", "unit_s=0"], "--read: unit_s must be a number above 0, not 0"),
    "no throughputs there": (["--throughputs", "/nowhere/at/all"], "--throughputs: there is no file or folder"),
    "a file in no folder": (["--json", "/nowhere/at/all.json"], "--json: there is no folder /nowhere/at"),
    "both a trace and a generator": (["--generate", "gavel"], "--trace: give either a trace or --generate"),
    "two documents on standard output": (["--json", "-", "--csv", "-"], "--csv: only one document"),
}


@pytest.mark.parametrize(("more", "message"), BAD.values(), ids=BAD.keys())
def test_bad_options_are_refused_in_one_line(
    trace: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert main(options(trace, *more)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert message in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--policy", "fifo", "--cluster", "V100:1x2"], "--trace: give the file of a trace", id="trace"),
        pytest.param(["--generate", "gavel", "--cluster", "V100:1x2"], "--policy: name at least one", id="policy"),
        pytest.param(["--generate", "gavel", "--policy", "fifo"], "--cluster: give the GPUs", id="cluster"),
        pytest.param(
            ["--generate", "gavel:job=1", "--policy", "fifo", "--cluster", "V100:1x2"],
            "--generate: generator gavel: unknown parameter 'job'",
            id="a parameter of the generator",
        ),
        pytest.param(
            ["--generate", "gravel", "--policy", "fifo", "--cluster", "V100:1x2"],
            "--generate: unknown generator 'gravel'; did you mean 'gavel'?",
            id="the generator",
        ),
        pytest.param(
            ["--generate", "gavel", "--policy", "fifo", "--peer"],
            "--peer: only for a trace from a file",
            id="the authors",
        ),
    ],
)
def test_what_is_missing_is_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_bad_cluster_is_named(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options(trace, cluster="V100:2by4")) == 2
    assert "--cluster: cluster: 'V100:2by4' is not TYPE:NODESxGPUS" in capsys.readouterr().err


def test_a_broken_line_names_file_and_line_and_can_be_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write(tmp_path, *STORY, f"{DAY}30,soon,1,a")
    assert main(options(trace)) == 2
    assert "--trace: story.csv, line 5: duration is not a number: 'soon'" in capsys.readouterr().err
    assert main(options(trace, "--skip-bad", "--json")) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["runs"][0]["jobs"] == 3
    assert "story.csv: 1 bad lines left out; the first is line 5" in shown.err


def test_a_job_that_is_too_large_names_its_line_and_can_be_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write(tmp_path, f"{DAY}40,5,64,a", *STORY)
    assert main(options(trace)) == 2
    assert "--trace: story.csv, line 2: asks for 64 GPUs, but the cluster has 2 V100" in capsys.readouterr().err
    assert main(options(trace, "--skip-bad", "--json")) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["runs"][0]["jobs"] == 3
    assert "1 jobs left out that the cluster can never run; story.csv, line 2" in shown.err


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"gpus": 6}, None, id="as many as the largest type has"),
        pytest.param({"gpus": 7}, "asks for 7 GPUs, but the cluster has 6 A100", id="not of one type together"),
        pytest.param({"gpus": 6, "gpu_type": "V100"}, "asks for 6 GPUs, but the cluster has 4 V100", id="of its type"),
        pytest.param(
            {"gpus": 1, "gpu_type": "H100"},
            "asks for GPUs of type H100, but the cluster has V100, A100",
            id="of a type that is not there",
        ),
        pytest.param({"gpus": 6, "gpu_types": ("H100", "A100")}, None, id="of one of two types, which is there"),
        pytest.param(
            {"gpus": 5, "gpu_types": ("H100", "V100")},
            "asks for 5 GPUs, but the cluster has 4 V100",
            id="of the types that it may use",
        ),
        pytest.param(
            {"gpus": 1, "gpu_types": ("H100", "T4")},
            "asks for GPUs of type H100 or T4, but the cluster has V100, A100",
            id="of types that are not there",
        ),
        pytest.param({"gpus": 6, "nodes": 3, "split": False}, None, id="a gang on as many nodes as there are"),
        pytest.param(
            {"gpus": 4, "nodes": 1, "split": False},
            None,
            id="a gang on one node of the other type",
        ),
        pytest.param(
            {"gpus": 6, "nodes": 2, "split": False},
            "asks for 2 nodes with 3 GPUs each, but the cluster has fewer such nodes",
            id="a gang on larger nodes than there are",
        ),
    ],
)
def test_a_job_that_the_cluster_can_never_run_is_told_why(fields: dict[str, Any], reason: str | None) -> None:
    cluster = ClusterSpec((NodeGroup("V100", nodes=1, gpus=4), NodeGroup("A100", nodes=3, gpus=2)))
    assert infeasible_reason(job(1, **fields), cluster) == reason


@pytest.mark.parametrize(
    ("policy", "notes"),
    [
        pytest.param("drf", ["drf: all jobs of the trace have the same owner, so drf orders them like fifo"]),
        pytest.param("drf:over=vc", []),
        pytest.param("fifo", []),
    ],
)
def test_drf_without_several_owners_is_remarked_upon(trace: Path, policy: str, notes: list[str]) -> None:
    assert list(prepare(Arguments(trace=trace, policies=(policy,), cluster="V100:1x2")).notes) == notes


def test_jobs_that_never_ended_are_remarked_upon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("groups: [{type: V100, nodes: 1, gpus: 4}]\nvcs: {a: {V100: 2}, b: {V100: 1}}\n")
    trace = write(tmp_path, *STORY, f"{DAY}30,5,2,b")
    assert main(options(trace, cluster=str(cluster))) == 0
    assert "fifo: 1 of 4 jobs never ended; means omit them" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_named(trace: Path, tmp_path: Path) -> None:
    study = prepare(Arguments(trace=trace, policies=("fifo",), cluster="V100:1x2"))
    with pytest.raises(UsageError, match=r"--csv: .* is a folder"):
        run_study(study, Outputs(csv=str(tmp_path)))
    with pytest.raises(UsageError, match=r"--plots: .* is not a folder"):
        run_study(study, Outputs(plots=trace))


def test_a_mistake_of_the_simulator_is_no_mistake_of_the_user(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SimulationError("a GPU has two holders")

    monkeypatch.setattr(command, "simulate", fail)
    assert main(options(trace)) == 1
    assert (
        capsys.readouterr().err == "error: please report this: the simulation is inconsistent: a GPU has two holders\n"
    )


def test_progress_is_reported_for_each_run_up_to_its_last_job(trace: Path) -> None:
    study = prepare(Arguments(trace=trace, policies=("fifo", "srtf"), cluster="V100:1x2"))
    told: list[tuple[str, int, int]] = []
    run_study(study, Outputs(), lambda label, done, jobs, _now_s: told.append((label, done, jobs)))
    assert ("fifo", 3, 3) in told
    assert told[-1] == ("srtf", 3, 3)


def test_the_bar_names_the_runs_on_a_terminal_only(trace: Path) -> None:
    study = prepare(Arguments(trace=trace, policies=("fifo", "srtf"), cluster="V100:1x2"))
    with progress_bar(None, study) as silent:
        assert silent is None
    screen = StringIO()
    with progress_bar(Console(file=screen, force_terminal=True, width=120), study) as report_progress:
        run_study(study, Outputs(), report_progress)
    assert "fifo" in screen.getvalue()
    assert "3/3" in screen.getvalue()


def test_it_runs_as_a_module_and_draws_without_a_display(trace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scheduler.sim", *options(trace, "--csv", "-")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert [row["policy"] for row in csv.DictReader(done.stdout.splitlines())] == ["fifo"]
    imported = "import sys, scheduler.sim.__main__; print('matplotlib' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", imported], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"


@pytest.mark.parametrize(
    ("owners", "policy", "oracle"),
    [(2, "srtf", "learned"), (2, "las", "perfect"), (1, "srtf", "perfect"), (2, "backfill:optimistic=true", "learned")],
)
def test_run_times_are_learned_where_a_trace_has_owners_and_a_policy_reads_them(
    tmp_path: Path, owners: int, policy: str, oracle: str
) -> None:
    trace = tmp_path / "jobs.swf"
    lines = [f"{number} {number} 0 60 1 -1 -1 1 100 -1 1 {number % owners} 1 1 1 1 -1 -1" for number in range(1, 5)]
    trace.write_text("\n".join(lines) + "\n")
    ((_, found),) = prepare(Arguments(trace=trace, policies=(policy,), cluster="V100:1x2")).runs
    assert found.oracle == oracle
    ((_, named),) = prepare(Arguments(trace=trace, policies=(policy,), cluster="V100:1x2", oracle="none")).runs
    assert named.oracle == "none"
