"""Translation of a script beyond its size: its command, its report and its refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.jobs.spec.spec import parse_spec
from muster.sbatch.command import command_of
from muster.sbatch.directives import Refused
from muster.sbatch.exports import exported
from muster.sbatch.options import Fate
from muster.sbatch.translate import Submission, Translation, translate
from tests.unit.sbatch.cases import site

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def translated(*directives: str, options: tuple[str, ...] = ()) -> Translation:
    script = "\n".join(["#!/bin/bash", *(f"#SBATCH {one}" for one in directives), "true", ""])
    return translate(Submission(script, "train.sbatch", options), site(), NOW)


def test_each_option_is_in_the_report_once_with_its_line_and_what_it_became() -> None:
    found = translated("-J study -N 1", "--gres=gpu:a100:2", "--output=%x.out", options=("--time=90",))
    assert [(one.line, one.text, one.fate, one.says) for one in found.report] == [
        (2, "-J study", Fate.TRANSLATED, "name: study"),
        (2, "-N 1", Fate.TRANSLATED, "nodes: 1"),
        (3, "--gres=gpu:a100:2", Fate.TRANSLATED, "gpus: a100:2"),
        (4, "--output=%x.out", Fate.TRANSLATED, "batch.output: %x.out"),
        (None, "--time=90", Fate.TRANSLATED, "time: 90m"),
    ]


def test_an_option_that_is_overridden_says_by_what() -> None:
    found = translated("--time=10", options=("--time=20",))
    assert [one.says for one in found.report] == ["--time=20 (command line) beats it", "time: 20m"]


@pytest.mark.parametrize(
    ("directive", "line", "names"),
    [
        ("--gress=gpu:1", 2, "--gress"),
        ("--gres=gpu:1 more", 2, "more"),
        ("--array=1-9:0", 2, "step of 0"),
        ("--array=1-1000000", 2, "highest index"),
        ("--time=99-00", 2, "partition gpu allows 72h"),
        ("--licenses=matlab:1", 2, "no licenses"),
        ("-J 'open", 2, "quote"),
        ("hetjob", 2, "hetjob"),
        ("--gres=gpu:5", None, "5 GPUs"),
    ],
)
def test_a_refusal_names_the_line_and_the_matter(directive: str, line: int | None, names: str) -> None:
    with pytest.raises(Refused) as refused:
        translated(directive)
    assert refused.value.line == line
    assert names in refused.value.message


def test_a_signal_is_sent_some_time_before_the_limit_and_the_limit_stays() -> None:
    spec = translated("--time=10", "--signal=B:USR1@90").spec
    assert spec["time"] == "10m"
    sent = {name: value for name, value in spec["batch"].items() if name.startswith("signal")}
    assert sent == {"signal": "USR1", "signal_before_s": 90, "signal_script": True}


def test_variables_that_are_exported_with_a_value_reach_the_job_and_no_others() -> None:
    found = translated("--export=ALL,SEED=7,HOME,RANK=1")
    env = found.spec["env"]
    assert (env["SEED"], env["SLURM_EXPORT_ENV"]) == ("7", "ALL,SEED=7,HOME,RANK=1")
    assert not {"HOME", "RANK"} & env.keys()
    assert found.notes[0].startswith("RANK of --export=ALL,SEED=7,HOME,RANK=1 is not set")


def test_a_script_in_a_shared_folder_runs_there_and_others_in_the_uploaded_one() -> None:
    shared = replace(site(), shared_folders=("/shared",))
    script = "#!/bin/sh\n#SBATCH --chdir=sub --export=A=1\ntrue\n"
    there = translate(Submission(script, "s", folder="/shared/ada/./run"), shared, NOW)
    assert (there.folder, there.export) == ("/shared/ada/run", "A=1")
    assert there.spec["batch"]["folder"] == "/shared/ada/run/sub"
    assert (there.spec["batch"]["output"], there.spec["batch"]["export"]) == ("slurm-%j.out", "NONE")
    assert there.spec["env"]["SLURM_SUBMIT_DIR"] == "/shared/ada/run"
    assert "A" not in there.spec["env"]
    elsewhere = translate(Submission(script, "s", folder="/scratch/ada"), shared, NOW)
    assert elsewhere.folder is None
    assert not {"folder", "output"} & elsewhere.spec["batch"].keys()
    assert (elsewhere.spec["workdir"], elsewhere.spec["env"]["A"]) == ("sub", "1")


@pytest.mark.parametrize(
    ("options", "tasks", "spread"),
    [
        (["-N2", "-n3"], 3, [2, 1]),
        (["-N2", "-n5", "--ntasks-per-node=3"], 5, [3, 3]),
        (["-N2"], 2, [1, 1]),
        (["--exclusive"], 1, [16]),
        (["--cpus-per-gpu=2", "--gpus=1"], 1, [2]),
        (["-n4", "-O"], 4, [4]),
    ],
    ids=str,
)
def test_tasks_spread_over_the_nodes(options: list[str], tasks: int, spread: list[int]) -> None:
    batch = translated(options=tuple(options)).spec["batch"]
    assert (batch["tasks"], batch["tasks_per_node"]) == (tasks, spread)


@pytest.mark.parametrize(
    ("array", "indices"), [("0-7:2%1", "0-6:2"), ("1-4,6", "1-4,6"), ("1,3,5", "1,3,5"), ("5-9:9", "5")]
)
def test_the_step_of_a_range_is_kept(array: str, indices: str) -> None:
    assert translated(f"--array={array}").spec["array"]["indices"] == indices


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("ALL", {"A": "1", "SLURM_X": "2"}),
        ("ALL,B=3", {"A": "1", "SLURM_X": "2", "B": "3"}),
        ("NONE", {"SLURM_X": "2"}),
        ("A,B='x,y'", {"A": "1", "SLURM_X": "2", "B": "'x,y'"}),
    ],
)
def test_an_export_keeps_the_variables_that_it_names_and_those_of_slurm(value: str, kept: dict[str, str]) -> None:
    assert exported({"A": "1", "SLURM_X": "2", "MUSTER_TOKEN": "secret"}, value) == kept


@pytest.mark.parametrize(
    ("dependency", "after"),
    [
        ("afterok:7:8,afterany:9", ["7:ok", "8:ok", "9:any"]),
        ("afternotok:7?after:8", ["7:failed?8:started"]),
        ("singleton,aftercorr:7", ["singleton", "7:corr"]),
        ("7", ["7:any"]),
        ("afterok:7_2:8_*,after:9+5", ["7_2:ok", "8:ok", "9:started+5m"]),
    ],
)
def test_a_dependency_is_what_a_spec_has_after(dependency: str, after: list[str]) -> None:
    spec = translated(f"--dependency={dependency}").spec
    assert parse_spec({"command": "true", "after": spec["after"]}).after == after


def test_the_number_of_tasks_is_a_variable_where_slurm_sets_it() -> None:
    assert translated("--ntasks-per-node=2").spec["env"]["SLURM_NTASKS"] == "2"
    assert "SLURM_NTASKS" not in translated("--nodes=2").spec["env"]


@pytest.fixture
def supervised(tmp_path: Path) -> dict[str, str]:
    """The environment of a command whose supervisor only becomes the script."""
    supervisor = tmp_path / "muster-batch"
    supervisor.write_text('#!/bin/sh\nexec "$@"\n')
    supervisor.chmod(0o755)
    return {"MUSTER_COMMANDS": str(tmp_path), "MUSTER_PYTHON": sys.executable, "PATH": os.environ["PATH"]}


def ran(command: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", ['#!/bin/sh\nprintf \'%s|\' "$0" "$@"', '#!/bin/sh\nprintf \'%s|\' "$0" "$@"\n'])
def test_the_command_runs_the_script_with_its_arguments(
    tmp_path: Path, supervised: dict[str, str], script: str
) -> None:
    told = ran(command_of(script, ["a b", "c'd"]), tmp_path, supervised)
    assert told.stdout == f"{tmp_path}/slurm_script|a b|c'd|"


def test_a_script_may_hold_the_word_that_ends_it(tmp_path: Path, supervised: dict[str, str]) -> None:
    script = "#!/bin/sh\ncat <<'END_OF_THE_SCRIPT'\nhello $HOME\nEND_OF_THE_SCRIPT\n"
    assert ran(command_of(script, []), tmp_path, supervised).stdout == "hello $HOME\n"


def test_without_a_python_the_command_says_so(tmp_path: Path) -> None:
    told = ran(command_of("#!/bin/sh\ntrue\n", []), tmp_path, {"PATH": os.environ["PATH"]})
    assert told.returncode == 127
    assert "a batch script needs Python" in told.stderr


def test_a_wrapped_command_is_a_script_of_the_shell() -> None:
    found = translate(Submission(options=("--wrap", "python train.py")), site(), NOW)
    assert found.spec["name"] == "wrap"
    assert "#!/bin/sh\npython train.py\n" in found.spec["command"]
